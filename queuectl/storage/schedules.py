"""Recurring jobs: the schedules, and when each comes next."""

from collections.abc import Mapping
from typing import NamedTuple

from queuectl.errors import DuplicateSchedule, ScheduleNotFound
from queuectl.storage.transactions import Transactions
from queuectl.times import Millis


class Schedule(NamedTuple):
    """A row of `schedules`."""

    name: str
    cron: str | None
    every_seconds: float | None
    tz: str
    fields: str  # JSON: the fields of the job, as the user gave them
    command: str  # as it is shown to users
    cwd: str
    environment: str | None
    missed: str
    may_overlap: int
    is_paused: int
    created_at: Millis
    next_at: Millis
    last_at: Millis | None = None
    last_seq: int | None = None
    note: str | None = None  # why the last occurrence enqueued no job


class Schedules(Transactions):
    def schedules(self) -> list[Schedule]:
        """All of them, by name."""
        return [Schedule(*row) for row in self.run("schedules").fetchall()]

    def schedule(self, name: str) -> Schedule:
        row = self.run("schedule", name=name).fetchone() if name.isascii() else None
        if row is None:
            raise self._no_schedule(name)
        return Schedule(*row)

    def _no_schedule(self, name: str) -> ScheduleNotFound:
        from difflib import get_close_matches

        near = get_close_matches(name, [schedule.name for schedule in self.schedules()], 1)
        return ScheduleNotFound(name, near[0] if near else None)

    def next_schedules(self, limit: int) -> list[Schedule]:
        """The schedules that come next, the earliest first."""
        return [Schedule(*row) for row in self.run("next_schedules", limit=limit).fetchall()]

    def next_occurrence(self) -> Millis | None:
        """When the next recurring job comes."""
        found: Millis | None = self.one("next_occurrence")
        return found

    def due_schedules(self) -> list[Schedule]:
        """The first schedules that are due; after taking their occurrences, the caller asks again."""
        return [Schedule(*row) for row in self.run("due_schedules", now=self.clock.now()).fetchall()]

    def add_schedule(self, schedule: Schedule, environment: Mapping[str, str]) -> None:
        with self.transaction() as moment:
            kept = schedule._replace(environment=self.keep_environment(environment, moment.now))
            if not self.change("add_schedule", **kept._asdict()):
                raise DuplicateSchedule(schedule.name)
            self.entered += 1  # a worker must wake up to learn when the schedule comes

    def pause_schedule(self, name: str) -> None:
        with self.transaction():
            self._move(self._held_schedule(name)._replace(is_paused=1))

    def resume_schedule(self, schedule: Schedule, next_at: Millis) -> None:
        """Resume a paused schedule; its next occurrence is at `next_at`."""
        with self.transaction():
            held = self._held_schedule(schedule.name)
            if held.is_paused:
                self._move(held._replace(is_paused=0, next_at=next_at, note=None))
                self.entered += 1

    def move_schedule(self, schedule: Schedule, next_at: Millis) -> bool:
        """Change the time of the next occurrence, unless the schedule was changed meanwhile."""
        with self.transaction():
            held = self._held_schedule(schedule.name)
            is_same = held.next_at == schedule.next_at and not held.is_paused
            if is_same:
                self._move(held._replace(next_at=next_at))
        return is_same

    def remove_schedule(self, name: str) -> None:
        with self.transaction():
            self._held_schedule(name)
            self.run("remove_schedule", name=name)

    def _held_schedule(self, name: str) -> Schedule:
        """Read the schedule and lock its row until the transaction ends."""
        row = self.run("hold_schedule", name=name).fetchone() if name.isascii() else None
        if row is None:
            raise self._no_schedule(name)
        return Schedule(*row)

    def _move(self, schedule: Schedule) -> None:
        self.run("move_schedule", **schedule._asdict())
