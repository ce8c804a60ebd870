"""Queues to measure on, empty or filled, each in a home of its own; its workers end together with it."""

from __future__ import annotations

import os
import shutil
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
FILLER = "w-filler"


class Shelf:
    """Filled queues: each kind is made once, and each benchmark gets a copy."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._originals: dict[tuple[int, int], Home] = {}
        self._made = 0

    @contextmanager
    def queue(self, waiting: int = 0, passed: int = 0) -> Iterator[Home]:
        """A queue with `waiting` jobs in line, which has finished `passed` jobs before."""
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
            if waiting and passed:
                copy_database(self._original(0, passed), home)
            with closing(open_storage(home)) as storage:
                if passed and not waiting:
                    pass_through(storage, passed)
                put_in_line(storage, waiting)
            self._originals[waiting, passed] = home
        return self._originals[waiting, passed]

    def _new_home(self) -> Home:
        self._made += 1
        home = Home(os.path.join(self.root, f"home-{self._made}"))
        os.makedirs(home.logs, mode=0o700)
        return home


def copy_database(source: Home, target: Home) -> None:
    """Copy the database file, which is complete once its last connection is closed.

    The copy is synced here, because otherwise the measured syncs would have to write it.
    """
    shutil.copyfile(source.database, target.database)
    with open(target.database, "rb+") as file:
        os.fsync(file.fileno())


# --- filling ---


def put_in_line(storage: Storage, jobs: int) -> None:
    """Add jobs of every priority to the line."""
    settings, now = storage.settings(), storage.clock.now()
    kinds = [parse({"command": "true", "priority": 1 + n % 10}, settings, "/", now) for n in range(BATCH)]
    environment = captured_environment()
    for begun in range(0, jobs, BATCH):
        storage.add(kinds[: jobs - begun], environment)


def pass_through(storage: Storage, jobs: int) -> None:
    """Enqueue jobs in batches, and claim and finish each, as a worker does."""
    for begun in range(0, jobs, BATCH):
        put_in_line(storage, min(BATCH, jobs - begun))
        job = storage.claim(FILLER)
        while job is not None:
            job = storage.finish(job, Outcome(0, 0.001), FILLER)


# --- workers ---


@contextmanager
def workers(home: Home, storage: Storage, count: int) -> Iterator[list[Worker]]:
    """Workers that run on this queue during a measurement."""
    manager = WorkerManager(home, storage)
    try:
        yield manager.start(count)
    finally:
        manager.stop(STOP_SECONDS)


def end_processes(home: Home) -> None:
    """Kill all processes of this home that still run: after an error nothing else would end them."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("QUEUECTL_HOME") == home.root:
                process.kill()
