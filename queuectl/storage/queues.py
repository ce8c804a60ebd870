"""Named queues: which are open, which of their first jobs is next, and what limits and rates allow.

A paused or full queue does not delay other queues: a claim compares the first jobs of the open queues and takes the
best that may start. It locks that queue's row and checks again, so that concurrent claims never exceed a limit.
"""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf
from typing import Any, NamedTuple

from queuectl.config import Rate
from queuectl.errors import DuplicateQueue, WrongState
from queuectl.job import DEFAULT_QUEUE, State
from queuectl.storage.rows import EVERY_QUEUE, QueueRow
from queuectl.storage.transactions import Moment, Transactions
from queuectl.times import Millis

# At most this many due jobs enter the line in one claim, so that a wave of them does not stall the workers.
DUE_BATCH = 1_000
HIGHEST = 2**63 - 1
EVERYBODY = 1_000_000  # wakes all workers
STRAYED_MILLIS = 60_000  # more than the times of two concurrent claims can differ by


class Head(NamedTuple):
    """The first job in a queue's line."""

    rank: int
    seq: int
    queue: QueueRow


class Queues(Transactions):
    serves: frozenset[str] | None = None  # the queues that this connection claims from; None is all
    _open: Sequence[QueueRow] = ()
    _open_among: object = None  # the `known_queues` from which `_open` was computed

    # --- claiming ---

    def open_queues(self) -> Sequence[QueueRow]:
        """The queues that this connection may claim from, as of the last `look_at_clock`."""
        if self._open_among is not self.known_queues:  # the queues have been read again
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
        queues = self.open_queues()
        return self._any_start_at(now) <= now and any(
            self._start_at(queue, now) <= now for *_, queue in self._heads(queues)
        )

    def next_due(self) -> Millis | None:
        """When the next job is due to enter the line, or may start where a rate delays it."""
        due, now = self.look_at_clock()[1], self.clock.now()
        found = [inf if due is None else due]
        overall = self.known_settings.rate_rule
        held_up = [queue for queue in self.open_queues() if overall or queue.rate]
        if held_up:
            soonest = max(now, self._any_start_at(now))
            found += [max(soonest, self._start_at(queue, now)) for *_, queue in self._heads(held_up)]
        first = min(found)
        return None if first == inf else ceil(first)

    def _admit(self, moment: Moment) -> None:
        if moment.due is not None and moment.due <= moment.now:
            self.run("admit", tick=moment.tick, now=moment.now, batch=DUE_BATCH, **moment.aging._asdict())

    def _take(self, worker: str, moment: Moment) -> Any:
        """Claim the next job for this worker and return its row; None if no job may start."""
        facts = dict(worker=worker, tick=moment.tick, now=moment.now)
        queues, overall = self.open_queues(), self.known_settings.rate_rule
        if len(queues) == 1 and not queues[0].is_bounded and not overall:
            return self.run("claim", queue=queues[0].name, most=HIGHEST, **facts).fetchone()
        if overall:
            self.run("hold_queue", name=EVERY_QUEUE).fetchone()
            if self._any_start_at(moment.now) > moment.now:
                return None
        row = self._take_best(self._heads(queues), facts)
        if row is not None and overall:
            self._has_started(EVERY_QUEUE, overall, moment.now)
        return row

    def _take_best(self, heads: Sequence[Head], facts: Mapping[str, Any]) -> Any:
        """Claim the best of these jobs that may start; skip a job that another worker is just claiming.

        The job behind a skipped one takes its place, sorted among the other heads by its rank.
        """
        line = list(heads)
        while line:
            head = line.pop(0)
            if self._start_at(head.queue, facts["now"]) <= facts["now"]:
                row = self._take_from(head.queue, head.rank, facts)
                if row is not None:
                    return row
                behind = self.run("behind", queue=head.queue.name, rank=head.rank, seq=head.seq).fetchone()
                if behind is not None:
                    insort(line, Head(behind[0], behind[1], head.queue))
        return None

    def _take_from(self, queue: QueueRow, most: int, facts: Mapping[str, Any]) -> Any:
        """Claim the first job of a queue, up to rank `most`; a queue with limits is locked against other claims."""
        if not queue.is_bounded:
            return self.run("claim", queue=queue.name, most=most, **facts).fetchone()
        self.run("mark")
        self.run("hold_queue", name=queue.name).fetchone()
        row = None
        if self._start_at(queue, facts["now"]) <= facts["now"]:
            row = self.run("claim", queue=queue.name, most=most, **facts).fetchone()
        if row is None:
            self.run("let_go")  # holding this queue while waiting for the next one could deadlock
        elif queue.rate:
            self._has_started(queue.name, queue.rate, facts["now"])
        return row

    def _heads(self, queues: Iterable[QueueRow]) -> list[Head]:
        """The first job in line of each of these queues, the smallest rank first."""
        rows = [(self.run("head", queue=queue.name).fetchone(), queue) for queue in queues]
        return sorted((Head(row[0], row[1], queue) for row, queue in rows if row), key=lambda head: head[:2])

    # --- limits and rates ---

    def _start_at(self, queue: QueueRow, now: Millis) -> float:
        """When the queue may start its next job; infinity while it is at its limit of running jobs."""
        if queue.run_limit is not None and self.one("running", queue=queue.name) >= queue.run_limit:
            return inf
        return self.paced(queue.name, queue.rate, now) if queue.rate else -inf

    def _any_start_at(self, now: Millis) -> float:
        """When the rate over all queues allows the next start."""
        overall = self.known_settings.rate_rule
        return self.paced(EVERY_QUEUE, overall, now) if overall else -inf

    def paced(self, name: str, rate: Rate, now: Millis) -> float:
        """When a rate allows the next start."""
        at = float(self.one("free_at", name=name) or 0) - rate.ahead_millis
        # Later than any start can have set it: the clock was set back unnoticed.
        return at if at <= now + rate.interval_millis + STRAYED_MILLIS else -inf

    def _has_started(self, name: str, rate: Rate, now: Millis) -> None:
        free_at = max(self.paced(name, rate, now) + rate.ahead_millis, now) + rate.interval_millis
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

    def add_queue(self, queue: QueueRow) -> None:
        with self.transaction():
            if not self.change("add_queue", **queue._asdict()):
                raise DuplicateQueue(queue.name)
            self.add_totals(queue.name)
            self.run("settings_changed")

    def set_queue(self, name: str, **changes: Any) -> QueueRow:
        """Change a queue's limits, or pause or resume it; no claim that commits later uses the old values."""
        with self.alone(), self.transaction():
            before = self.queue(name)
            queue = before._replace(**changes)
            self.run("set_queue", **queue._asdict())
            if queue.rate != before.rate:
                self.run("set_free_at", name=name, free_at=0)
            self.run("settings_changed")
            self.entered += EVERYBODY
        return queue

    def remove_queue(self, name: str) -> None:
        """Remove a queue in which no job waits or runs; its ended jobs stay."""
        from json import loads

        if name == DEFAULT_QUEUE:
            raise WrongState(f"The queue {name!r} takes all jobs that name no queue: it cannot be removed")
        with self.alone(), self.transaction():  # no job can be added to the queue meanwhile
            self.queue(name)
            for schedule, fields in self.run("schedule_fields").fetchall():
                if loads(fields).get("queue") == name:
                    raise WrongState(
                        f"The jobs of schedule {schedule!r} go to queue {name!r}: it stays. "
                        f"Take the schedule away first: queuectl schedule remove {schedule}"
                    )
            left = sum(self.totals_by_queue()[name][state.value] for state in State if not state.has_ended)
            if left:
                jobs = "1 job waits or runs" if left == 1 else f"{left:,} jobs wait or run"
                raise WrongState(
                    f"{jobs} in queue {name!r}: it stays. Let them end, or cancel them: queuectl cancel --queue {name}"
                )
            self.run("remove_queue", name=name)
            self.run("settings_changed")
