"""Wait until jobs have ended: sleep, and check again after every change of the queue."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from queuectl.errors import InvalidInput, WaitedTooLong
from queuectl.job import Job, State
from queuectl.storage import Storage

LOOK_SECONDS = 1.0
LOOKED_AT = 20  # jobs that have not ended are read per check
PAUSE_SECONDS = 0.005  # between two checks, so that a stream of changes does not cause one check each


class Progress(NamedTuple):
    """The numbers of awaited jobs by state."""

    completed: int
    dead: int
    cancelled: int
    running: int
    waiting: int
    deleted: int = 0  # before their end was seen

    @property
    def left(self) -> int:
        return self.running + self.waiting

    @property
    def ended(self) -> int:
        return self.completed + self.dead + self.cancelled + self.deleted

    @property
    def all_completed(self) -> bool:
        return not self.left and self.ended == self.completed


class ForJobs:
    """Waits for given jobs. Each check reads a few of them, in rotation: a job may be deleted soon after its end."""

    def __init__(self, storage: Storage, jobs: Sequence[Job]) -> None:
        if own_number(storage) in [job.seq for job in jobs]:
            raise InvalidInput("A job cannot wait for itself. Leave out its own id")
        self._storage = storage
        self.ended: list[Job] = []  # as they were when their end was seen
        self.deleted: list[Job] = []  # jobs that were deleted before their end was seen
        self.left = deque(jobs)

    def is_over(self) -> bool:
        waiting = 0
        while waiting < min(LOOKED_AT, len(self.left)):
            waiting += self._look_at(self.left.popleft())
        return not self.left

    def _look_at(self, known: Job) -> bool:
        """Read the job again; True if it has not ended: then it is put at the end of `left`."""
        job = self._storage.glance_at(known.seq)
        if job is None:
            self.deleted.append(known)
        elif job.state.has_ended:
            self.ended.append(job)
        else:
            self.left.append(job)
            return True
        return False

    def progress(self) -> Progress:
        for _ in range(len(self.left)):
            self._look_at(self.left.popleft())
        states = [job.state for job in (*self.ended, *self.left)]
        return Progress(
            completed=states.count(State.COMPLETED),
            dead=states.count(State.DEAD),
            cancelled=states.count(State.CANCELLED),
            running=states.count(State.PROCESSING),
            waiting=states.count(State.PENDING) + states.count(State.FAILED),
            deleted=len(self.deleted),
        )


class ForAll:
    """Waits for all jobs, or all of a queue, including jobs enqueued meanwhile. It reads only counters, and no jobs."""

    def __init__(self, storage: Storage, queue: str | None = None) -> None:
        self._storage = storage
        self.queue = None if queue is None else storage.queue(queue).name
        own = own_number(storage)
        own_job = None if own is None else storage.glance_at(own)
        # If this process is part of a job, it does not wait for that job.
        self._own = int(own_job is not None and queue in (None, own_job.queue))
        self._before = self._totals()

    def _totals(self) -> dict[str, int]:
        if self.queue is None:
            return self._storage.totals()
        return self._storage.totals_by_queue()[self.queue]

    def is_over(self) -> bool:
        return self.progress().left == 0

    def progress(self) -> Progress:
        totals = self._totals()

        def since(event: str) -> int:
            return totals[event] - self._before[event]

        return Progress(
            completed=since("event_completed"),
            dead=since("event_dead"),
            cancelled=since("event_cancelled"),
            running=totals["processing"] - self._own,
            waiting=totals["pending"] + totals["failed"],
        )


def wait_until_over(
    storage: Storage, wanted: ForJobs | ForAll, timeout: float | None, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Return when all wanted jobs have ended; `meanwhile` is called after each check, at least once a second."""
    deadline = None if timeout is None else time.monotonic() + timeout
    storage.wait(0)  # start listening, so that no change is missed from here on
    storage.changed()
    while not wanted.is_over():
        meanwhile()
        left = LOOK_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise WaitedTooLong(timeout or 0)
        storage.wait(min(left, LOOK_SECONDS))
        time.sleep(PAUSE_SECONDS)
        storage.changed()


def own_number(storage: Storage) -> int | None:
    """The number of the job that this process is part of, if that is a job of this queue."""
    queue_id, _, rest = os.environ.get("QUEUECTL_RUN", "").partition(".")
    return int(rest.partition(".")[0]) if rest and queue_id == storage.queue_id() else None
