"""Retry many jobs, a batch at a time, so that those that wait for each other wait again, whichever batch each is in.

A job comes after all those of the others that it waits for: by then they are in line, and it waits for them. So a retry
that is cut short leaves nobody to wait for a job that was not retried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

from queuectl.job import Job, State
from queuectl.storage import Storage

BATCH = 500  # jobs a transaction: so few that nobody waits for it


class Chosen(NamedTuple):
    """All that is kept of a job until its batch comes: there may be millions."""

    state: State
    has_dependents: bool


def retry_all(storage: Storage, jobs: Iterable[Job]) -> Iterator[int]:
    """Retry those of the jobs that are still as they were when they were chosen; after each batch, how many it were."""
    chosen = {job.seq: Chosen(job.state, job.dependents > 0) for job in jobs}
    numbers = needs_first(storage, chosen)
    earlier: set[int] = set()
    for start in range(0, len(numbers), BATCH):
        found = [(storage.glance_at(seq), chosen[seq].state) for seq in numbers[start : start + BATCH]]
        yield storage.retry([job for job, state in found if job is not None and job.state is state], earlier)


def needs_first(storage: Storage, chosen: dict[int, Chosen]) -> Sequence[int]:
    """The numbers of the jobs, each after those of the others that it waits for."""
    ties: TopologicalSorter[int] = TopologicalSorter()
    for seq, job in chosen.items():
        if job.has_dependents:
            for dependent in storage.tied_to(seq):
                if dependent in chosen:
                    ties.add(dependent, seq)
    tied = dict.fromkeys(ties.static_order())
    return [*(seq for seq in chosen if seq not in tied), *tied]
