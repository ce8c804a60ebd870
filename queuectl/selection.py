"""Select jobs by their properties, with the same criteria in the CLI, the Python API and the REST API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from queuectl.errors import InvalidInput, brief
from queuectl.job import DEFAULT_QUEUE, Job, State
from queuectl.storage import Storage, cursor_after
from queuectl.times import Millis

CHUNK = 500
MOST_LOOKED_AT = 10_000


class Selection(NamedTuple):
    """The criteria that a job must meet; None matches any value."""

    state: State | None = None
    label: str | None = None
    match: str | None = None
    older_than_seconds: float | None = None
    queue: str | None = None
    reason: str | None = None  # its exact error message

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds exactly these jobs, so that no other rows are read."""
        if (self.match, self.older_than_seconds, self.reason) != (None, None, None):
            return False
        if self.queue is not None:
            return self.queue != DEFAULT_QUEUE and self.label is None and self.state is not State.PENDING
        return self.state is None or self.label is None

    def admits(self, job: Job, now: Millis) -> bool:
        return (
            (self.state is None or job.state is self.state)
            and (self.label is None or job.label == self.label)
            and (self.queue is None or job.queue == self.queue)
            and (self.reason is None or job.error_message == self.reason)
            and (self.match is None or self.match.lower() in job.command.lower())
            and (self.older_than_seconds is None or now - age_from(job) >= self.older_than_seconds * 1000)
        )


def known_state(state: State | str | None) -> State | None:
    try:
        return None if state is None else State(state)
    except ValueError:
        raise InvalidInput(f"state cannot be {brief(state)}. It takes one of: {', '.join(State)}") from None


def by_index(wanted: Selection) -> tuple[State | None, str | None, str | None]:
    """The criteria that have an index."""
    return wanted.state, wanted.label, wanted.queue


def age_from(job: Job) -> Millis:
    """The time that --older-than counts from: the job's end, or its creation if it has not ended."""
    ended = job.finished_at if job.state.has_ended else None
    return job.created_at if ended is None else ended


class Page(NamedTuple):
    """The jobs of one page, and the cursor of the next page; None if this page is the last."""

    jobs: list[Job]
    cursor: str | None


def find(storage: Storage, wanted: Selection, limit: int, cursor: str = "") -> Page:
    """A page of at most `limit` matching jobs; after about MOST_LOOKED_AT rows it ends early, with a cursor."""
    found: list[Job] = []
    looked_at = 0
    now = storage.clock.now()
    following: str | None = cursor
    chunk = limit if wanted.is_indexed else CHUNK
    while following is not None and len(found) < limit and looked_at < MOST_LOOKED_AT:
        jobs, following = storage.page(min(chunk, CHUNK), *by_index(wanted), following)
        looked_at += len(jobs)
        found += [job for job in jobs if wanted.admits(job, now)]
    if len(found) > limit:
        return Page(found[:limit], cursor_after(found[limit - 1], *by_index(wanted)))
    return Page(found, following)


def find_all(storage: Storage, wanted: Selection, limit: int | None = None) -> Iterator[list[Job]]:
    """All matching jobs, a page at a time; jobs that change meanwhile may or may not be found."""
    cursor: str | None = ""
    while cursor is not None and (limit is None or limit > 0):
        jobs, cursor = find(storage, wanted, CHUNK if limit is None else min(CHUNK, limit), cursor)
        limit = None if limit is None else limit - len(jobs)
        yield jobs
