"""Recurring jobs: add, pause and resume schedules, and enqueue due jobs. Every worker does it, each occurrence once.

A schedule that can no longer be read enqueues no job, and its note says why; other schedules are not affected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from queuectl.errors import InvalidInput, ScheduleNotFound
from queuectl.fields import checked_id, parse
from queuectl.job import Job, NewJob
from queuectl.recurrence import Rule
from queuectl.storage import Added, Occurrence, Schedule, Storage
from queuectl.times import Millis
from queuectl.tracing import begun

RUN_ONCE, SKIP = "run-once", "skip"
LATE_SECONDS = 60.0  # later than this an occurrence was missed


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
    """Store a new schedule for the job that these fields describe; its jobs get this environment."""
    storage.queue(job.queue)
    now = storage.clock.now()
    schedule = Schedule(
        name=checked_id(name, "name"),
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


def resume(storage: Storage, name: str) -> Schedule:
    """Resume a paused schedule; occurrences during the pause do not count as missed."""
    schedule = storage.schedule(name)
    storage.resume_schedule(schedule, rule_of(schedule).next_after(storage.clock.now(), schedule.next_at))
    return storage.schedule(name)


def run_now(storage: Storage, name: str) -> Added:
    """Enqueue the schedule's job once, now; its next time stays as it is."""
    return storage.occur_now(name, job_of(storage.schedule(name), storage))


def last_job(storage: Storage, schedule: Schedule) -> Job | None:
    return None if schedule.last_seq is None else storage.glance_at(schedule.last_seq)


def enqueue_due(storage: Storage) -> list[Occurrence]:
    """Handle each due schedule once, however many of its occurrences were missed."""
    occurred = [occur(storage, schedule) for schedule in storage.due_schedules()]
    return [one for one in occurred if one is not None]


def occur(storage: Storage, schedule: Schedule) -> Occurrence | None:
    now = max(storage.clock.now(), schedule.next_at)  # the clock may have been set back since the schedule was read
    following_at, job, note = None, None, None
    try:
        following_at = rule_of(schedule).next_after(now, schedule.next_at)
        if schedule.missed == SKIP and now - schedule.next_at > LATE_SECONDS * 1000:
            note = "no worker was up when it came"
        else:
            job = job_of(schedule, storage)
    except (InvalidInput, ValueError) as error:
        note = str(error)
    return storage.occur(schedule, following_at, job, note)


def realign(storage: Storage) -> None:
    """Recompute the next time of schedules that would run much too late because the clock was set back."""
    now = storage.clock.now()
    for schedule in storage.schedules():
        with suppress(InvalidInput, ScheduleNotFound):  # `occur` notes why a schedule cannot be read
            if not schedule.is_paused and rule_of(schedule).is_astray(schedule.next_at, now):
                storage.move_schedule(schedule, rule_of(schedule).next_after(now, schedule.next_at))


def job_of(schedule: Schedule, storage: Storage) -> NewJob:
    job = parse(json.loads(schedule.fields), storage.settings(), schedule.cwd, storage.clock.now())
    # Keep these as the machine that made the schedule has resolved them: here they could give something else.
    return job._replace(command=schedule.command, cwd=schedule.cwd, traceparent=begun())


def told_fields(schedule: Schedule) -> dict[str, Any]:
    """The fields of the schedule's job that may be shown; `env` is left out, as it may hold passwords."""
    return {key: value for key, value in json.loads(schedule.fields).items() if key not in ("command", "env")}


def rule_of(schedule: Schedule) -> Rule:
    return Rule(schedule.cron, schedule.every_seconds, schedule.tz)


def next_times(schedule: Schedule, now: Millis, count: int) -> list[Millis]:
    """The schedule's next `count` times; none while it is paused."""
    found = [] if schedule.is_paused else [schedule.next_at]
    with suppress(InvalidInput):  # `occur` notes why a schedule cannot be read
        while found and len(found) < count:
            found.append(rule_of(schedule).next_after(max(found[-1], now), schedule.next_at))
    return found
