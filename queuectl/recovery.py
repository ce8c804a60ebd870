"""Workers that died: find them, kill what is left of their runs, put their jobs back in line."""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import NamedTuple

from queuectl import platforms
from queuectl.errors import LeaseLost
from queuectl.files import remove
from queuectl.home import Home
from queuectl.job import Job, Verdict
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


class Recovered(NamedTuple):
    worker: Worker
    job: Job
    verdict: Verdict


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


def recover(storage: Storage, home: Home) -> list[Recovered]:
    """Put back the jobs of all dead workers; whoever does it at the same time does no harm."""
    recovered = []
    for worker, found in conditions(storage):
        if found is Condition.ALIVE:
            continue
        for job in storage.held_by(worker.name):
            if found is Condition.LOST:
                platforms.kill_marked(run_mark(storage, job))
            with contextlib.suppress(LeaseLost):
                recovered.append(Recovered(worker, job, storage.lose(job, found is Condition.REBOOTED)))
        storage.remove_worker(worker.name)
        for path in home.spool(worker.name):
            remove(path)
    return recovered


def run_mark(storage: Storage, job: Job) -> str:
    """What every process of this run carries in its environment as QUEUECTL_RUN; a number is never used again."""
    return f"{storage.queue_id()}.{job.seq}.{job.lease}"
