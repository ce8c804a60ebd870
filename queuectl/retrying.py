"""Retry many jobs in batches, so that jobs that depend on each other wait for each other again, across batches.

Each job is retried after its dependencies. They have not ended any more by then, so the job waits for them; and if the
retry is interrupted, no retried job waits for a job that was not retried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

from queuectl.job import Job, State
from queuectl.storage import Storage

BATCH = 500  # jobs per transaction: few enough that other transactions hardly wait


class Chosen(NamedTuple):
    """The only data kept for each job until its batch: there may be millions of jobs."""

    state: State
    has_dependents: bool


def retry_all(storage: Storage, jobs: Iterable[Job]) -> Iterator[int]:
    """Retry the jobs whose state has not changed since they were read; yield each batch's number of jobs."""
    chosen = {job.seq: Chosen(job.state, job.dependents > 0) for job in jobs}
    numbers = needs_first(storage, chosen)
    earlier: set[int] = set()
    for start in range(0, len(numbers), BATCH):
        found = [(storage.glance_at(seq), chosen[seq].state) for seq in numbers[start : start + BATCH]]
        yield storage.retry([job for job, state in found if job is not None and job.state is state], earlier)


def needs_first(storage: Storage, chosen: dict[int, Chosen]) -> Sequence[int]:
    """The job numbers, each after the numbers of its dependencies."""
    ties: TopologicalSorter[int] = TopologicalSorter()
    for seq, job in chosen.items():
        if job.has_dependents:
            for dependent in storage.tied_to(seq):
                if dependent in chosen:
                    ties.add(dependent, seq)
    tied = dict.fromkeys(ties.static_order())
    return [*(seq for seq in chosen if seq not in tied), *tied]
