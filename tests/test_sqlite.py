"""What only SQLite does."""

from __future__ import annotations

import gc
import sqlite3
import threading
from pathlib import Path

from conftest import SetClock

from queuectl.storage.sqlite import SQLiteStorage


def test_who_has_waited_for_the_lock_leaves_no_garbage(tmp_path: Path, clock: SetClock) -> None:
    """A worker looks for garbage so rarely that what each wait leaves would add up to megabytes."""
    path = str(tmp_path / "queuectl.db")
    waiting = SQLiteStorage(path, clock, "this boot")
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.1, holder.rollback)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        release.start()
        waiting.begin(durable=True)
        gc.collect()
        assert not [found for found in gc.garbage if isinstance(found, sqlite3.Error)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        release.join()
        waiting.rollback()
        waiting.close()
        holder.close()


def test_a_copy_that_has_forgotten_to_write_ahead_learns_it_again(tmp_path: Path, clock: SetClock) -> None:
    path, copy = str(tmp_path / "queuectl.db"), str(tmp_path / "copy.db")
    SQLiteStorage(path, clock, "this boot").close()
    original = sqlite3.connect(path)
    original.execute("VACUUM INTO ?", [copy])
    original.close()
    storage = SQLiteStorage(copy, clock, "this boot")
    assert storage.statement("PRAGMA journal_mode", {}).fetchone() == ("wal",)
    storage.close()
