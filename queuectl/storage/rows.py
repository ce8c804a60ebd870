"""What a row of each table is, by the names of its columns; a row of `jobs` is a Job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from queuectl import config
from queuectl.job import DEFAULT_QUEUE, Job, State
from queuectl.times import Millis

COMMAND_LETTERS = 1_000  # of a command are enough to know it again
EVERY_QUEUE = "*"  # the name of the row of `queues` that stands for all
STATE, RANK = Job._fields.index("state"), Job._fields.index("rank")
STATES = {state.value: state for state in State}  # asking the Enum takes longer


class Worker(NamedTuple):
    """A row of `workers`: who it is, and how it is."""

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
    queues: str | None = None  # those that it serves, with commas between them; None is all

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
    """What figures and estimates are taken from."""

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
    """A place in line: whose it is, what it runs, and where it stands."""

    seq: int
    command: str  # its first COMMAND_LETTERS
    queue: str = DEFAULT_QUEUE
    rank: int = 0


class Link(NamedTuple):
    """A job that another waits for, or that waits for another: what it is by now, and how the one must end."""

    id: str
    state: str
    wanted: str
    is_met: int


class QueueRow(NamedTuple):
    """A row of `queues`: what it lets start."""

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
