"""Who lives: how each worker that the queue knows is, seen from here."""

from enum import Enum
from typing import NamedTuple

from queuectl import platforms
from queuectl.job import Job
from queuectl.storage import Storage, Worker
from queuectl.times import Millis

# A worker that cannot be looked up from here is dead when it has missed so many heartbeats.
MISSED_HEARTBEATS = 3


class Condition(str, Enum):
    ALIVE = "alive"
    LOST = "lost"
    REBOOTED = "rebooted"  # the machine restarted under it

    def __str__(self) -> str:
        return self.value


class Standing(NamedTuple):
    """A worker, how it is, what it has in hand, and how much memory it uses, if it can be seen from here."""

    worker: Worker
    condition: Condition
    job: Job | None
    memory_bytes: int | None

    @property
    def is_lost(self) -> bool:
        return self.condition is not Condition.ALIVE


def condition(worker: Worker, now: Millis, heartbeat_interval: float) -> Condition:
    """Pid and start time decide, not the heartbeat: a suspended worker, or laptop, is not a dead one."""
    if worker.boot_id != platforms.boot_id():
        return Condition.REBOOTED
    if worker.pid_space == platforms.pid_space():
        alive = platforms.start_time(worker.pid) == worker.start_time
    else:
        alive = now - worker.heartbeat_at <= MISSED_HEARTBEATS * heartbeat_interval * 1000
    return Condition.ALIVE if alive else Condition.LOST


def conditions(storage: Storage) -> list[tuple[Worker, Condition]]:
    workers = storage.workers()
    if not workers:
        return []
    now, interval = storage.clock.now(), storage.settings().heartbeat_interval
    return [(worker, condition(worker, now, interval)) for worker in workers]
