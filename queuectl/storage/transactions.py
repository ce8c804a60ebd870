"""Transactions: what an engine adds, the moment at which one happens, the counters and settings that move with it."""

import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, ParamSpec, TypeVar

from queuectl.clock import STEP
from queuectl.errors import QueueMoved, StorageError
from queuectl.ranking import Aging
from queuectl.storage.reading import Reader
from queuectl.storage.rows import EVERY_QUEUE
from queuectl.storage.sql import TOTALS
from queuectl.times import Millis

try:  # hashlib itself would load OpenSSL, which costs an enqueue a tenth of its time
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

# A commit that need not wait for the disk is synced when the last sync is so long ago.
SYNC_SECONDS = 0.1
USE_MILLIS = 86_400_000  # when an environment was last used is written down once in so long
NOTHING = dict.fromkeys(TOTALS, 0)

TRIES = 10  # of what collides

# How the counters of each queue change.
Counts = defaultdict[str, dict[str, int]]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Collision(StorageError):
    """The transaction was rolled back because another one changed the same jobs; it can be tried again."""


def insistent(change: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Try again what was rolled back by a collision."""

    @wraps(change)
    def insist(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        for _ in range(TRIES - 1):
            try:
                return change(*args, **kwargs)
            except Collision:
                pass
        return change(*args, **kwargs)

    return insist


def no_counts() -> Counts:
    return defaultdict(NOTHING.copy)


class Moment(NamedTuple):
    """When a transaction happens, by both clocks, and the rule that ranks by them."""

    now: Millis
    tick: int
    due: Millis | None  # when the next job's time comes
    aging: Aging


class Transaction:
    """One transaction, entered with the moment at which it happens; an exception rolls it back.

    A class and not a generator with @contextmanager, which would cost every job more.
    """

    __slots__ = ("_durable", "_storage")

    def __init__(self, storage: "Transactions", durable: bool) -> None:
        self._storage = storage
        self._durable = durable

    def __enter__(self) -> Moment:
        storage = self._storage
        storage.entered = 0
        storage.begin(self._durable)
        try:
            moment = storage.moment()
            if storage.closed:
                raise QueueMoved(**storage.closed)
            return moment
        except BaseException:
            storage.undo()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        storage = self._storage
        if kind is not None:
            storage.undo()
            return
        try:
            storage.commit()
        except BaseException:
            storage.undo()
            raise
        if storage.entered:
            storage.wake(storage.entered)


class Transactions(Reader):
    SHARDS: ClassVar[int] = 1  # of the counters
    shard = 0  # the one that this connection counts in
    entered = 0  # how many jobs enter the line in this transaction, for so many workers to be woken after it
    _is_synced = True
    _synced_at = 0.0
    _unsynced_since: float | None = None

    # --- what an engine adds ---

    @abstractmethod
    def run_many(self, query: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute a named query once a row, and return how many rows of the table it changed."""

    @abstractmethod
    def begin(self, durable: bool) -> None:
        """Begin a transaction in which this connection alone may write.

        A durable one is on disk when it is committed; the others are within 0.2 s, if `heartbeat` is called when they
        have been unsynced for 0.1 s.
        """

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def alone(self) -> AbstractContextManager[object]:
        """Nobody else is in a transaction meanwhile."""

    @abstractmethod
    def statement(self, sql: str, parameters: Mapping[str, Any]) -> Any:
        """Execute what was written for one table, whichever, and return its cursor."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...

    @abstractmethod
    def new_numbers(self, jobs: int) -> tuple[int, Sequence[int]]:
        """One enqueue of so many jobs happens: its tick, and a number for each job."""

    @abstractmethod
    def next_number(self) -> int: ...

    def wake(self, jobs: int) -> None:
        """Tell sleeping workers that there is work for so many of them; where they notice by themselves, nothing."""

    # --- transactions, the clock, the counters ---

    def change(self, query: str, **parameters: Any) -> int:
        """Execute a named query, and return how many rows it changed."""
        return int(self.run(query, **parameters).rowcount)

    def transaction(self, durable: bool = True) -> Transaction:
        return Transaction(self, durable)

    def undo(self) -> None:
        self._settings = self._clock_offset = None  # what was read or written inside
        self.rollback()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read meanwhile is as it was at one moment, and nobody waits for it."""
        self.run("snapshot")
        try:
            yield
        finally:
            self.rollback()

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """One transaction beside which there is no other; also where the queue is closed."""
        with self.alone():
            self.begin(durable=True)
            try:
                yield
                self.commit()
            except BaseException:
                self.rollback()
                raise
            finally:
                self._settings = None

    def must_sync(self, durable: bool) -> bool:
        """Whether a transaction that begins now is to be on disk when it is committed."""
        self._is_synced = durable or time.monotonic() - self._synced_at >= SYNC_SECONDS
        return self._is_synced

    def has_committed(self) -> None:
        if self._is_synced:
            self._synced_at, self._unsynced_since = time.monotonic(), None
        elif self._unsynced_since is None:
            self._unsynced_since = time.monotonic()

    def unsynced_seconds(self) -> float:
        """For how long commits have been waiting to be brought to the disk; 0 when none is."""
        return 0.0 if self._unsynced_since is None else time.monotonic() - self._unsynced_since

    def moment(self) -> Moment:
        now = self.clock.now()
        offset = now - self.clock.steady()
        if self._clock_offset is None or abs(offset - self._clock_offset) > STEP:
            self._compare_clocks(offset)
        tick, due = self.look_at_clock()
        return Moment(now, tick, due, self.known_settings.aging_rule)

    def _compare_clocks(self, offset: Millis) -> None:
        """Mend what is stored if the clock was set since anybody last looked, in this start of the machine."""
        seen = self.meta().get("clock", "").rpartition(" ")
        if seen[0] == self.boot_id:
            delta = offset - int(seen[2])
            if abs(delta) > STEP:
                self.run("shift_times", delta=delta, millis=self.settings().aging_rule.millis)
                self.run("shift_schedules", delta=delta)
                self.run("shift_rates", delta=delta)
        if seen[0] != self.boot_id or abs(offset - int(seen[2])) > STEP:
            self.run("set_meta", name="clock", value=f"{self.boot_id} {offset}")
        self._clock_offset = offset

    def clock_was_set(self) -> bool:
        """Whether the clock was set since this connection's last transaction; the next one mends what is stored."""
        offset = self.clock.now() - self.clock.steady()
        return self._clock_offset is not None and abs(offset - self._clock_offset) > STEP

    def keep_environment(self, environment: Mapping[str, str] | None, now: Millis) -> str | None:
        """Store an environment unless it is there; its hash, by which a job names it."""
        if environment is None:
            return None
        text = self.machine + ascii(sorted(environment.items()))
        hash = blake2b(text.encode(), digest_size=16).hexdigest()
        used_at = self.one("environment_used", hash=hash)
        if used_at is None or abs(now - used_at) > USE_MILLIS:
            from json import dumps

            used_at = self.latest_use(now)
            self.run("add_environment", hash=hash, variables=dumps(environment), machine=self.machine, used_at=used_at)
        return hash

    def latest_use(self, now: Millis) -> Millis:
        """When an environment is used that is used now: never before another was, also where the clock was set back."""
        return max(now, self.one("latest_use") or 0)

    def _count(self, counts: Counts) -> None:
        for queue in sorted(counts):  # in one order, so that two who count do not wait for each other
            self.run("count", queue=queue, shard=self.shard, **counts[queue])

    def go_on_after(self, tick: int, seq: int, totals: Mapping[str, Mapping[str, int]]) -> None:
        """Count on from where another database has stopped."""
        self.run("set_counters", tick=tick, seq=seq)
        for queue in totals:
            self.add_totals(queue)
        now = self.totals_by_queue()
        counts = no_counts()
        for queue in now:
            wanted = totals.get(queue, NOTHING)
            counts[queue].update({name: wanted[name] - now[queue][name] for name in TOTALS})
        self._count(counts)

    def add_totals(self, queue: str) -> None:
        """Counters of its own; those that it has go on."""
        self.run_many("add_totals", [dict(queue=queue, shard=shard) for shard in range(self.SHARDS)])

    # --- settings ---

    def set_setting(self, name: str, value: str | None) -> None:
        """Set a checked value, or go back to the default; a new aging rule ranks the line anew."""
        with self.transaction() as moment:
            before = self.settings()
            if value is None:
                self.run("unset_setting", name=name)
            else:
                self.run("set_setting", name=name, value=value)
            self.run("settings_changed")
            now = self.settings()
            if now.rate != before.rate:
                self.run("set_free_at", name=EVERY_QUEUE, free_at=0)
            aging = now.aging_rule
            if aging != moment.aging:
                self.run("rerank", **aging._asdict())
