"""Recent activity of the queue, from its counters and its newest runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from queuectl.job import State
from queuectl.storage import EndedRun, Storage
from queuectl.times import Millis

SAMPLE = 1_000  # runs that averages and percentiles are taken over
LATELY_SECONDS = 600.0
EVENTS = ("enqueued", "started", "completed", "failed", "dead", "cancelled")


class Spread(NamedTuple):
    average: float | None
    p50: float | None
    p95: float | None


class Event(NamedTuple):
    at: Millis
    event: str
    job_id: str
    worker: str | None


class Metrics(NamedTuple):
    events: dict[str, int]
    run_seconds: Spread
    waiting_seconds: Spread
    jobs_per_minute: float
    recent: list[Event]


def measure(storage: Storage, recent: int) -> Metrics:
    totals = storage.totals()
    runs = storage.newest_runs(SAMPLE)
    return Metrics(
        events={event: totals[f"event_{event}"] for event in EVENTS},
        run_seconds=spread([run.duration_seconds for run in runs]),
        waiting_seconds=spread([run.waited_seconds for run in runs]),
        jobs_per_minute=rate(runs, storage.clock.now()),
        recent=recent_events(storage, recent),
    )


def spread(values: Sequence[float]) -> Spread:
    if not values:
        return Spread(None, None, None)
    ordered = sorted(values)
    return Spread(sum(ordered) / len(ordered), percentile(ordered, 0.50), percentile(ordered, 0.95))


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest of the values that at least this fraction of them do not exceed."""
    return ordered[max(0, -int(-len(ordered) * part // 1) - 1)]


def rate(runs: Sequence[EndedRun], now: Millis) -> float:
    """Runs ended per minute: over the last ten minutes, or over the sample's time if that is shorter."""
    lately = [run for run in runs if now - run.finished_at <= LATELY_SECONDS * 1000]
    if not lately:
        return 0.0
    whole = len(lately) == SAMPLE
    seconds = max((now - lately[-1].finished_at) / 1000, 0.001) if whole else LATELY_SECONDS
    return len(lately) * 60 / seconds


def recent_events(storage: Storage, count: int) -> list[Event]:
    """The newest events, the newest first.

    A run's start is older than its end. So if the start is among the newest `count` events, the end is too, and
    reading the newest `count` runs finds both. Running and cancelled jobs are read by job number, not by time, so
    SAMPLE of each are read: with more than SAMPLE of them, an event may be missing.
    """
    found: list[Event] = []
    for run in storage.newest_runs(count):
        found.append(Event(run.finished_at, run.outcome, run.job_id, run.worker))
        found.append(Event(run.started_at, "started", run.job_id, run.worker))
    for job in storage.jobs(State.PROCESSING, SAMPLE):
        if job.started_at is not None:
            found.append(Event(job.started_at, "started", job.id, job.worker))
    for job in storage.jobs(State.CANCELLED, SAMPLE):
        if job.finished_at is not None and job.cancel_reason is None:  # cancelled while it waited: there is no run
            found.append(Event(job.finished_at, "cancelled", job.id, None))
    found.extend(Event(job.created_at, "enqueued", job.id, None) for job in storage.jobs(None, count))
    # Within the same millisecond, the event that comes later in a job's life counts as newer.
    order = {"enqueued": 0, "started": 1}
    return sorted(found, key=lambda event: (event.at, order.get(event.event, 2)), reverse=True)[:count]
