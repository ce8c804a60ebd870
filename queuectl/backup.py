"""Copy a queue in use into one SQLite file, which can be used as an independent queue."""

from __future__ import annotations

import os
from collections.abc import Callable

from queuectl.database import sqlite_path
from queuectl.errors import QueueError
from queuectl.files import remove, replace
from queuectl.home import Home
from queuectl.storage import Storage, open_storage

BESIDE = ("-wal", "-shm")  # SQLite would apply such leftover files of an older database to the new one


def back_up(home: Home, storage: Storage, path: str, overwrite: bool, show: Callable[[int, int], None]) -> None:
    """Copy the queue to this path, whole or not at all."""
    path, new = os.path.abspath(path), os.path.abspath(f"{path}.new")
    if os.path.isdir(path):
        raise QueueError(f"{path} is a directory. Name a file in it")
    there = [name for name in (path, *(path + end for end in BESIDE)) if os.path.exists(name)]
    if there and not overwrite:
        raise QueueError(f"{there[0]} is there already. Name another file, or use --overwrite")
    own = sqlite_path(storage.url)
    if os.path.exists(path) and own is not None and os.path.samefile(path, own):
        raise QueueError(f"{path} is the queue itself. Name another file")
    for name in (new, *(new + end for end in BESIDE)):
        remove(name)
    try:
        # We create the file, so that only its owner can read it; SQLite would create it with the umask's permissions.
        try:
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise QueueError(f"Cannot make {path}: {error.strerror}. Is its directory there, and yours?") from error
        storage.copy_to(new, show)
        _make_its_own(home, new)
        for end in BESIDE:
            remove(path + end)
        replace(new, path)
    finally:
        for name in (new, *(new + end for end in BESIDE)):
            remove(name)


def _make_its_own(home: Home, path: str) -> None:
    """Make the copy a queue of its own: without workers and running jobs, and with a new queue id.

    The queue id is part of every run's mark, so the two queues cannot kill each other's runs.
    """
    copy = open_storage(home, f"sqlite:///{path}")
    try:
        for worker in copy.workers():
            for job in copy.held_by(worker.name):
                copy.lose(job, rebooted=True, worker=worker)
            copy.remove_worker(worker.name)
        for job in copy.orphans():
            copy.lose(job, rebooted=True)
        with copy.exclusively():
            copy.run("set_meta", name="queue_id", value=os.urandom(4).hex())
    finally:
        copy.close()
