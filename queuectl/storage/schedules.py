"""Recurring jobs: what recurs, and when it comes next."""

from collections.abc import Mapping
from typing import NamedTuple

from queuectl.errors import DuplicateSchedule, ScheduleNotFound
from queuectl.storage.acts import Acts
from queuectl.times import Millis


class Schedule(NamedTuple):
    """A row of `schedules`."""

    name: str
    cron: str | None
    every_seconds: float | None
    tz: str
    fields: str  # JSON: the job, as it was handed in
    command: str  # as people are shown it
    cwd: str
    environment: str | None
    missed: str
    may_overlap: int
    is_paused: int
    created_at: Millis
    next_at: Millis
    last_at: Millis | None = None
    last_seq: int | None = None


class Schedules(Acts):
    def schedules(self) -> list[Schedule]:
        """All of them, by name."""
        return [Schedule(*row) for row in self.run("schedules").fetchall()]

    def schedule(self, name: str) -> Schedule:
        found = {schedule.name: schedule for schedule in self.schedules()}
        if name not in found:
            from difflib import get_close_matches

            near = get_close_matches(name, found, 1)
            raise ScheduleNotFound(name, near[0] if near else None)
        return found[name]

    def next_occurrence(self) -> Millis | None:
        """When the next recurring job comes."""
        found: Millis | None = self.one("next_occurrence")
        return found

    def due_schedules(self) -> list[Schedule]:
        return [Schedule(*row) for row in self.run("due_schedules", now=self.clock.now()).fetchall()]

    def add_schedule(self, schedule: Schedule, environment: Mapping[str, str]) -> None:
        with self.transaction() as moment:
            kept = schedule._replace(environment=self.keep_environment(environment, moment.now))
            if not self.change("add_schedule", **kept._asdict()):
                raise DuplicateSchedule(schedule.name)

    def pause_schedule(self, schedule: Schedule, is_paused: bool, next_at: Millis) -> None:
        """Stop it coming, or let it come again, from this occurrence on."""
        with self.transaction():
            self.run("pause_schedule", name=schedule.name, is_paused=int(is_paused), next_at=next_at)

    def remove_schedule(self, name: str) -> None:
        with self.transaction():
            self.run("remove_schedule", name=name)
