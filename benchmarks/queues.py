"""Queues to measure on, empty or filled, each in a home of its own; with its end its workers end too."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import psutil

from queuectl.fields import parse
from queuectl.home import Home
from queuectl.job import Outcome
from queuectl.queue import captured_environment
from queuectl.storage import Storage, Worker, open_storage
from queuectl.worker_manager import WorkerManager

BATCH = 5_000
STOP_SECONDS = 5.0


class Shelf:
    """Filled queues: each is made once a run, and handed out in copies."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._originals: dict[tuple[int, int], Home] = {}
        self._made = 0

    @contextmanager
    def queue(self, waiting: int = 0, passed: int = 0) -> Iterator[Home]:
        """A queue with so many jobs waiting, through which so many have passed before."""
        home = self._new_home()
        try:
            if waiting or passed:
                copy_database(self._original(waiting, passed), home)
            yield home
        finally:
            end_processes(home)
            shutil.rmtree(home.root, ignore_errors=True)

    def _original(self, waiting: int, passed: int) -> Home:
        if (waiting, passed) not in self._originals:
            home = self._new_home()
            with closing(open_storage(home)) as storage:
                if passed:
                    pass_through(storage, home, passed)
                put_in_line(storage, waiting)
            self._originals[waiting, passed] = home
        return self._originals[waiting, passed]

    def _new_home(self) -> Home:
        self._made += 1
        home = Home(os.path.join(self.root, f"home-{self._made}"))
        os.makedirs(home.logs, mode=0o700)
        return home


def copy_database(source: Home, target: Home) -> None:
    """The file is whole once its last connection has closed. It is synced, or others' syncs would pay for it."""
    shutil.copyfile(source.database, target.database)
    with open(target.database, "rb+") as file:
        os.fsync(file.fileno())


# --- filling ---


def put_in_line(storage: Storage, jobs: int) -> None:
    """Jobs of every priority, as many small enqueues would leave them."""
    settings, now = storage.settings(), storage.clock.now()
    kinds = [parse({"command": "true", "priority": 1 + n % 10}, settings, "/", now) for n in range(BATCH)]
    environment = captured_environment()
    for begun in range(0, jobs, BATCH):
        storage.add(kinds[: jobs - begun], environment)


def pass_through(storage: Storage, home: Home, jobs: int) -> None:
    """One job passes through a new queue, and the others are copies of its rows under other numbers."""
    put_in_line(storage, 1)
    job = storage.claim("w-filler")
    assert job is not None
    storage.finish(job, Outcome(0, 0.001))
    with closing(sqlite3.connect(home.database)) as database, database:
        # It need not survive a power cut, and there is no hurry to write what is written to again.
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -200000")
        for table, numbered in (("jobs", ("seq", "since_tick", "started_tick")), ("runs", ("seq", "number"))):
            values = {name: name for name in columns(database, table)}
            values.update({name: f"{name} + n - :jobs" for name in values if name.endswith("_at")})
            values.update(dict.fromkeys(numbered, "n"))
            if table == "jobs":
                values["id"] = "CAST(n AS TEXT)"
            database.execute(
                f"WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < :jobs) "
                f"INSERT INTO {table} ({', '.join(values)}) "
                f"SELECT {', '.join(values.values())} FROM numbers, (SELECT * FROM {table} WHERE seq = 1)",
                {"jobs": jobs},
            )
        # The counters say what happened to the one job; it has now happened to all.
        for table in ("totals", "clock"):
            counted = [name for name in columns(database, table) if name not in ("settings", "queue", "shard")]
            changes = ", ".join(f"{name} = {name} * :jobs" for name in counted)
            database.execute(f"UPDATE {table} SET {changes}", {"jobs": jobs})


def columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


# --- workers ---


@contextmanager
def workers(home: Home, storage: Storage, count: int) -> Iterator[list[Worker]]:
    """Workers on this queue, while somebody measures."""
    manager = WorkerManager(home, storage)
    try:
        yield manager.start(count)
    finally:
        manager.stop(STOP_SECONDS)


def end_processes(home: Home) -> None:
    """Kill what still runs for this home, whatever went wrong: nobody else knows of it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("QUEUECTL_HOME") == home.root:
                process.kill()
