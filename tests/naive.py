"""The rule that users are promised, written as plainly as can be: the oracle for the order in which jobs run.

At each enqueue every waiting row that has entered the line is bumped; the largest sum of priority and waiting_time runs
next, the oldest first. It rewrites the whole queue each time, which is why queuectl itself does it another way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from queuectl.ranking import Aging


@dataclass
class Row:
    seq: int
    priority: int
    enqueued_tick: int
    state: str = "pending"
    entered: bool = True
    due_at: int | None = None
    began_at: int = 0  # to age by the clock: when it began to wait, or was last bumped
    enqueues: int = 0
    millis: int = 0


@dataclass
class NaiveQueue:
    aging: Aging
    batch: int
    rows: dict[int, Row] = field(default_factory=dict)
    tick: int = 0

    def enqueue(self, now: int, jobs: list[tuple[int, int, int | None]]) -> None:
        """Jobs are (seq, priority, run_at)."""
        self._let_due_enter(now)
        self.tick += 1
        for row in self._waiting():
            row.enqueues += 1
        for seq, priority, run_at in jobs:
            scheduled = run_at is not None and run_at > now
            self.rows[seq] = Row(
                seq, priority, self.tick, entered=not scheduled, due_at=run_at if scheduled else None, began_at=now
            )

    def claim(self, now: int) -> Row | None:
        self._let_due_enter(now)
        self._bump_by_the_clock(now)
        in_line = [row for row in self._waiting() if row.due_at is None]
        if not in_line:
            return None
        best = min(in_line, key=lambda row: (-self.effective(row), row.seq))
        best.state = "processing"
        return best

    def fail(self, now: int, seq: int, run_at: int) -> None:
        row = self.rows[seq]
        row.state, row.due_at, row.began_at = "failed", run_at, now

    def put_back(self, now: int, seq: int) -> None:
        row = self.rows[seq]
        row.state, row.began_at = "pending", now

    def end(self, seq: int, state: str) -> None:
        self.rows[seq].state = state

    def retry(self, now: int, seq: int) -> None:
        row = self.rows[seq]
        row.state, row.enqueues, row.millis, row.began_at, row.due_at = "pending", 0, 0, now, None

    def effective(self, row: Row) -> Fraction:
        return row.priority + Fraction(
            self.aging.ticks * row.enqueues + self.aging.millis * row.millis, self.aging.point
        )

    def _waiting(self) -> list[Row]:
        return [row for row in self.rows.values() if row.state in ("pending", "failed") and row.entered]

    def _bump_by_the_clock(self, now: int) -> None:
        for row in self._waiting():
            row.millis += now - row.began_at
            row.began_at = now

    def _let_due_enter(self, now: int) -> None:
        due = [
            row
            for row in self.rows.values()
            if row.state in ("pending", "failed") and row.due_at is not None and row.due_at <= now
        ]
        for row in sorted(due, key=lambda row: (row.due_at, row.seq))[: self.batch]:
            if not row.entered:
                assert row.due_at is not None
                row.entered, row.began_at = True, row.due_at
            row.due_at = None
