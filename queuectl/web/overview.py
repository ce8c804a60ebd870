"""The data of the overview in one answer: the counts, the workers, the line, the jobs that ended lately."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from queuectl import recurring, shapes
from queuectl.estimates import Forecast, forecast
from queuectl.job import Job, State
from queuectl.metrics import EVENTS, SAMPLE, rate
from queuectl.queue import Queue
from queuectl.ranking import Aging
from queuectl.storage import BLOCKED, LATER, MOST_COUNTED, Schedule, Storage
from queuectl.times import iso
from queuectl.web.here import Here

MOST_IN_LINE = 50
MOST_OF_OTHERS = 20
NEXT_SHOWN = 3  # of a schedule's occurrences


def overview(here: Here) -> dict[str, Any]:
    storage = here.queue.storage
    runs = storage.newest_runs(SAMPLE)
    expected = forecast(storage, runs)
    totals = storage.totals()
    settings = storage.settings()

    def shown(jobs: Iterable[Job]) -> list[dict[str, Any]]:
        return [shapes.job_json(job, expected=expected.of(job)) for job in jobs]

    later, after_later = storage.page(MOST_OF_OTHERS, State.PENDING, cursor=LATER)
    blocked, after_blocked = storage.page(MOST_OF_OTHERS, State.PENDING, cursor=BLOCKED)
    return {
        "now": iso(storage.clock.now()),
        "stats": {state.value: totals[state.value] for state in State},
        "workers": worker_shapes(here, expected),
        "queues": queue_shapes(here.queue),
        "line": shown(storage.line(MOST_IN_LINE)),
        "held": shown(storage.line(MOST_OF_OTHERS, is_paused=True)),
        "running": shown(storage.jobs(State.PROCESSING, MOST_COUNTED)),
        "recent": shown(storage.recently_ended(MOST_OF_OTHERS)),
        "later": shown(later),
        "blocked": shown(blocked),
        "waiting": storage.waiting(),
        "cursors": {"later": after_later, "blocked": after_blocked},
        "schedules": schedule_shapes(storage),
        "events": {event: totals[f"event_{event}"] for event in EVENTS},
        "jobs_per_minute": round(rate(runs, storage.clock.now()), 3),
        "read_only": here.is_read_only,
        "aging": settings.aging,
        "points_a_second": points_a_second(settings.aging_rule),
        "database": "postgresql" if storage.is_shared else "sqlite",
    }


def worker_shapes(here: Here, expected: Forecast | None = None) -> list[dict[str, Any]]:
    standings = here.queue.status().workers
    expected = expected or forecast(here.queue.storage)
    used = here.usage.percent([one.worker.pid for one in standings if one.memory_bytes is not None])
    return [dict(shapes.worker_json(one, expected), cpu_percent=used.get(one.worker.pid)) for one in standings]


def queue_shapes(queue: Queue) -> list[dict[str, Any]]:
    return [shapes.queue_json(*found) for found in queue.queues()]


def schedule_shapes(storage: Storage) -> list[dict[str, Any]]:
    return [schedule_shape(storage, one) for one in storage.schedules()]


def schedule_shape(storage: Storage, schedule: Schedule) -> dict[str, Any]:
    """The schedule with the last job and the next times, as `schedule show` prints them."""
    last = recurring.last_job(storage, schedule)
    now = storage.clock.now()
    times = [] if schedule.is_paused else recurring.next_times(schedule, now, NEXT_SHOWN)
    return dict(
        shapes.schedule_json(schedule), last_job=last.id if last else None, next_times=[iso(at) for at in times]
    )


def points_a_second(aging: Aging) -> float | None:
    """How fast waiting_time grows with time; None if it grows with enqueues, or not at all."""
    return 1000 * aging.millis / aging.point if aging.millis else None
