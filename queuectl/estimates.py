"""Estimate when jobs will start and end, from the durations of recent runs; without history there is no estimate.

The cost does not grow with the queue: only the newest SAMPLE runs and the first MOST_COUNTED jobs in line are read.
Where these are not enough for an estimate, there is none.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import NamedTuple

from queuectl.job import Job, State
from queuectl.liveness import Condition, conditions
from queuectl.metrics import SAMPLE, percentile
from queuectl.storage import COMMAND_LETTERS, EVERY_QUEUE, MOST_COUNTED, EndedRun, Storage, Turn
from queuectl.times import Millis

MOST_STEPS = 10_000
# Outcomes of runs that ended by themselves. A stopped, lost or cancelled run does not show how long the command takes.
REAL = {State.COMPLETED.value, State.FAILED.value, State.DEAD.value}


class Typical:
    """How long a run takes: the median of the runs of the same command, else of the same queue."""

    def __init__(self, runs: Iterable[EndedRun]) -> None:
        of_command: defaultdict[str, list[float]] = defaultdict(list)
        of_queue: defaultdict[str, list[float]] = defaultdict(list)
        for run in runs:
            if run.outcome in REAL:
                of_command[run.command].append(run.duration_seconds)
                of_queue[run.queue].append(run.duration_seconds)
        self._by_command = {command: median(found) for command, found in of_command.items()}
        self._by_queue = {queue: median(found) for queue, found in of_queue.items()}

    def seconds(self, job: Job | Turn) -> float | None:
        return self._by_command.get(job.command[:COMMAND_LETTERS], self._by_queue.get(job.queue))

    def of_all(self, jobs: Iterable[Job | Turn]) -> float | None:
        """The median of the jobs' durations; None if the duration of any of them is unknown."""
        known: list[float] = []
        for job in jobs:
            seconds = self.seconds(job)
            if seconds is None:
                return None
            known.append(seconds)
        return median(known) if known else None


def median(values: Iterable[float]) -> float:
    return percentile(sorted(values), 0.5)


class Expected(NamedTuple):
    """When a job is expected to start (only if it is in line) and to end."""

    start_at: Millis | None = None
    end_at: Millis | None = None


NOTHING = Expected()


class Forecast(NamedTuple):
    """The expected times of the running jobs and of the first jobs in line, by job number."""

    now: Millis
    usual: float | None  # the median duration, in seconds, of the running jobs and the first in line
    workers: int
    expected: Mapping[int, Expected]
    last_due: Millis | None = None  # when the last of the jobs that wait for their time comes due
    is_plain: bool = True  # whether any free worker may start any waiting job at once: no limits, rates or own queues
    queues: Mapping[int, str] = {}  # the queue of each job in `expected`

    def of(self, job: Job) -> Expected:
        return self.expected.get(job.seq, NOTHING)

    def end_of(self, jobs: Sequence[Job]) -> Millis | None:
        """When the last of these jobs ends; None if the end of any of them is unknown."""
        ends = [self.of(job).end_at for job in jobs]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None

    def end_of_all(self, left: int, queue: str | None = None) -> Millis | None:
        """When all jobs that have not ended, `left` in number, will have ended; None if that is unknown.

        Jobs that are not in `expected` are assumed to take the usual time. That assumption does not hold for a single
        queue, or where limits, rates or workers' queues delay jobs: there every job's end must be in `expected`.
        """
        if self.usual is None or not self.workers:
            return None
        if queue is not None or not self.is_plain:
            found = [one for seq, one in self.expected.items() if queue in (None, self.queues[seq])]
            known = [one.end_at for one in found if one.end_at is not None]
            return max(known) if known and len(known) == left else None
        usual = self.usual * 1000
        ends = [expected.end_at for expected in self.expected.values() if expected.end_at is not None]
        others = max(0, left - len(self.expected))
        last = [max(ends) + round(ceil(others / self.workers) * usual)] if ends else []
        if self.last_due is not None:
            last.append(self.last_due + round(usual))
        return max(last, default=None)


def forecast_of(storage: Storage, jobs: Iterable[Job]) -> Forecast:
    """The forecast, if at least one of these jobs runs or is in line; else an empty one, which costs nothing."""
    if any(job.rank is not None or job.state is State.PROCESSING for job in jobs):
        return forecast(storage)
    return Forecast(storage.clock.now(), None, 0, {})


def forecast(storage: Storage, newest: Iterable[EndedRun] | None = None) -> Forecast:
    """The forecast, from the newest runs, the line, the live workers, and the limits and rates of the queues.

    A caller that has already read the newest runs may pass them.
    """
    typical = Typical(storage.newest_runs(SAMPLE) if newest is None else newest)
    running = storage.jobs(State.PROCESSING, MOST_COUNTED)
    working = {
        worker.name: worker.queues.split(",") if worker.queues else None
        for worker, condition in conditions(storage)
        if condition is Condition.ALIVE and worker.stop_grace is None
    }
    line, lanes, now = storage.front(MOST_COUNTED), lanes_of(storage), storage.clock.now()
    for queue in storage.cut_off(line, MOST_COUNTED):
        lanes[queue] = lanes[queue]._replace(goes_on=True)
    found = foresee(typical, running, line, working, now, lanes)
    waiting = {queue for queue, totals in storage.totals_by_queue().items() if totals["pending"] + totals["failed"]}
    is_plain = not any(working.values()) and all(lanes.get(queue) in FREE for queue in (*waiting, EVERY_QUEUE))
    return found._replace(last_due=storage.last_due(), is_plain=is_plain)


