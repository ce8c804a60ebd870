"""Named queues: which are open, who is next among their heads, and what limits and rates allow.

A queue that is paused or full delays nobody else: a claim compares the heads of the open ones, takes the best that may
start, and holds its queue's row while it looks again, so that no limit is exceeded however many claim at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from queuectl.config import Rate
from queuectl.errors import DuplicateQueue, QueueNotFound, WrongState
from queuectl.job import DEFAULT_QUEUE
from queuectl.storage.rows import EVERY_QUEUE, QueueRow
from queuectl.storage.transactions import Moment, Transactions
from queuectl.times import Millis

HIGHEST = 2**63 - 1
TRIES = 3  # to find the best unlocked; then whichever is free


class Queues(Transactions):
    serves: frozenset[str] | None = None  # the queues that this connection claims from; None is all
    _open: Sequence[QueueRow] = ()
    _open_among: object = None  # the queues that those are open of

    # --- claiming ---

    def open_queues(self) -> Sequence[QueueRow]:
        """Those that this connection may claim from, by what was known at the last look at the clock."""
        if self._open_among is not self.known_queues:  # they have been read again
            self._open_among = self.known_queues
            self._open = [
                queue
                for queue in self.known_queues.values()
                if not queue.is_paused and (self.serves is None or queue.name in self.serves)
            ]
        return self._open

    def has_work(self) -> bool:
        """Whether a claim would find a job, without taking the lock that a claim takes."""
        due, now = self.look_at_clock()[1], self.clock.now()
        if due is not None and due <= now:
            return True
        heads = self._heads(self.open_queues())
        return self._may_any_start(now) and any(self._may_start(queue, now) for *_, queue in heads)

    def next_due(self) -> Millis | None:
        """When the next job's time comes: to enter the line, or to be started where a rate holds it up."""
        found = [self.look_at_clock()[1]]
        rate = self.known_settings.rate_rule
        if rate or any(queue.rate for queue in self.known_queues.values()):
            heads = self._heads(self.open_queues())
            found += [self._free_at(queue.name, queue.rate) for *_, queue in heads if queue.rate]
            if rate and heads:
                found.append(self._free_at(EVERY_QUEUE, rate))
        return min((at for at in found if at is not None), default=None)

    def _take(self, worker: str, moment: Moment) -> Any:
        """The row of the next job, which is now this worker's; None if there is none that may start."""
        facts = dict(worker=worker, tick=moment.tick, now=moment.now)
        queues, rate = self.open_queues(), self.known_settings.rate_rule
        if len(queues) == 1 and not queues[0].is_bounded and not rate:
            return self.run("claim", queue=queues[0].name, most=HIGHEST, **facts).fetchone()
        if rate and not self._may_any_start(moment.now, is_held=True):
            return None
        for number in range(TRIES):
            row, queue = self._take_best(facts, moment.now, is_last=number == TRIES - 1)
            if queue is None or row is not None:
                break
        if row is not None and rate:
            self._has_started(EVERY_QUEUE, rate, moment.now)
        return row

    def _take_best(self, facts: Mapping[str, Any], now: Millis, is_last: bool) -> tuple[Any, QueueRow | None]:
        """The best head that may start; no row although there is a queue: somebody else was quicker."""
        heads = self._heads(self.open_queues())
        for number, (*_, queue) in enumerate(heads):
            if not self._may_start(queue, now) or (queue.is_bounded and not self._may_start(queue, now, is_held=True)):
                continue
            most = HIGHEST if is_last or number + 1 == len(heads) else heads[number + 1][0]
            row = self.run("claim", queue=queue.name, most=most, **facts).fetchone()
            if row is not None and queue.rate:
                self._has_started(queue.name, queue.rate, now)
            return row, queue
        return None, None

    def _heads(self, queues: Iterable[QueueRow]) -> list[tuple[int, int, QueueRow]]:
        """The first in line of each of these queues, the best first."""
        rows = [(self.run("head", queue=queue.name).fetchone(), queue) for queue in queues]
        return sorted(((row[0], row[1], queue) for row, queue in rows if row), key=lambda head: head[:2])

    def _may_start(self, queue: QueueRow, now: Millis, is_held: bool = False) -> bool:
        """Whether the queue has a place free, and its rate allows a start; held, nobody else can start there either."""
        if is_held:
            self.run("hold_queue", name=queue.name).fetchone()
        if queue.run_limit is not None and self.one("running", queue=queue.name) >= queue.run_limit:
            return False
        return queue.rate is None or self._free_at(queue.name, queue.rate) <= now

    def _may_any_start(self, now: Millis, is_held: bool = False) -> bool:
        rate = self.known_settings.rate_rule
        if rate and is_held:
            self.run("hold_queue", name=EVERY_QUEUE).fetchone()
        return rate is None or self._free_at(EVERY_QUEUE, rate) <= now

    def _free_at(self, name: str, rate: Rate | None) -> Millis:
        """From when on a rate allows the next start: a little early, so that who comes late can make up for it."""
        assert rate is not None
        return int(self.one("free_at", name=name) or 0) - rate.slack_millis

    def _has_started(self, name: str, rate: Rate, now: Millis) -> None:
        free_at = max(int(self.one("free_at", name=name) or 0), now) + rate.interval_millis
        self.run("set_free_at", name=name, free_at=free_at)

    def is_limited(self, name: str) -> bool:
        queue = self.known_queues.get(name)
        return queue is not None and queue.run_limit is not None

    # --- queues themselves ---

    def queue(self, name: str) -> QueueRow:
        self.look_at_clock()
        found = self.known_queues.get(name)
        if found is None:
            raise self.no_queue(name)
        return found

    def no_queue(self, name: str) -> QueueNotFound:
        from difflib import get_close_matches

        near = get_close_matches(name, self.known_queues, 1)
        return QueueNotFound(name, near[0] if near else None)

    def add_queue(self, queue: QueueRow) -> None:
        with self.transaction():
            if not self.change("add_queue", **queue._asdict()):
                raise DuplicateQueue(queue.name)
            self.add_totals(queue.name)
            self.run("settings_changed")

    def set_queue(self, queue: QueueRow) -> None:
        """Its new limits, or whether it is paused; who waits for that is woken."""
        with self.transaction():
            self.run("set_queue", **queue._asdict())
            self.run("settings_changed")
            self.entered += 1

    def remove_queue(self, queue: QueueRow) -> None:
        """Take away a queue in which nothing waits or runs; what has ended in it stays."""
        if queue.name == DEFAULT_QUEUE:
            raise WrongState(f"The queue {DEFAULT_QUEUE!r} is where jobs go that name none: it cannot be removed")
        with self.alone(), self.transaction():  # nobody puts a job there meanwhile
            counts = self.totals_by_queue().get(queue.name, {})
            if any(counts.get(state, 0) for state in ("pending", "processing", "failed")):
                raise WrongState(f"Jobs wait or run in queue {queue.name!r}: it stays. See: queuectl queue list")
            self.run("remove_queue", name=queue.name)
            self.run("settings_changed")
