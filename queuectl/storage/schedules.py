"""Recurring jobs: what recurs, and when it comes next."""

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
    note: str | None = None  # why no job came of the last occurrence


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
        """Those that come next, the first one first."""
        return [Schedule(*row) for row in self.run("next_schedules", limit=limit).fetchall()]

    def next_occurrence(self) -> Millis | None:
        """When the next recurring job comes."""
        found: Millis | None = self.one("next_occurrence")
        return found

    def due_schedules(self) -> list[Schedule]:
        """Those whose time has come, or the first of them: who has taken these looks again."""
        return [Schedule(*row) for row in self.run("due_schedules", now=self.clock.now()).fetchall()]

    def add_schedule(self, schedule: Schedule, environment: Mapping[str, str]) -> None:
        with self.transaction() as moment:
            kept = schedule._replace(environment=self.keep_environment(environment, moment.now))
            if not self.change("add_schedule", **kept._asdict()):
                raise DuplicateSchedule(schedule.name)
            self.entered += 1  # whoever sleeps is to know when it comes

    def pause_schedule(self, name: str) -> None:
        """Stop it from coming."""
        with self.transaction():
            self._move(self._held_schedule(name)._replace(is_paused=1))

    def resume_schedule(self, schedule: Schedule, next_at: Millis) -> None:
        """Let one that is paused come again, from this occurrence on."""
        with self.transaction():
            held = self._held_schedule(schedule.name)
            if held.is_paused:
                self._move(held._replace(is_paused=0, next_at=next_at, note=None))
                self.entered += 1

    def move_schedule(self, schedule: Schedule, next_at: Millis) -> bool:
        """Let it come at another time, unless that was changed meanwhile."""
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
        """As it is now, and stays until the transaction ends."""
        row = self.run("hold_schedule", name=name).fetchone() if name.isascii() else None
        if row is None:
            raise self._no_schedule(name)
        return Schedule(*row)

    def _move(self, schedule: Schedule) -> None:
        self.run("move_schedule", **schedule._asdict())
