"""Queues to measure on, empty or filled, each in a home of its own; with its end its workers end too."""

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


def pass_through(storage: Storage, jobs: int) -> None:
    """Each is enqueued, claimed and finished, as by a worker; a batch of them waits at a time."""
    for begun in range(0, jobs, BATCH):
        put_in_line(storage, min(BATCH, jobs - begun))
        job = storage.claim(FILLER)
        while job is not None:
            job = storage.finish(job, Outcome(0, 0.001), FILLER)


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
