"""A copy of a live queue, in one file, that can be used as a queue of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

from queuectl.database import sqlite_path
from queuectl.errors import QueueError
from queuectl.files import remove, replace
from queuectl.home import Home
from queuectl.storage import Storage, open_storage

BESIDE = ("-wal", "-shm")  # what SQLite keeps beside a database, and would take for this one's


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
        # Made here, and not by SQLite, so that it is its owner's only, whatever the umask.
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
    """A queue that nobody works on yet, and whose runs are nobody else's."""
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
