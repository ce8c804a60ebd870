"""Recurring jobs: make them, stop them, and enqueue what is due. Any worker does it; each occurrence comes once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from queuectl.errors import InvalidInput, QueueError
from queuectl.fields import checked_id, parse
from queuectl.job import Job, NewJob
from queuectl.recurrence import Rule
from queuectl.storage import Added, Schedule, Storage
from queuectl.times import Millis

RUN_ONCE, SKIP = "run-once", "skip"
LATE_SECONDS = 60.0  # later than this an occurrence was missed
NOT_HERE = ("id", "run_at", "depends_on", "after_any", "after_failed")


def add(
    storage: Storage,
    name: str,
    rule: Rule,
    fields: Mapping[str, Any],
    job: NewJob,
    environment: Mapping[str, str],
    missed: str = RUN_ONCE,
    may_overlap: bool = False,
) -> Schedule:
    """A new schedule of the job that these fields describe; its jobs get this environment."""
    for key in NOT_HERE:
        if key in fields:
            raise InvalidInput(f"{key} does not go with a job that recurs. Leave it out")
    storage.queue(job.queue)
    now = storage.clock.now()
    schedule = Schedule(
        name=checked_id(name),
        cron=rule.cron,
        every_seconds=rule.every_seconds,
        tz=rule.tz,
        fields=json.dumps({key: value for key, value in fields.items() if key != "cwd"}),
        command=job.command,
        cwd=job.cwd,
        environment=None,
        missed=missed,
        may_overlap=int(may_overlap),
        is_paused=0,
        created_at=now,
        next_at=rule.next_after(now, now),
    )
    storage.add_schedule(schedule, environment)
    return schedule


def pause(storage: Storage, name: str) -> None:
    schedule = storage.schedule(name)
    storage.pause_schedule(schedule, True, schedule.next_at)


def resume(storage: Storage, name: str) -> Schedule:
    """Let it come again; what would have come meanwhile was not missed."""
    schedule = storage.schedule(name)
    storage.pause_schedule(schedule, False, rule_of(schedule).next_after(storage.clock.now(), schedule.created_at))
    return storage.schedule(name)


def run_now(storage: Storage, name: str) -> Added:
    """Enqueue its job once, now; when it comes next stays as it is."""
    schedule = storage.schedule(name)
    added = storage.occur(schedule, schedule.next_at, job_of(schedule, storage), is_extra=True)
    if added is None:
        raise QueueError(f"The last job of schedule {name!r} has not ended, or another has its key. Wait for it")
    return added


def remove(storage: Storage, name: str) -> None:
    storage.remove_schedule(storage.schedule(name).name)


def last_job(storage: Storage, schedule: Schedule) -> Job | None:
    return None if schedule.last_seq is None else storage.glance_at(schedule.last_seq)


def enqueue_due(storage: Storage) -> list[tuple[str, Added | None]]:
    """Enqueue what is due: each schedule once, however many occurrences were missed; None where it was passed over."""
    found: list[tuple[str, Added | None]] = []
    for schedule in storage.due_schedules():
        now = storage.clock.now()
        is_late = now - schedule.next_at > LATE_SECONDS * 1000
        job = None if is_late and schedule.missed == SKIP else job_of(schedule, storage)
        following_at = rule_of(schedule).next_after(now, schedule.created_at)
        found.append((schedule.name, storage.occur(schedule, following_at, job)))
    return found


def job_of(schedule: Schedule, storage: Storage) -> NewJob:
    return parse(json.loads(schedule.fields), storage.settings(), schedule.cwd, storage.clock.now())


def rule_of(schedule: Schedule) -> Rule:
    return Rule(schedule.cron, schedule.every_seconds, schedule.tz)


def next_times(schedule: Schedule, now: Millis, count: int) -> list[Millis]:
    """When it comes, from its next occurrence on."""
    found = [schedule.next_at]
    while len(found) < count:
        found.append(rule_of(schedule).next_after(max(found[-1], now), schedule.created_at))
    return found
