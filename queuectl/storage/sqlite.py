"""The queue in one SQLite file: what only this engine does."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from operator import itemgetter
from typing import Any, ClassVar

from queuectl.clock import Clock
from queuectl.errors import NewerSchema, StorageError
from queuectl.platforms import Watcher
from queuectl.storage.base import Storage
from queuectl.storage.sql import PARAMETER, migrations

OLDEST_SQLITE = (3, 35, 0)  # RETURNING
BUSY_SECONDS = 60.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.00002, 0.01
SHORTEST_LOOK, SLOW_SYNC_SECONDS = 0.001, 0.2
LONGEST_LOG = 5_000_000  # bytes; SQLite itself lets the log grow to 1,000 pages, plus one large transaction

OURS = {"meta", "settings", "clock", "totals", "jobs", "runs", "workers"}  # tables that every version of the schema has
PAGES_A_STEP = 1_000
COLUMNS = """SELECT tables.name, columns.name, columns.pk > 0, columns.type = 'TEXT'
FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%' ORDER BY tables.name, columns.cid"""


class Placed(dict[str, tuple[str, Callable[[Mapping[str, Any]], Any]]]):
    """Each used query with positional parameters, and a function that orders them: SQLite binds by name more slowly."""

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql

    def __missing__(self, query: str) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
        # Interned, as the names of keyword arguments are: a lookup then need not compare letter by letter.
        names = [sys.intern(name) for name in re.findall(PARAMETER, self._sql[query])]
        # With a single name, itemgetter would return the bare value instead of a tuple.
        in_place = itemgetter(*names) if len(names) > 1 else lambda parameters: [parameters[name] for name in names]
        self[query] = re.sub(PARAMETER, "?", self._sql[query]), in_place
        return self[query]