class Lane(NamedTuple):
    """A queue's limit of running jobs, the time between two starts, and when the next start is allowed.

    `goes_on` says that more of its jobs are in line than were read.
    """

    run_limit: int | None = None
    pace_millis: float = 0
    start_at: float = -inf
    goes_on: bool = False


FREE = (Lane(), Lane(goes_on=True))


def lanes_of(storage: Storage) -> dict[str, Lane]:
    """The lane of each open queue, and a lane EVERY_QUEUE for the rate that applies to all queues together."""
    now = storage.clock.now()
    limits = {queue.name: (queue.run_limit, queue.rate) for queue in storage.open_queues()}
    limits[EVERY_QUEUE] = (None, storage.known_settings.rate_rule)
    return {
        name: Lane(limit, rate.interval_millis, storage.paced(name, rate, now)) if rate else Lane(limit)
        for name, (limit, rate) in limits.items()
    }


def foresee(
    typical: Typical,
    running: Sequence[Job],
    line: Sequence[Turn],
    workers: Mapping[str, Collection[str] | None],
    now: Millis,
    lanes: Mapping[str, Lane] | None = None,
) -> Forecast:
    """Simulate the line: each worker, when it is free, takes the first job of its queues that may start then.

    A worker whose job has no expected end never becomes free, and that job's place in its queue neither.
    """
    expected: dict[int, Expected] = {}
    free_at: dict[str, float] = dict.fromkeys(workers, now)
    gates = {name: Gate(lane) for name, lane in (lanes or {}).items()}
    for job in running:
        seconds = typical.seconds(job)
        end = inf if seconds is None else (job.started_at or now) + round(seconds * 1000)
        if end <= now:  # the run takes longer than usual, and its end is unknown
            end = inf
        if job.worker in free_at:
            free_at[job.worker] = end
        if job.queue in gates:
            gates[job.queue].ends.append(end)
        if end < inf:
            expected[job.seq] = Expected(end_at=round(end))
    lines: defaultdict[str, deque[Turn]] = defaultdict(deque)
    for turn in line:
        lines[turn.queue].append(turn)
    free = [(at, name) for name, at in free_at.items() if at < inf]
    heapify(free)
    for _ in range(MOST_STEPS):
        if not free:
            break
        at, name = heappop(free)
        served = lines if workers[name] is None else lines.keys() & set(workers[name] or ())
        heads = [lines[queue][0] for queue in served if lines[queue]]
        starts = {turn: max((gate.start_at(at) for gate in of(gates, turn)), default=at) for turn in heads}
        able = [turn for turn, start in starts.items() if start <= at]
        if not able:
            soonest = min(starts.values(), default=inf)
            if soonest < inf:
                heappush(free, (soonest, name))
            continue
        turn = min(able, key=lambda turn: (turn.rank, turn.seq))
        lines[turn.queue].popleft()
        seconds = typical.seconds(turn)
        end = inf if seconds is None else at + round(seconds * 1000)
        expected[turn.seq] = Expected(ceil(at), None if end == inf else ceil(end))
        for gate in of(gates, turn):
            gate.pass_through(at, end)
        if end < inf:
            heappush(free, (end, name))
        if not lines[turn.queue] and turn.queue in gates and gates[turn.queue].lane.goes_on:
            break  # the queue's next job was not read, and may come before all jobs that were
    queues = {**{job.seq: job.queue for job in running}, **{turn.seq: turn.queue for turn in line}}
    return Forecast(now, typical.of_all([*running, *line]), len(workers), expected, queues=queues)


class Gate:
    """A lane during the simulation: when the runs in it end, and when its rate lets the next job start."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.ends: list[float] = []
        self.paced = lane.start_at

    def start_at(self, at: float) -> float:
        """The earliest time, not before `at`, at which the limit and the rate let the next job start."""
        if self.lane.run_limit is None:
            return self.paced
        self.ends = sorted(end for end in self.ends if end > at)
        too_many = len(self.ends) - self.lane.run_limit
        return max(self.paced, self.ends[too_many] if too_many >= 0 else -inf)

    def pass_through(self, at: float, end: float) -> None:
        self.paced = max(self.paced, at) + self.lane.pace_millis
        if self.lane.run_limit is not None:
            self.ends.append(end)


def of(gates: Mapping[str, Gate], turn: Turn) -> list[Gate]:
    """The gates that a job in line must pass: its queue's and the one of all queues."""
    return [gates[name] for name in (turn.queue, EVERY_QUEUE) if name in gates]
