"""The rule that users are promised, written as plainly as can be: the oracle for the order in which jobs run.

At each enqueue every waiting row that has entered the line is bumped; the largest sum of priority and waiting_time runs
next, the oldest first; who was promoted before all others, the last one first. Who stands in a named queue that is
paused or full is passed over. Who waits for others enters the line when they have ended as it wants, or is cancelled.
It rewrites the whole queue each time, which is why queuectl itself does it another way.
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
    queue: str = "default"
    state: str = "pending"
    entered: bool = True
    due_at: int | None = None
    began_at: int = 0  # to age by the clock: when it began to wait, or was last bumped
    enqueues: int = 0
    millis: int = 0
    promotion: int = 0  # the higher the later it was promoted; 0 is not at all
    asked_for: dict[int, str] = field(default_factory=dict)  # what it was told to wait for, and how that must end
    needs: dict[int, str] = field(default_factory=dict)  # and what of that it still waits for

    @property
    def has_ended(self) -> bool:
        return self.state in ("completed", "dead", "cancelled")


@dataclass
class Named:
    """A named queue: whether any of its jobs may start, and how many at once."""

    is_paused: int = 0
    run_limit: int | None = None


@dataclass
class NaiveQueue:
    aging: Aging
    batch: int
    rows: dict[int, Row] = field(default_factory=dict)
    named: dict[str, Named] = field(default_factory=lambda: {"default": Named()})
    tick: int = 0
    promotions: int = 0

    def enqueue(self, now: int, jobs: list[tuple[int, int, int | None, dict[int, str], str]]) -> None:
        """Jobs are (seq, priority, run_at, needs, queue)."""
        self._let_due_enter(now)
        self.tick += 1
        for row in self._waiting():
            row.enqueues += 1
        for seq, priority, run_at, needs, queue in jobs:
            row = self.rows[seq] = Row(seq, priority, self.tick, queue, entered=False, due_at=run_at)
            row.asked_for, row.needs = needs, dict(needs)
            self._look_at_needs(now, row)
            if not needs:
                self._enter(now, row)

    def claim(self, now: int) -> Row | None:
        self._let_due_enter(now)
        self._bump_by_the_clock(now)
        in_line = [row for row in self._waiting() if row.due_at is None and self.is_open(row.queue)]
        if not in_line:
            return None
        best = min(in_line, key=lambda row: (-row.promotion, -self.effective(row), row.seq))
        best.state, best.promotion = "processing", 0
        return best

    def is_open(self, queue: str) -> bool:
        named = self.named[queue]
        running = sum(row.state == "processing" and row.queue == queue for row in self.rows.values())
        return not named.is_paused and (named.run_limit is None or running < named.run_limit)

    def promote(self, now: int, seq: int) -> None:
        row = self.rows[seq]
        self.promotions += 1
        row.promotion, row.due_at = self.promotions, None
        if not row.entered:
            row.entered, row.began_at = True, now

    def fail(self, now: int, seq: int, run_at: int) -> None:
        row = self.rows[seq]
        row.state, row.due_at, row.began_at = "failed", run_at, now

    def put_back(self, now: int, seq: int) -> None:
        row = self.rows[seq]
        row.state, row.began_at = "pending", now

    def end(self, now: int, seq: int, state: str) -> None:
        ended = self.rows[seq]
        ended.state, ended.promotion = state, 0
        ended.needs.clear()
        for row in self.rows.values():
            if seq in row.needs and row.state == "pending":
                self._look_at_needs(now, row)

    def retry(self, now: int, seq: int) -> None:
        row = self.rows[seq]
        row.state, row.enqueues, row.millis, row.began_at, row.due_at = "pending", 0, 0, now, None
        row.needs = {need: wanted for need, wanted in row.asked_for.items() if not self.rows[need].has_ended}
        row.entered = not row.needs

    def _look_at_needs(self, now: int, row: Row) -> None:
        for seq, wanted in list(row.needs.items()):
            need = self.rows[seq]
            if need.has_ended:
                if wanted not in ("any", need.state):
                    self.end(now, row.seq, "cancelled")
                    return
                del row.needs[seq]
                if not row.needs:
                    self._enter(now, row)

    def _enter(self, now: int, row: Row) -> None:
        """The line, unless its time is still to come."""
        if row.due_at is None or row.due_at <= now:
            row.entered, row.due_at, row.began_at = True, None, now

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
            if row.state in ("pending", "failed") and row.due_at is not None and row.due_at <= now and not row.needs
        ]
        for row in sorted(due, key=lambda row: (row.due_at, row.seq))[: self.batch]:
            if not row.entered:
                assert row.due_at is not None
                row.entered, row.began_at = True, row.due_at
            row.due_at = None
