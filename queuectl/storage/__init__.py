"""Where the queue lives: one contract, and an engine for each database."""

from __future__ import annotations

from queuectl.clock import Clock
from queuectl.home import Home
from queuectl.platforms import boot_id
from queuectl.storage.base import Added, Storage
from queuectl.storage.reading import AFTER_ALL_JOBS, EndedRun, Run, Worker

__all__ = ["AFTER_ALL_JOBS", "Added", "EndedRun", "Run", "Storage", "Worker", "open_storage"]


def open_storage(home: Home) -> Storage:
    from queuectl.storage.sqlite import SQLiteStorage

    return SQLiteStorage(home.database, Clock(), boot_id())
