"""The rows of the tables as named tuples; a row of `jobs` is a Job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from queuectl import config
from queuectl.job import DEFAULT_QUEUE, Job, State
from queuectl.times import Millis

COMMAND_LETTERS = 1_000  # enough of a command to recognise it
EVERY_QUEUE = "*"  # the name of the row of `queues` that stands for all queues
STATE, RANK = Job._fields.index("state"), Job._fields.index("rank")
STATES = {state.value: state for state in State}  # faster than the Enum's own lookup


class Worker(NamedTuple):
    """A row of `workers`: the identity of the process, and its state."""

    name: str
    pid: int
    start_time: str
    boot_id: str
    pid_space: str
    host: str
    started_at: Millis
    heartbeat_at: Millis
    processed: int
    stop_grace: float | None
    queues: str | None = None  # the queues that it serves, separated by commas; None is all

    def serves(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues.split(",")


class Run(NamedTuple):
    """A row of `runs`: one try that has ended."""

    lease: int
    attempt: int
    worker: str | None
    started_at: Millis
    finished_at: Millis
    duration_seconds: float
    outcome: str
    exit_code: int | None
    error_message: str | None


class EndedRun(NamedTuple):
    """A run that has ended, as metrics and estimates use it."""

    job_id: str
    worker: str | None
    started_at: Millis
    finished_at: Millis
    duration_seconds: float
    waited_seconds: float
    outcome: str
    command: str  # its first COMMAND_LETTERS
    queue: str = DEFAULT_QUEUE


class Turn(NamedTuple):
    """A place in line: the job's number, its command, its queue and its rank."""

    seq: int
    command: str  # its first COMMAND_LETTERS
    queue: str = DEFAULT_QUEUE
    rank: int = 0


class Link(NamedTuple):
    """A dependency, seen from one of its jobs: the other job, its state, the required end, and whether it is met."""

    id: str
    state: str
    wanted: str
    is_met: int


class QueueRow(NamedTuple):
    """A row of `queues`: whether it is paused, its limit of running jobs, and its rate."""

    name: str
    is_paused: int = 0
    run_limit: int | None = None
    rate_text: str | None = None

    @property
    def rate(self) -> config.Rate | None:
        return config.parse_rate(self.rate_text or "")

    @property
    def is_bounded(self) -> bool:
        return self.run_limit is not None or self.rate_text is not None


def as_job(row: Sequence[Any]) -> Job:
    values = list(row)
    values[STATE] = STATES[values[STATE]]
    return Job(*values)
