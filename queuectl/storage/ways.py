"""Ways through the jobs: along which index, from which place, and the cursor of the next page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from queuectl.errors import InvalidInput, brief
from queuectl.job import DEFAULT_QUEUE, Job, State

AFTER_ALL_JOBS = 2**63 - 1
LOWEST = -(2**63)


class Way(NamedTuple):
    """A way through the jobs along an index: the query, the number at which it starts, and the sort key beside it."""

    query: str
    start: int
    key: Callable[[Job], int | None] = lambda job: 0


NEWEST = [Way("jobs", AFTER_ALL_JOBS)]
IN_STATE = [Way("jobs_in_state", AFTER_ALL_JOBS)]
NEWEST_LABELLED = [Way("jobs_labelled", AFTER_ALL_JOBS)]
NEWEST_OF_QUEUE = [Way("jobs_of_queue", AFTER_ALL_JOBS)]
WAITING = [
    Way("in_line", 0, lambda job: job.rank),
    Way("later", 0, lambda job: job.due_at),
    Way("blocked", 0),
]
LATER, BLOCKED = (f"{number}:{LOWEST}:0" for number in (1, 2))  # cursors: where each of these two begins


def ways_to(state: State | None, label: str | None, queue: str | None) -> list[Way]:
    if label is not None:
        return NEWEST_LABELLED
    if state is State.PENDING:
        return WAITING
    if queue not in (None, DEFAULT_QUEUE):
        return NEWEST_OF_QUEUE
    return NEWEST if state is None else IN_STATE


def cursor_after(job: Job, state: State | None, label: str | None, queue: str | None) -> str:
    """The cursor after this job, in a listing of jobs of this state, label and queue."""
    ways = ways_to(state, label, queue)
    number = 0
    if ways is WAITING and job.rank is None:
        number = 1 if job.due_at is not None else 2
    return f"{number}:{ways[number].key(job)}:{job.seq}"


def place_of(cursor: str, ways: Sequence[Way]) -> tuple[int, int, int]:
    """The index of the way, and the key and the job's number at which to go on."""
    try:
        number, key, seq = map(int, cursor.split(":"))
        if not 0 <= number < len(ways) or not LOWEST <= min(key, seq) <= max(key, seq) <= AFTER_ALL_JOBS:
            raise ValueError
    except ValueError:
        raise InvalidInput(f"{brief(cursor)} is not a cursor. Begin again without one") from None
    return number, key, seq
