"""When jobs will start and end, by how long runs took lately; nothing where there is no history.

It costs the same however long the queue is: the newest SAMPLE runs are looked at, and the first MOST_COUNTED in line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import ceil
from typing import NamedTuple

from queuectl.job import Job, State
from queuectl.liveness import Condition, conditions
from queuectl.metrics import SAMPLE, percentile
from queuectl.storage import COMMAND_LETTERS, MOST_COUNTED, EndedRun, Storage, Turn
from queuectl.times import Millis

# How a run ends by itself. One that was stopped, lost or cancelled says nothing of how long the command takes.
REAL = {State.COMPLETED.value, State.FAILED.value, State.DEAD.value}


class Typical:
    """How long a run takes: the median of the same command's, else of all."""

    def __init__(self, runs: Iterable[EndedRun]) -> None:
        durations: defaultdict[str, list[float]] = defaultdict(list)
        for run in runs:
            if run.outcome in REAL:
                durations[run.command].append(run.duration_seconds)
        self._by_command = {command: median(found) for command, found in durations.items()}
        # A second group, by queue, goes between these two.
        everything = [seconds for found in durations.values() for seconds in found]
        self.overall = median(everything) if everything else None

    def seconds(self, job: Job | Turn) -> float | None:
        return self._by_command.get(job.command[:COMMAND_LETTERS], self.overall)


def median(values: Iterable[float]) -> float:
    return percentile(sorted(values), 0.5)


class Expected(NamedTuple):
    """When a job is expected to start, if it is in line, and to end."""

    start_at: Millis | None = None
    end_at: Millis | None = None


NOTHING = Expected()


class Forecast(NamedTuple):
    """What is expected of the jobs that run and of the first in line, by their numbers."""

    now: Millis
    typical: Typical
    workers: int
    expected: Mapping[int, Expected]
    last_due: Millis | None = None  # when the last of those comes due that wait for their time

    def of(self, job: Job) -> Expected:
        return self.expected.get(job.seq, NOTHING)

    def end_of(self, jobs: Sequence[Job]) -> Millis | None:
        """When the last of these ends; unknown if it is of one of them."""
        ends = [self.of(job).end_at for job in jobs]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None

    def end_of_all(self, left: int) -> Millis | None:
        """When so many jobs are done, all that there are: as the first in line will be, and the others like them."""
        if self.typical.overall is None or not self.workers:
            return None
        usual = self.typical.overall * 1000
        ends = [expected.end_at for expected in self.expected.values() if expected.end_at is not None]
        others = max(0, left - len(self.expected))
        last = [max(ends) + round(ceil(others / self.workers) * usual)] if ends else []
        if self.last_due is not None:
            last.append(self.last_due + round(usual))
        return max(last, default=None)


def forecast_of(storage: Storage, jobs: Iterable[Job]) -> Forecast:
    """What is to be expected, if one of these jobs is one of which anything can be."""
    if any(job.rank is not None or job.state is State.PROCESSING for job in jobs):
        return forecast(storage)
    return Forecast(storage.clock.now(), Typical([]), 0, {})


def forecast(storage: Storage) -> Forecast:
    """What is to be expected, from the newest runs, the line, and who lives."""
    typical = Typical(storage.newest_runs(SAMPLE))
    running = storage.jobs(State.PROCESSING, MOST_COUNTED)
    working = [
        worker.name
        for worker, condition in conditions(storage)
        if condition is Condition.ALIVE and worker.stop_grace is None
    ]
    found = foresee(typical, running, storage.front(MOST_COUNTED), working, storage.clock.now())
    return found._replace(last_due=storage.last_due())


def foresee(
    typical: Typical, running: Sequence[Job], line: Iterable[Turn], workers: Sequence[str], now: Millis
) -> Forecast:
    """Each worker takes the next in line when it is free; who has a job in hand that nobody knows is never free."""
    expected: dict[int, Expected] = {}
    free = dict.fromkeys(workers, now)
    for job in running:
        seconds = typical.seconds(job)
        if seconds is None:
            free.pop(job.worker or "", None)
            continue
        end = (job.started_at or now) + round(seconds * 1000)
        if job.worker in free:
            free[job.worker] = max(now, end)
        if end > now:  # who is late may end at any time
            expected[job.seq] = Expected(end_at=end)
    free_at = list(free.values())
    heapify(free_at)
    for turn in line:
        if not free_at:
            break
        start = heappop(free_at)
        seconds = typical.seconds(turn)
        if seconds is None:
            expected[turn.seq] = Expected(start)
            continue
        end = start + round(seconds * 1000)
        expected[turn.seq] = Expected(start, end)
        heappush(free_at, end)
    return Forecast(now, typical, len(workers), expected)
