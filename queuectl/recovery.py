"""Find dead workers, kill the remaining processes of their runs, and put their jobs back in line."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from queuectl.errors import LeaseLost
from queuectl.files import remove
from queuectl.home import Home
from queuectl.job import Job, Verdict
from queuectl.liveness import MISSED_HEARTBEATS, Condition, conditions, is_here
from queuectl.platforms import runs
from queuectl.storage import Storage, Worker


class Recovered(NamedTuple):
    worker: str
    job: Job
    verdict: Verdict


def recover(storage: Storage, home: Home) -> list[Recovered]:
    """Put back the jobs of all dead workers; several processes may safely do this at the same time."""
    recovered: list[Recovered] = []
    silence = MISSED_HEARTBEATS * storage.known_settings.heartbeat_interval
    for worker, found in conditions(storage):
        if found is Condition.ALIVE:
            continue
        if not is_here(worker) and storage.connected_seconds() < silence:
            continue  # after an outage of the server all heartbeats are old: give the workers time to send new ones
        for job in storage.held_by(worker.name):
            if is_here(worker):
                runs.kill_marked(run_mark(storage, job))
            _put_back(storage, job, found is Condition.REBOOTED, worker, recovered)
        if storage.remove_dead(worker):
            for path in home.spools(worker.name):
                remove(path)
    # A worker whose row was removed as dead may claim another job before it notices, and die before it registers again.
    for job in storage.orphans():
        if storage.clock.now() - job.updated_at > silence * 1000 and storage.connected_seconds() >= silence:
            runs.kill_marked(run_mark(storage, job))
            _put_back(storage, job, False, None, recovered)
    return recovered


def _put_back(storage: Storage, job: Job, rebooted: bool, worker: Worker | None, recovered: list[Recovered]) -> None:
    """Put the job back, unless the worker has sent a heartbeat since, or another process was first (LeaseLost)."""
    with contextlib.suppress(LeaseLost):
        recovered.append(Recovered(job.worker or "", job, storage.lose(job, rebooted, worker)))


def run_mark(storage: Storage, job: Job) -> str:
    """The value of QUEUECTL_RUN in the environment of this run's processes; no other run ever has the same one."""
    return f"{storage.queue_id()}.{job.seq}.{job.lease}"
