"""Move a whole queue from one database to another, in small steps, each committed.

After an interruption the same call continues where the move stopped. The source keeps all rows. It is closed before
the first row is copied, so that it does not change; the target is opened only after the copy is complete and verified.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, NoReturn

from queuectl.database import configure, is_postgres, masked, sqlite_path
from queuectl.errors import QueueError, QueueMoved
from queuectl.home import Home
from queuectl.job import State
from queuectl.liveness import MISSED_HEARTBEATS
from queuectl.recovery import recover
from queuectl.storage import Storage, open_storage
from queuectl.storage.tables import Range, Row, Table, count, delete, ranges, rows_of, tables

# Tables that are not copied row by row: workers, what belongs to one database, and counters, which the engines store
# differently.
NOT_ROWS = ("workers", "meta", "clock", "totals")
# Rows of `meta` that belong to one database: its version, its clock, and its state in a move.
OWN_META = ("schema_version", "clock", "queue_id", "moved_to", "moving_from", "move", "move_progress", "arrived")
POLL_SECONDS = 0.1
SUM_BITS = 128

# Takes how many rows are done, and how many there are.
Show = Callable[[int, int], None]


class Sum:
    """The number of rows, and a checksum of their contents that does not depend on their order."""

    def __init__(self, rows: int = 0, checksum: str = "0") -> None:
        self.rows, self._sum = rows, int(checksum, 16)

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows += 1
            digest = blake2b(repr(row).encode(), digest_size=SUM_BITS // 8).digest()
            self._sum = (self._sum + int.from_bytes(digest, "big")) % (1 << SUM_BITS)

    @property
    def checksum(self) -> str:
        return f"{self._sum:032x}"


def move(home: Home, source: Storage, to: str, show: Show, patience_seconds: float = 0) -> dict[str, int]:
    """Move the queue, and configure this home to use it there; return how many rows each table has."""
    url = to if is_postgres(to) else f"sqlite:///{sqlite_path(to)}"
    target = open_storage(home, url)
    try:
        moved: dict[str, int] = {}
        if not _is_there(source, target):
            move_id = _begin(home, source, target, url, patience_seconds)
            moved = Move(source, target, move_id, show).run()
    finally:
        target.close()
    configure(home, url)
    return moved


def has_arrived(storage: Storage) -> bool:
    """Whether this queue has moved, and its copy is complete."""
    return "arrived" in storage.meta()


def reopen(storage: Storage) -> bool:
    """Open a queue again that was closed to be moved; False if it is open already."""
    with storage.exclusively():
        meta = storage.meta()
        if "moving_from" in meta:
            raise QueueMoved(moving_from=meta["moving_from"])
        if "moved_to" not in meta:
            return False
        if "arrived" in meta:  # there are two queues now; with different ids neither can kill the other's runs
            storage.run("set_meta", name="queue_id", value=os.urandom(4).hex())
        _forget(storage, "moved_to", "arrived")
    return True


# --- before anything is copied ---


def _is_there(source: Storage, target: Storage) -> bool:
    """Whether the target already holds the queue: it is the same database, or a move to it has copied everything."""
    here, there = source.meta(), target.meta()
    if here["queue_id"] != there["queue_id"] or "moving_from" in there:
        return False
    if "moved_to" in here:
        return here["move"] == there.get("move") and "moved_to" not in there
    return "moved_to" not in there and _is_same(source, target)


def _is_same(source: Storage, target: Storage) -> bool:
    """Whether both are the same database. URLs can differ, so a mark is written to one and looked for in the other."""
    mark = os.urandom(8).hex()
    with source.exclusively():
        source.run("set_meta", name="mark", value=mark)
    is_same = target.meta().get("mark") == mark
    with source.exclusively():
        _forget(source, "mark")
    return is_same


def _begin(home: Home, source: Storage, target: Storage, url: str, patience_seconds: float) -> str:
    """Mark the target and then close the source, unless an earlier call has done so; return the id of the move."""
    here = source.meta()
    if "moving_from" in here:
        raise QueueMoved(moving_from=here["moving_from"])
    if "moved_to" in here:
        if target.meta().get("move") != here["move"] or "moved_to" in target.meta():
            raise QueueError(
                f"This queue is on its way to {here['moved_to']}, and not to {masked(url)}. "
                "Finish that move, or give it up first: queuectl db reopen"
            )
        return here["move"]
    _rest(home, source, patience_seconds)
    move_id = os.urandom(8).hex()
    _mark(target, move_id, here["queue_id"], masked(source.url), masked(url))
    with source.alone(), source.transaction():
        _must_rest(source)
        source.run("set_meta", name="moved_to", value=masked(url))
        source.run("set_meta", name="move", value=move_id)
        source.run("settings_changed")
    return move_id


def _rest(home: Home, source: Storage, patience_seconds: float) -> None:
    """Put the jobs of dead workers back in line, and wait until no worker is registered and no job runs."""
    silence = MISSED_HEARTBEATS * source.settings().heartbeat_interval
    give_up = time.monotonic() + (patience_seconds and patience_seconds + silence)
    while True:
        recover(source, home)
        try:
            return _must_rest(source)
        except QueueError:
            if time.monotonic() >= give_up:
                raise
        time.sleep(POLL_SECONDS)


def _must_rest(source: Storage) -> None:
    if working := source.workers():
        names = ", ".join(f"{worker.name} on {worker.host}" for worker in working[:3])
        more = f" and {len(working) - 3} more" if len(working) > 3 else ""
        raise QueueError(
            f"A queue cannot be moved while it has workers, and it has {names}{more}. "
            "Stop them first with queuectl worker stop --all, or use --wait"
        )
    if held := source.jobs(State.PROCESSING, 1):
        raise QueueError(f"Job {held[0].id} was left behind by a worker that is gone. Use --wait until it is put back")


def _mark(target: Storage, move_id: str, queue_id: str, source_url: str, url: str) -> None:
    """Close the target to others until the end of the move; refused if it already holds another queue."""
    with target.exclusively():
        there = target.meta()
        is_closed = "moved_to" in there or "moving_from" in there
        # A closed target with this queue's id holds what an earlier move of this queue has left.
        if not (is_closed and there["queue_id"] == queue_id) and (is_closed or target.one("is_used") is not None):
            raise QueueError(f"There is a queue in {url} already. Nothing was changed: name an empty database")
        for name, value in (("queue_id", queue_id), ("moving_from", source_url), ("move", move_id)):
            target.run("set_meta", name=name, value=value)
        _forget(target, "moved_to", "arrived", "move_progress")


def _forget(storage: Storage, *names: str) -> None:
    for name in names:
        storage.run("unset_meta", name=name)
    storage.run("settings_changed")


# --- the rows ---


class Move:
    """Copies a closed source to a marked target. Each batch's transaction also stores the progress in the target."""

    def __init__(self, source: Storage, target: Storage, move_id: str, show: Show) -> None:
        self.source, self.target, self.id = source, target, move_id
        self.tables = [table for name, table in tables(source).items() if name not in NOT_ROWS]
        self.rows = {table.name: count(source, table) for table in self.tables}
        self._show, self._done = show, 0
        self._progress = target.meta().get("move_progress")
        self._begun = json.loads(self._progress or "{}")

    def run(self) -> dict[str, int]:
        if self._progress is None:
            self._empty()
        for table in self.tables:
            self._copy(table)
        self._count_on()
        for table in self.tables:
            self._compare(table)
        self._compare_counters()
        with self.source.exclusively():
            here = self.source.meta()
            if "moved_to" not in here or here["move"] != self.id:
                raise QueueError("The queue was opened again while it was moved. Nothing was switched: move it again")
            self.source.run("set_meta", name="arrived", value=self.id)
        with self.target.exclusively():
            _forget(self.target, "moving_from", "move_progress", "clock")
        return self.rows

    def _empty(self) -> None:
        """Delete the rows that an earlier move has left in the target."""
        for table in self.tables:
            for part in ranges(self.target, table):
                with self.target.exclusively():
                    self._must_be_ours()
                    delete(self.target, part)
        with self.target.exclusively():
            self._must_be_ours()
            self._note()

    def _copy(self, table: Table) -> None:
        after, *begun = self._begun.get(table.name, [None])
        copied = Sum(*begun)
        self._tell(copied.rows)
        for part in ranges(self.source, table, after):
            rows = self._read(self.source, part)
            copied.add(rows)
            with self.target.exclusively():
                self._must_be_ours()
                self.target.insert(table.name, table.columns, at_home(table, rows, "", self.target.machine))
                self._begun[table.name] = [part.last, copied.rows, copied.checksum]
                self._note()
            self._tell(len(rows))

    def _count_on(self) -> None:
        with self.target.exclusively():
            self._must_be_ours()
            self.target.go_on_after(*self.source.counters(), self.source.totals_by_queue())
            for name, value in self.source.meta().items():
                if name not in OWN_META:
                    self.target.run("set_meta", name=name, value=value)

    def _compare(self, table: Table) -> None:
        """Compare the checksum of the rows sent with that of the target's rows, and all counts of rows."""
        _, *begun = self._begun.get(table.name, [None])
        sent, found = Sum(*begun), Sum()
        for part in ranges(self.target, table):
            rows = self._read(self.target, part)
            found.add(rows)
            self._tell(len(rows))
        counted = {sent.rows, found.rows, self.rows[table.name], count(self.target, table)}
        if sent.checksum != found.checksum or len(counted) > 1:
            self._refuse(f"{table.name} ({found.rows:,} rows of {self.rows[table.name]:,})")

    def _compare_counters(self) -> None:
        there, here = (counted(one) for one in (self.target, self.source))
        if there != here:
            self._refuse("the counters")

    def _refuse(self, what: str) -> NoReturn:
        raise QueueError(
            f"The copy of {what} is not what was sent. Nothing was switched. "
            "Give this copy up with queuectl db reopen, and move again"
        )

    def _read(self, storage: Storage, part: Range) -> list[Row]:
        return at_home(part.table, rows_of(storage, part), storage.machine, "")

    def _must_be_ours(self) -> None:
        there = self.target.meta()
        if (there.get("move"), there.get("move_progress")) != (self.id, self._progress):
            raise QueueError("Somebody else is moving this queue at the same time. Let only one process do it")

    def _note(self) -> None:
        self._progress = json.dumps(self._begun)
        self.target.run("set_meta", name="move_progress", value=self._progress)

    def _tell(self, rows: int) -> None:
        self._done += rows
        self._show(self._done, 2 * sum(self.rows.values()))


def counted(storage: Storage) -> tuple[Any, ...]:
    """All counters, except those of queues that never had a job."""
    totals = storage.totals_by_queue()
    return storage.counters(), {queue: numbers for queue, numbers in totals.items() if any(numbers.values())}


def at_home(table: Table, rows: Sequence[Row], machine: str, name: str) -> list[Row]:
    """The rows with this machine renamed: SQLite stores an empty name for it, and PostgreSQL its id."""
    if "machine" not in table.columns or machine == name:
        return list(rows)
    place = table.columns.index("machine")

    def renamed(row: Row) -> tuple[Any, ...]:
        return (*row[:place], name, *row[place + 1 :]) if row[place] == machine else row

    return [renamed(row) for row in rows]
