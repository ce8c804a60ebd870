"""Workers that died: find them, kill what is left of their runs, put their jobs back in line."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from queuectl.errors import LeaseLost
from queuectl.files import remove
from queuectl.home import Home
from queuectl.job import Job, Verdict
from queuectl.liveness import Condition, conditions
from queuectl.platforms import runs
from queuectl.storage import Storage, Worker


class Recovered(NamedTuple):
    worker: Worker
    job: Job
    verdict: Verdict


def recover(storage: Storage, home: Home) -> list[Recovered]:
    """Put back the jobs of all dead workers; whoever does it at the same time does no harm."""
    recovered = []
    for worker, found in conditions(storage):
        if found is Condition.ALIVE:
            continue
        for job in storage.held_by(worker.name):
            if found is Condition.LOST:
                runs.kill_marked(run_mark(storage, job))
            with contextlib.suppress(LeaseLost):
                recovered.append(Recovered(worker, job, storage.lose(job, found is Condition.REBOOTED)))
        storage.remove_worker(worker.name)
        for path in home.spool(worker.name):
            remove(path)
    return recovered


def run_mark(storage: Storage, job: Job) -> str:
    """What every process of this run carries in its environment as QUEUECTL_RUN; a number is never used again."""
    return f"{storage.queue_id()}.{job.seq}.{job.lease}"
