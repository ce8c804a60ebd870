"""The whole queue, written as plainly as can be: the oracle of test_machine.py. Dictionaries, and the naive rule.

Its time is the steady clock's; an appointment on the wall clock moves on it when somebody sets the wall clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from conftest import SetClock
from naive import NaiveQueue, Named, Row

from queuectl.config import Rate
from queuectl.ranking import parse_aging

ENDED = ("completed", "dead", "cancelled")
AHEAD_MILLIS = 100  # so far a quick rate may be ahead of its even pace
LATE_MILLIS = 60_000


@dataclass
class Facts:
    """What is true of a job besides its place in line."""

    id: str
    key: str | None = None
    label: str | None = None
    max_retries: int = 3
    backoff_base: float = 2.0
    no_retry_on: tuple[int, ...] = ()
    no_rerun: bool = False
    attempts: int = 0
    lost: int = 0
    lease: int = 0
    worker: str | None = None
    started_at: int = 0
    cancel_reason: str | None = None
    finished_at: int | None = None  # on the wall clock
    history: list[tuple[int, str]] = field(default_factory=list)  # leases, and what came of them


@dataclass
class Recurring:
    every: int
    next_at: int
    job: Facts
    priority: int
    queue: str
    may_overlap: bool
    skips_missed: bool
    is_paused: bool = False
    last: int | None = None


class Line(NaiveQueue):
    """The line, where rates hold jobs up, and a worker serves some of the queues only."""

    def __init__(self, batch: int) -> None:
        super().__init__(parse_aging("1 enqueue"), batch)
        self.rates: dict[str, Rate | None] = {"default": None, "*": None}
        self.paces: dict[str, float] = {"default": 0, "*": 0}  # when, evenly, the next start comes
        self.serves: frozenset[str] | None = None
        self.now = 0

    def claim_for(self, now: int, serves: frozenset[str] | None) -> Row | None:
        self.now, self.serves = now, serves
        row = self.claim(now)
        for name in (row.queue, "*") if row else ():
            rate = self.rates[name]
            if rate:
                self.paces[name] = max(self.paces[name], now) + 1000 * rate.seconds / rate.starts
        return row

    def is_open(self, queue: str) -> bool:
        is_served = self.serves is None or queue in self.serves
        return is_served and super().is_open(queue) and self.may_start(queue) and self.may_start("*")

    def may_start(self, name: str) -> bool:
        rate = self.rates[name]
        ahead = AHEAD_MILLIS if rate and rate.starts > rate.seconds else 0
        return rate is None or self.paces[name] - ahead <= self.now

    def is_anyone_due(self, now: int) -> bool:
        return any(row.due_at is not None and row.due_at <= now for row in self.waiting_for_their_time())

    def in_line(self) -> list[Row]:
        """As they would run, if all queues were open."""
        rows = [row for row in self._waiting() if row.due_at is None]
        return sorted(rows, key=lambda row: (-row.promotion, -self.effective(row), row.seq))

    def waiting_for_their_time(self) -> list[Row]:
        rows = [row for row in self.all_waiting() if row.due_at is not None and not row.needs]
        return sorted(rows, key=lambda row: (row.due_at, row.seq))

    def all_waiting(self) -> list[Row]:
        return [row for row in self.rows.values() if row.state in ("pending", "failed")]


class Model:
    """Whatever one can do to the queue, and what comes of it. What is refused raises Refused and changes nothing."""

    def __init__(self, clock: SetClock, batch: int) -> None:
        self.clock = clock
        self.line = Line(batch)
        self.facts: dict[int, Facts] = {}
        self.events: Counter[tuple[str, str]] = Counter()  # by queue and event
        self.workers: dict[str, frozenset[str] | None] = {}
        self.stopping: dict[str, float] = {}  # the workers that were asked to, each with its grace time
        self.schedules: dict[str, Recurring] = {}
        self.max_backoff = 3600.0
        self.keep_completed: float | None = None

    @property
    def now(self) -> int:
        return self.clock.steady()

    @property
    def rows(self) -> dict[int, Row]:
        return self.line.rows

    # --- handing in ---

    def owner_of(self, key: str | None) -> int | None:
        return next((seq for seq, row in self.rows.items() if key and self.has_key(seq, key, row)), None)

    def has_key(self, seq: int, key: str, row: Row) -> bool:
        return row.state not in ENDED and self.facts[seq].key == key

    def without_doubles(self, jobs: Sequence[tuple[int, Facts]]) -> list[tuple[int, Facts]]:
        """Those whose key nobody has yet, neither in the queue nor before them."""
        found: list[tuple[int, Facts]] = []
        for seq, facts in jobs:
            if self.owner_of(facts.key) is None and not any(facts.key and one.key == facts.key for _, one in found):
                found.append((seq, facts))
        return found

    def enqueue(
        self,
        jobs: Mapping[int, Facts],
        places: Mapping[int, tuple[int, int | None, dict[int, str], str]],
        lets_due_in: bool = True,
    ) -> None:
        """Jobs by their numbers; a place is (priority, run_at, needs, queue)."""
        if not lets_due_in:
            batch, self.line.batch = self.line.batch, 0
        with self.ending():
            if jobs:
                self.facts.update(jobs)
                self.line.enqueue(self.now, [(seq, *places[seq]) for seq in jobs])
            else:
                self.line._let_due_enter(self.now)
        if not lets_due_in:
            self.line.batch = batch
        for seq in jobs:
            self.events[places[seq][3], "enqueued"] += 1

    # --- running ---

    def claim(self, worker: str, lets_due_in: bool = True) -> Row | None:
        if not lets_due_in:
            batch, self.line.batch = self.line.batch, 0
        row = self.line.claim_for(self.now, self.workers[worker])
        if not lets_due_in:
            self.line.batch = batch
        if row:
            facts = self.facts[row.seq]
            facts.lease += 1
            facts.attempts += 1
            facts.worker, facts.started_at = worker, self.now
            facts.cancel_reason = facts.finished_at = None
            self.events[row.queue, "started"] += 1
        return row

    def finish(self, seq: int, how: str, exit_code: int | None, next_for: str | None = None) -> Row | None:
        somebody_is_due = self.line.is_anyone_due(self.now)
        self.conclude(seq, how, exit_code)
        return self.claim(next_for, somebody_is_due) if next_for else None

    def conclude(self, seq: int, how: str, exit_code: int | None = None) -> None:
        """How is: success, failure, put back, cancelled, lost or rebooted."""
        facts, row = self.facts[seq], self.rows[seq]
        state, outcome = self.verdict(facts, how, exit_code)
        if state not in ENDED and facts.cancel_reason is not None:
            state, outcome = "cancelled", "cancelled"
        facts.history.append((facts.lease, outcome))
        if outcome not in ("lost", "released"):
            facts.lost = 0
        elif how == "lost" or state == "dead":  # a restart of the machine is not counted
            facts.lost += 1
        with self.ending():
            if state == "pending":
                facts.attempts -= 1
                self.line.put_back(self.now, seq)
            elif state == "failed":
                wait = round(1000 * min(facts.backoff_base**facts.attempts, self.max_backoff))
                self.line.fail(self.now, seq, self.now + wait)
            else:
                self.line.end(self.now, seq, state)
        if state in ("failed", "completed", "dead"):
            self.events[row.queue, state] += 1

    def verdict(self, facts: Facts, how: str, exit_code: int | None) -> tuple[str, str]:
        if how == "cancelled":
            return "cancelled", "cancelled"
        if how == "success":
            return "completed", "completed"
        if how == "failure":
            is_dead = facts.no_rerun or exit_code in facts.no_retry_on or facts.attempts > facts.max_retries
            return ("dead", "dead") if is_dead else ("failed", "failed")
        if how == "put back":
            return ("dead", "dead") if facts.no_rerun else ("pending", "released")
        if facts.no_rerun or (how == "lost" and facts.lost >= 2):
            return "dead", "lost"
        return "pending", "lost"

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Count what is cancelled meanwhile because it waited for something else to end; and when all this ended."""
        before = {seq: row.state for seq, row in self.rows.items()}
        yield
        for seq, row in self.rows.items():
            if row.state in ENDED and before.get(seq) not in ENDED:
                self.facts[seq].finished_at = self.clock.now()
                if row.state == "cancelled":
                    self.events[row.queue, "cancelled"] += 1

    def held_by(self, worker: str) -> list[int]:
        return [seq for seq, row in self.rows.items() if row.state == "processing" and self.facts[seq].worker == worker]

    # --- what people do ---

    def cancel(self, chosen: Iterable[int], reason: str) -> int:
        """How many were cancelled, or are to be."""
        before = sum(self.events[key] for key in self.events if key[1] == "cancelled")
        asked_for = 0
        for seq in chosen:
            if self.rows[seq].state == "processing":
                self.facts[seq].cancel_reason = reason
                asked_for += 1
            elif self.rows[seq].state not in ENDED:
                with self.ending():
                    self.line.end(self.now, seq, "cancelled")
        return sum(self.events[key] for key in self.events if key[1] == "cancelled") - before + asked_for

    def retry(self, chosen: Iterable[int]) -> int:
        begun = []
        for seq in sorted(chosen):
            row, facts = self.rows[seq], self.facts[seq]
            if row.state in ENDED and self.owner_of(facts.key) is None:
                row.state = "pending"
                row.queue = row.queue if row.queue in self.line.named else "default"
                facts.attempts = facts.lost = 0
                facts.cancel_reason = facts.finished_at = None
                begun.append(seq)
        for seq in begun:
            self.line.retry(self.now, seq)
        return len(begun)

    def delete(self, chosen: Iterable[int]) -> list[int]:
        deleted = [seq for seq in sorted(chosen) if self.rows[seq].state != "processing"]
        with self.ending():
            for seq in deleted:
                self.rows[seq].needs.clear()
            for seq in deleted:
                if self.rows[seq].state not in ENDED:
                    self.line.end(self.now, seq, "cancelled")
                for row in self.rows.values():
                    row.asked_for.pop(seq, None)
                    row.needs.pop(seq, None)
                del self.rows[seq], self.facts[seq]
        return deleted

    def edit(self, seq: int, run_at: int | None = None, **changes: Any) -> None:
        row, facts = self.rows[seq], self.facts[seq]
        for name, value in changes.items():
            setattr(facts if hasattr(facts, name) else row, name, value)
        if run_at is not None and row.needs:
            row.due_at = run_at
        elif run_at is not None and run_at > self.now:
            row.due_at, row.promotion = run_at, 0
            if row.state == "pending":
                row.entered, row.enqueues, row.millis = False, 0, 0
        elif run_at is not None:
            row.due_at = None
            if not row.entered:
                row.entered, row.began_at = True, self.now

    def tidy(self) -> None:
        if self.keep_completed is not None:
            before = self.clock.now() - 1000 * self.keep_completed
            self.delete(
                [
                    seq
                    for seq, row in self.rows.items()
                    if row.state == "completed" and (self.facts[seq].finished_at or 0) <= before
                ]
            )

    # --- queues ---

    def add_queue(self, name: str) -> None:
        self.line.named[name] = Named()
        self.line.rates[name], self.line.paces[name] = None, 0

    def remove_queue(self, name: str) -> None:
        del self.line.named[name], self.line.rates[name], self.line.paces[name]

    def is_in_use(self, name: str) -> bool:
        return any(row.queue == name and row.state not in ENDED for row in self.rows.values())

    def set_rate(self, name: str, rate: Rate | None) -> None:
        if name == "*" or rate != self.line.rates[name]:
            self.line.paces[name] = 0
        self.line.rates[name] = rate

    # --- recurring jobs ---

    def is_due(self, name: str) -> bool:
        return not self.schedules[name].is_paused and self.schedules[name].next_at <= self.now

    def occur(self, name: str) -> Facts | None:
        """The job that its occurrence makes, if any; to be enqueued under the number that it gets."""
        schedule = self.schedules[name]
        is_missed = schedule.skips_missed and self.now - schedule.next_at > LATE_MILLIS
        schedule.next_at += ((self.now - schedule.next_at) // schedule.every + 1) * schedule.every
        return None if is_missed else self.job_of(schedule)

    def job_of(self, schedule: Recurring) -> Facts | None:
        last = None if schedule.last is None else self.rows.get(schedule.last)
        is_going = last is not None and last.state not in ENDED and not schedule.may_overlap
        if is_going or self.owner_of(schedule.job.key) is not None:
            return None
        return replace(schedule.job, history=[])

    def has_occurred(self, name: str, seq: int, facts: Facts) -> None:
        schedule = self.schedules[name]
        queue = schedule.queue if schedule.queue in self.line.named else "default"
        facts.id = str(seq)
        self.enqueue({seq: facts}, {seq: (schedule.priority, None, {}, queue)}, lets_due_in=False)
        schedule.last = seq

    # --- time ---

    def clock_was_set(self, millis: int) -> None:
        """An appointment stays where it is on the wall; what was to come in four seconds still does."""
        for row in self.rows.values():
            if row.state == "pending" and row.due_at is not None:
                row.due_at -= millis

    # --- what there is ---

    def totals(self, queue: str) -> dict[str, int]:
        states = Counter(row.state for row in self.rows.values() if row.queue == queue)
        events = {f"event_{name}": count for (whose, name), count in self.events.items() if whose == queue}
        return {name: count for name, count in {**states, **events}.items() if count}
