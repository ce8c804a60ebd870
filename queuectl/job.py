"""A job: its fields, its states, and the state it gets after a run."""

from enum import Enum
from typing import NamedTuple

from queuectl.errors import WrongState
from queuectl.times import Millis

LAST = "last"  # means the newest job, wherever an id is accepted
ANY = "any"
DEFAULT_QUEUE = "default"
MOST_LOST_IN_A_ROW = 3
HIGHEST_PRIORITY = 10
# Variables that belong to one run: a job that is enqueued from within a run must not inherit them.
AFTER_VARIABLES = ("QUEUECTL_AFTER_ID", "QUEUECTL_AFTER_STATE", "QUEUECTL_AFTER_EXIT_CODE")
TRACEPARENT, TRACESTATE = "TRACEPARENT", "TRACESTATE"
RUN_VARIABLES = ("QUEUECTL_RUN", "QUEUECTL_JOB_ID", *AFTER_VARIABLES, TRACEPARENT, TRACESTATE)
OTLP_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
TRACE_SIGNS = (TRACEPARENT, "OTEL_TRACES_EXPORTER", *OTLP_ENDPOINTS)  # if none of them is set, there are no traces


class State(str, Enum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return self.value

    @property
    def has_ended(self) -> bool:
        """Whether the state is final: no worker takes the job again unless a user retries it."""
        return self in (State.COMPLETED, State.DEAD, State.CANCELLED)


class Job(NamedTuple):
    """A row of `jobs`; its columns have the same names. The fields from `output` on are read only where needed."""

    seq: int
    id: str
    command: str
    argv: str | None
    state: State
    was: str | None
    priority: int
    max_retries: int
    timeout: int
    backoff_base: float
    attempts: int
    lost: int
    lease: int
    cwd: str
    environment: str | None
    env: str | None
    rank: int | None
    since_tick: int | None
    since_at: Millis | None
    started_tick: int | None
    due_at: Millis | None
    run_at: Millis | None
    created_at: Millis
    updated_at: Millis
    started_at: Millis | None
    finished_at: Millis | None
    duration_seconds: float | None
    worker: str | None
    exit_code: int | None
    error_message: str | None
    cancel_reason: str | None
    label: str | None
    unique_key: str | None
    waits_for: int
    dependents: int
    after_id: str | None  # the job whose end let this one enter the line,
    after_state: str | None  # that job's state,
    after_exit_code: int | None  # and its exit code
    begun_after: int  # the newest lease when the job was last retried by hand
    shell: str | None
    no_retry_on: str | None
    jitter: float
    no_rerun: int
    queue: str
    traceparent: str | None
    output: str | None = None
    stderr: str | None = None
    waiting_time: int = 0

    @property
    def waited_until(self) -> Millis | None:
        """When the job stopped waiting: at its start, or when it was cancelled while it waited."""
        ended_in_line = self.state is State.CANCELLED and self.cancel_reason is None
        return self.finished_at if ended_in_line else self.started_at

    @property
    def effective_priority(self) -> int:
        return self.priority + self.waiting_time

    @property
    def is_waiting(self) -> bool:
        return self.state in (State.PENDING, State.FAILED)


class Need(NamedTuple):
    """A job that another job waits for, and how it must end: completed, dead, or any."""

    id: str
    wanted: str

    def is_met(self, state: State) -> bool:
        return state.has_ended if self.wanted == ANY else state.value == self.wanted


class NewJob(NamedTuple):
    """A new job: checked, but not stored yet."""

    id: str | None
    command: str
    argv: str | None
    priority: int
    max_retries: int
    timeout: int
    backoff_base: float
    run_at: Millis | None
    cwd: str
    env: str | None
    label: str | None = None
    unique_key: str | None = None
    needs: tuple[Need, ...] = ()
    shell: str | None = None
    no_retry_on: str | None = None  # exit codes, with commas between them
    jitter: float = 0
    no_rerun: int = 0
    queue: str = DEFAULT_QUEUE
    traceparent: str | None = None


class Outcome(NamedTuple):
    """The result of one run. Without an exit code the command never started, or queuectl ended it for `reason`."""

    exit_code: int | None
    duration_seconds: float
    output: str = ""
    stderr: str = ""
    reason: str | None = None
    state: State | None = None  # the job's next state, if the exit code does not decide it
    has_started: bool = True  # False if the command was not started, or could not be


# The beginnings of messages that say why a run was ended before its command had ended.
TIMED_OUT, WORKER_STOPPED, WORKER_LOST = "timed out", "its worker was stopped", "worker lost"


class Verdict(NamedTuple):
    """The state that a job gets after a run, and the outcome that its history records."""

    state: State
    outcome: str
    error_message: str | None = None
    run_at: Millis | None = None
    lost: int = 0


def after_run(job: Job, outcome: Outcome, now: Millis, max_backoff: float, chance: float = 0) -> Verdict:
    """The job's verdict after a run; `chance`, from 0 to 1, says how much of its jitter is added to the wait."""
    if outcome.state is State.PENDING:
        if job.no_rerun and outcome.has_started:
            return Verdict(State.DEAD, "dead", f"{outcome.reason}, and it must not run twice")
        return Verdict(State.PENDING, "released", outcome.reason, lost=job.lost)
    if outcome.state is State.CANCELLED:
        return cancelled(outcome.reason)
    if outcome.exit_code == 0:
        return Verdict(State.COMPLETED, "completed")
    reason = outcome.reason or f"exit code {outcome.exit_code}"
    if outcome.exit_code is not None and str(outcome.exit_code) in (job.no_retry_on or "").split(","):
        return Verdict(State.DEAD, "dead", f"{reason}, which is not retried")
    if job.no_rerun or job.attempts > job.max_retries:
        return Verdict(State.DEAD, "dead", reason)
    return Verdict(State.FAILED, "failed", reason, now + backoff_millis(job, max_backoff, chance))


def after_loss(job: Job, rebooted: bool) -> Verdict:
    """The verdict after a lost worker: it costs no try, but a job must not crash its workers again and again."""
    if rebooted and not job.no_rerun:
        return Verdict(
            State.PENDING, "lost", f"{WORKER_LOST}: the machine restarted, or its user signed out", lost=job.lost
        )
    lost = job.lost + 1
    if job.no_rerun:
        return Verdict(State.DEAD, "lost", f"{WORKER_LOST}, and it must not run twice", lost=lost)
    if lost >= MOST_LOST_IN_A_ROW:
        return Verdict(State.DEAD, "lost", f"{WORKER_LOST} {lost} times in a row", lost=lost)
    return Verdict(State.PENDING, "lost", WORKER_LOST, lost=lost)


def cancelled(reason: str | None) -> Verdict:
    return Verdict(State.CANCELLED, "cancelled", reason)


def backoff_millis(job: Job, max_backoff: float, chance: float = 0) -> Millis:
    """The wait after the job's newest failure: min(backoff_base ** n, max_backoff) seconds, plus some of its jitter."""
    try:
        seconds = min(float(job.backoff_base) ** job.attempts, max_backoff)
    except OverflowError:
        seconds = max_backoff
    return round(seconds * (1 + job.jitter * chance) * 1000)


# --- operations that a job's state forbids ---


def refuse_ended(job: Job) -> None:
    if job.state.has_ended:
        raise WrongState(f"Job {job.id!r} is {job.state} already: there is nothing to cancel")


def refuse_unended(job: Job, done: str = "retried") -> None:
    if not job.state.has_ended:
        raise WrongState(f"Job {job.id!r} is {job.state}: only a job that has ended can be {done}")


def refuse_running(job: Job) -> None:
    if job.state is State.PROCESSING:
        raise WrongState(f"Job {job.id!r} runs: nothing was deleted. Cancel it first: queuectl cancel {job.id}")
