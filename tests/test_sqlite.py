"""What only SQLite does."""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from conftest import SetClock
from test_order import new_job

from queuectl.errors import StorageError
from queuectl.storage.sql import migrations
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


@pytest.mark.skipif(os.name == "nt", reason="making a link takes rights there that a user may not have")
def test_the_file_may_be_a_link_to_where_there_is_room(tmp_path: Path, clock: SetClock) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "queuectl.db").symlink_to(tmp_path / "large" / "queue.db")
    for _ in range(2):
        storage = SQLiteStorage(str(tmp_path / "queuectl.db"), clock, "this boot")
        storage.add([new_job()])
        assert storage.is_there() and storage.size_bytes() > 0
        storage.close()
    assert (tmp_path / "queuectl.db").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large", "queuectl.db"]


@pytest.mark.parametrize("version", [0, len(migrations())])
def test_another_programs_database_is_refused_and_left_as_it_was(tmp_path: Path, clock: SetClock, version: int) -> None:
    path = tmp_path / "notes.db"
    notes = sqlite3.connect(path)
    notes.executescript(f"CREATE TABLE jobs (title TEXT); PRAGMA user_version = {version};")
    notes.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"notes\.db is another program's database, and was not changed"):
        SQLiteStorage(str(path), clock, "this boot")
    assert path.read_bytes() == before and [found.name for found in tmp_path.iterdir()] == ["notes.db"]
