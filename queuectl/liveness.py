"""Whether each worker that the queue knows is alive, as far as this process can tell."""

from enum import Enum
from typing import NamedTuple

from queuectl import platforms
from queuectl.job import Job
from queuectl.storage import Storage, Worker
from queuectl.times import Millis

# A worker whose process cannot be looked up from here counts as dead once it has missed MISSED_HEARTBEATS heartbeats.
# Before that, after LEASE_HEARTBEATS without a heartbeat that reached the database, it has ended its run itself.
MISSED_HEARTBEATS = 3
LEASE_HEARTBEATS = 2.5


class Condition(str, Enum):
    ALIVE = "alive"
    LOST = "lost"
    REBOOTED = "rebooted"  # the machine restarted under it, or on Windows its user signed out

    def __str__(self) -> str:
        return self.value


class Standing(NamedTuple):
    """A worker, its condition, the job in hand, and its memory use if its process is on this machine."""

    worker: Worker
    condition: Condition
    job: Job | None
    memory_bytes: int | None

    @property
    def is_lost(self) -> bool:
        return self.condition is not Condition.ALIVE


def is_here(worker: Worker) -> bool:
    """Whether its process can be looked up from here."""
    return (worker.boot_id, worker.pid_space) == (platforms.boot_id(), platforms.pid_space())


def condition(worker: Worker, now: Millis, heartbeat_interval: float, is_shared: bool) -> Condition:
    """The worker's condition. On its own machine pid and start time decide: a suspended worker or laptop is alive."""
    if is_here(worker):
        alive = platforms.start_time(worker.pid) == worker.start_time
        if not alive and platforms.began_before_logon(worker.start_time):
            return Condition.REBOOTED
    elif worker.boot_id != platforms.boot_id() and not is_shared:
        return Condition.REBOOTED
    else:
        alive = now - worker.heartbeat_at <= MISSED_HEARTBEATS * heartbeat_interval * 1000
    return Condition.ALIVE if alive else Condition.LOST


def available(storage: Storage) -> list[Worker]:
    """The workers that will take another job: they are alive and were not told to stop."""
    return [worker for worker, found in conditions(storage) if found is Condition.ALIVE and worker.stop_grace is None]


def conditions(storage: Storage) -> list[tuple[Worker, Condition]]:
    workers = storage.workers()
    if not workers:
        return []
    interval = storage.settings().heartbeat_interval
    now = storage.clock.now()
    return [(worker, condition(worker, now, interval, storage.is_shared)) for worker in workers]