class SQLiteStorage(Storage):
    DIALECT: ClassVar[Mapping[str, str]] = {
        "tick": "tick",
        "seq": "seq",
        "now": "NULL",
        "for_update": "",
        "skip_locked": "",
        "snapshot": "",
        "size": "length",
    }
    is_shared = False

    def __init__(self, path: str, clock: Clock, boot_id: str) -> None:
        super().__init__(clock, boot_id)
        # Follow a symbolic link: SQLite keeps its other files beside the file itself.
        self.path = os.path.realpath(path) if os.path.islink(path) else path
        self.url = f"sqlite:///{path}"
        self._placed = Placed(self.sql)
        self._full: bool | None = None
        self._version_seen: int | None = None
        self._watcher: Watcher | None = None
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StorageError(
                f"SQLite {sqlite3.sqlite_version} is too old: queuectl needs 3.35 or later. Use a newer Python"
            )
        self._connect()

    def _connect(self) -> None:
        if not os.path.exists(self.path):
            # Created here, not by SQLite, so that only its owner can read it, whatever the umask.
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise StorageError(f"Cannot make {self.path}: {error.strerror}. Is its directory writable?") from error
        self._inode = os.stat(self.path).st_ino
        try:
            self._database = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except sqlite3.Error as error:
            raise self._explained(error) from error
        # One cursor for all statements: no caller reads on after the next statement, and making a cursor takes time.
        self._cursor = self._database.cursor()
        self._migrate()
        if not os.path.exists(self.path + "-wal"):
            self._use_log()
        if os.path.getsize(self.path + "-wal") > LONGEST_LOG:
            # If processes come and go one at a time, SQLite never restarts the log: each one recovers and extends it.
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _migrate(self) -> None:
        steps = migrations()
        version = self._schema_version()
        # Read the version and the tables again, in case another process has created the tables in between.
        if not self._is_ours(version) and not self._is_ours(self._schema_version()):
            raise StorageError(
                f"{self.path} is another program's database, and was not changed. Name another file, or move it away"
            )
        if version == len(steps):
            return
        if version == 0:
            self._use_log()
        self.begin(durable=True)
        try:
            version = self._schema_version()  # another process may have been first
            if version > len(steps):
                raise NewerSchema(self.path, version, len(steps))
            for step in steps[version:]:
                for statement in step:
                    self._execute(statement)
            if version == 0:
                self.run("set_meta", name="queue_id", value=os.urandom(4).hex())
            self._execute(f"PRAGMA user_version = {len(steps)}")
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def _is_ours(self, version: int) -> bool:
        """Whether the database has a queue's tables, or no tables yet."""
        tables = {name for (name,) in self._execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
        return tables >= OURS if version else not tables

    def _use_log(self) -> None:
        """Switch to WAL mode, so that no reader waits for a writer; a copied file may not be in that mode any more."""
        [mode] = self._execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StorageError(
                f"{self.path}: SQLite cannot write ahead there. Is it on a network drive? "
                "Set QUEUECTL_HOME to a directory on a local disk"
            )
        self._schema_version()  # SQLite creates the log at the first read

    def _schema_version(self) -> int:
        return int(self._execute("PRAGMA user_version").fetchone()[0])

    def run(self, query: str, **parameters: Any) -> sqlite3.Cursor:
        sql, in_place = self._placed[query]
        try:
            return self._cursor.execute(sql, in_place(parameters))
        except sqlite3.Error as error:
            return self._execute_later(sql, in_place(parameters), error)

    def run_many(self, query: str, rows: Sequence[Mapping[str, Any]]) -> int:
        if not rows:
            return 0
        sql, in_place = self._placed[query]
        try:
            return self._database.executemany(sql, map(in_place, rows)).rowcount
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _execute(self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._cursor.execute(sql, parameters)
        except sqlite3.Error as error:
            return self._execute_later(sql, parameters, error)

    def _execute_later(
        self, sql: str, parameters: Mapping[str, Any] | Sequence[Any], error: sqlite3.Error
    ) -> sqlite3.Cursor:
        """Retry while another connection has the lock; SQLite itself would wait a whole millisecond at first."""
        pause, give_up = SHORTEST_PAUSE, time.monotonic() + BUSY_SECONDS
        try:
            while "locked" in str(error) and time.monotonic() <= give_up:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                try:
                    return self._cursor.execute(sql, parameters)
                except sqlite3.Error as again:
                    error = again
            raise self._explained(error) from error
        finally:
            del error  # breaks the reference cycle of the exception and this frame, which only the collector would free

    def begin(self, durable: bool) -> None:
        if self._watcher is not None:
            self._watcher.rest()
        full = self.must_sync(durable)
        if full is not self._full:
            self._execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._full = full
        # SQLite has no SKIP LOCKED: taking the write lock first makes the claim exclusive.
        self._execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._execute("COMMIT")
        self.has_committed()

    def rollback(self) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def alone(self) -> AbstractContextManager[object]:
        return nullcontext()  # the write lock already excludes all other transactions

    def new_numbers(self, jobs: int) -> tuple[int, Sequence[int]]:
        tick, last = self._execute(
            "UPDATE clock SET tick = tick + 1, seq = seq + ? RETURNING tick, seq", [jobs]
        ).fetchone()
        return tick, range(last - jobs + 1, last + 1)

    def next_number(self) -> int:
        return int(self._execute("UPDATE clock SET seq = seq + 1 RETURNING seq").fetchone()[0])

    # --- whole tables, and the whole file ---

    def columns(self) -> list[tuple[str, str, bool, bool]]:
        return self._execute(COLUMNS).fetchall()

    def statement(self, sql: str, parameters: Mapping[str, Any]) -> sqlite3.Cursor:
        return self._execute(sql, parameters)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        places = ", ".join("?" * len(columns))
        try:
            self._database.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def damage(self) -> list[str]:
        # Not quick_check: only integrity_check notices an index that has lost a row, which hides a job.
        found = [line for (line,) in self._execute("PRAGMA integrity_check").fetchall()]
        return [] if found == ["ok"] else found

    def copy_to(self, path: str, show: Callable[[int, int], None]) -> None:
        try:
            copy = sqlite3.connect(path)
        except sqlite3.Error as error:
            raise self._explained(error) from error
        try:
            # In one read snapshot: otherwise each commit of another connection would restart the copy.
            with self.snapshot():
                self._schema_version()
                self._database.backup(
                    copy, pages=PAGES_A_STEP, progress=lambda _, left, pages: show(pages - left, pages)
                )
        except sqlite3.Error as error:
            raise self._explained(error) from error
        finally:
            copy.close()

    # --- sleeping and waking ---

    def changed(self) -> bool:
        before, self._version_seen = self._version_seen, self._data_version()
        return self._version_seen != before

    def _data_version(self) -> int:
        return int(self._execute("PRAGMA data_version").fetchone()[0])

    def version(self) -> str:
        return str(self._data_version())

    def wait(self, seconds: float) -> None:
        if self._watcher is None:
            self._watcher = Watcher(os.path.dirname(self.path))
        if self._watcher.wait(seconds, self.known_settings.poll_interval):
            # The watcher reports the write to the file; its commit becomes visible only a moment later, after which
            # another write may follow at any time.
            pause, give_up = SHORTEST_LOOK, time.monotonic() + SLOW_SYNC_SECONDS
            while self._data_version() == self._version_seen and time.monotonic() < give_up:
                pause = SHORTEST_LOOK if self._watcher.wait(pause, pause) else 2 * pause

    def size_bytes(self) -> int:
        sizes = 0
        for path in (self.path, f"{self.path}-wal"):
            with suppress(OSError):
                sizes += os.path.getsize(path)
        return sizes

    def is_there(self) -> bool:
        try:
            return os.stat(self.path).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        self._database.close()

    def _explained(self, error: sqlite3.Error) -> StorageError:
        said = str(error)
        for sign, advice in ADVICE.items():
            if sign in said:
                return StorageError(f"{self.path}: {advice}")
        return StorageError(f"{self.path}: {said}")


# SQLite's error messages, and the messages with advice that replace them.
ADVICE = {
    "not a database": "this file is not a database. Move it away, or set QUEUECTL_HOME to another directory",
    "malformed": "the database is damaged. Move it away, or restore a backup",
    "disk is full": "the disk is full, nothing was stored. Free some space and try again",
    "disk I/O error": "the disk cannot be read or written. Is it full, or gone?",
    "readonly database": "the database may not be written to. Check who owns it and its permissions",
    "unable to open": "the database cannot be opened. Check that its directory is there and is yours",
    "locked": "another process has kept the database locked for a minute. Look for one that hangs, and try again",
}
