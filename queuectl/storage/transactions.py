"""Transactions: what an engine adds, the moment of a transaction, and the counters and settings that it changes."""

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

# A commit that is not durable is synced nevertheless if the last sync was this long ago.
SYNC_SECONDS = 0.1
USE_MILLIS = 86_400_000  # how often an environment's used_at is updated at most
NOTHING = dict.fromkeys(TOTALS, 0)

TRIES = 10  # of a transaction that collides

# How the counters of each queue change.
Counts = defaultdict[str, dict[str, int]]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Collision(StorageError):
    """The transaction was rolled back because another one changed the same jobs; it can be tried again."""


def insistent(change: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Retry a transaction that a collision rolled back."""

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
    """When a transaction happens, as time and as tick, and the aging rule that computes ranks from them."""

    now: Millis
    tick: int
    due: Millis | None  # when the next job is due
    aging: Aging


class Transaction:
    """One transaction, entered with the moment at which it happens; an exception rolls it back.

    A class, because a generator with @contextmanager would take more time for every job.
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
    entered = 0  # jobs that enter the line in this transaction; as many workers are woken after it
    _is_synced = True
    _synced_at = 0.0
    _unsynced_since: float | None = None

    # --- what an engine adds ---

    @abstractmethod
    def run_many(self, query: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute a named query once per row, and return how many rows of the table it changed."""

    @abstractmethod
    def begin(self, durable: bool) -> None:
        """Begin a transaction that may write.

        A durable one is on disk when it is committed. The others are on disk within 0.2 s, if `heartbeat` is called
        when they have been unsynced for 0.1 s.
        """

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def alone(self) -> AbstractContextManager[object]:
        """A context whose transaction excludes all other transactions."""

    @abstractmethod
    def statement(self, sql: str, parameters: Mapping[str, Any]) -> Any:
        """Execute a generated statement, and return its cursor."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...

    @abstractmethod
    def new_numbers(self, jobs: int) -> tuple[int, Sequence[int]]:
        """Count one enqueue of this many jobs: return its tick, and a number for each job."""

    @abstractmethod
    def next_number(self) -> int: ...

    def wake(self, jobs: int) -> None:
        """Wake this many sleeping workers; there is nothing to do where workers notice commits by themselves."""

    # --- transactions, the clock, the counters ---

    def change(self, query: str, **parameters: Any) -> int:
        """Execute a named query, and return how many rows it changed."""
        return int(self.run(query, **parameters).rowcount)

    def transaction(self, durable: bool = True) -> Transaction:
        return Transaction(self, durable)

    def undo(self) -> None:
        self._settings = self._clock_offset = None  # they may stem from this transaction
        self.rollback()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads in this context see one moment; writers do not wait for it."""
        self.run("snapshot")
        try:
            yield
        finally:
            self.rollback()

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """A transaction that excludes all others; it works on a closed queue, too."""
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
        """Whether the commit of a transaction that begins now must be synced to disk."""
        self._is_synced = durable or time.monotonic() - self._synced_at >= SYNC_SECONDS
        return self._is_synced

    def has_committed(self) -> None:
        if self._is_synced:
            self._synced_at, self._unsynced_since = time.monotonic(), None
        elif self._unsynced_since is None:
            self._unsynced_since = time.monotonic()

    def unsynced_seconds(self) -> float:
        """For how long there have been commits that are not synced to disk; 0 if there are none."""
        return 0.0 if self._unsynced_since is None else time.monotonic() - self._unsynced_since

    def moment(self) -> Moment:
        now = self.clock.now()
        offset = now - self.clock.steady()
        if self._clock_offset is None or abs(offset - self._clock_offset) > STEP:
            self._compare_clocks(offset)
        tick, due = self.look_at_clock()
        return Moment(now, tick, due, self.known_settings.aging_rule)

    def _compare_clocks(self, offset: Millis) -> None:
        """Shift the stored times if the clock was set since any process last checked it since the machine's boot."""
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
        """Whether the clock was set since this connection's last transaction; the next one shifts the stored times."""
        offset = self.clock.now() - self.clock.steady()
        return self._clock_offset is not None and abs(offset - self._clock_offset) > STEP

    def keep_environment(self, environment: Mapping[str, str] | None, now: Millis) -> str | None:
        """Store an environment unless it is stored already; return its hash, by which jobs refer to it."""
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
        """The used_at for an environment used now: never before any stored one, even if the clock was set back."""
        return max(now, self.one("latest_use") or 0)

    def _count(self, counts: Counts) -> None:
        for queue in sorted(counts):  # one lock order, so that two transactions do not deadlock
            self.run("count", queue=queue, shard=self.shard, **counts[queue])

    def go_on_after(self, tick: int, seq: int, totals: Mapping[str, Mapping[str, int]]) -> None:
        """Continue the counters from another database's values."""
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
        """Create a queue's counters; existing ones keep their values."""
        self.run_many("add_totals", [dict(queue=queue, shard=shard) for shard in range(self.SHARDS)])

    # --- settings ---

    def set_setting(self, name: str, value: str | None) -> None:
        """Set a checked value, or go back to the default; a new aging rule re-ranks the line."""
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
