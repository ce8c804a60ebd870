"""The storage of the queue: one contract, and an engine for each database."""

from __future__ import annotations

from queuectl.clock import Clock, ServerClock
from queuectl.database import checked, database_url, is_postgres, sqlite_path
from queuectl.errors import StorageError
from queuectl.home import Home
from queuectl.platforms import boot_id
from queuectl.storage.base import Storage
from queuectl.storage.handing_in import Added, Occurrence
from queuectl.storage.history import Sample
from queuectl.storage.reading import MOST_COUNTED
from queuectl.storage.rows import COMMAND_LETTERS, EVERY_QUEUE, EndedRun, Link, QueueRow, Run, Turn, Worker
from queuectl.storage.schedules import Schedule
from queuectl.storage.ways import AFTER_ALL_JOBS, BLOCKED, LATER, cursor_after

__all__ = [
    "AFTER_ALL_JOBS",
    "BLOCKED",
    "COMMAND_LETTERS",
    "EVERY_QUEUE",
    "LATER",
    "MOST_COUNTED",
    "Added",
    "EndedRun",
    "Link",
    "Occurrence",
    "QueueRow",
    "Run",
    "Sample",
    "Schedule",
    "Storage",
    "Turn",
    "Worker",
    "cursor_after",
    "open_storage",
]


def open_storage(home: Home, url: str | None = None) -> Storage:
    """Open the queue's database: PostgreSQL or SQLite, as the URL says."""
    url = checked(url) if url else database_url(home)
    if is_postgres(url):
        try:
            from queuectl.storage.postgres import PostgresStorage
        except ImportError:
            raise StorageError("PostgreSQL needs psycopg. Install it: pip install 'psycopg[binary]>=3.2'") from None
        return PostgresStorage(url, ServerClock(), boot_id(), home.machine())
    from queuectl.storage.sqlite import SQLiteStorage

    return SQLiteStorage(sqlite_path(url) or home.database, Clock(), boot_id())
