"""Moves that are killed, given up, raced or tampered with, and queues that are large: nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from conftest import ROOT, Cli
from test_order import new_job
from whole_queue import dump, fill, is_open, line, quiet

from queuectl import checking
from queuectl.database import configured
from queuectl.errors import QueueError
from queuectl.home import Home, open_home
from queuectl.job import Outcome
from queuectl.moving import Move, has_arrived, move, reopen
from queuectl.storage import Storage, open_storage
from queuectl.storage import postgres as postgres_engine
from queuectl.storage import sqlite as sqlite_engine
from queuectl.storage.tables import BATCH_BYTES, ranges, rows_of, tables

# --- killed, given up, tampered with ---

KILLER = """
import os, signal, sys
from queuectl import cli, moving
from queuectl.storage import postgres, sqlite, tables
tables.BATCH_ROWS = 8
when, left, url = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def counted(commit):
    def wrapped(self):
        global left
        left -= 1
        if left == 0 and when == "before":
            die()
        commit(self)
        if left == 0 and when == "after":
            die()
    return wrapped

for engine in (postgres.PostgresStorage, sqlite.SQLiteStorage):
    engine.commit = counted(engine.commit)
if when == "configure":
    moving.configure = die
sys.argv[1:] = ["db", "move", "--to", url]
cli.main()
"""


def killed_move(cli: Cli, when: str, commits: int, url: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", KILLER, when, str(commits), url],
        env={**cli.env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_a_move_that_is_killed_again_and_again_arrives_whole(cli: Cli, urls: tuple[str, str]) -> None:
    home = open_home(str(cli.home))
    source = open_storage(home, urls[0])
    fill(source)
    before, order, totals, counters = dump(source), line(source), source.totals(), source.counters()
    source.close()
    cli.ok("config", "set", "database", urls[0])
    kills = 0
    # At each of the first commits and between them, and never later: so it arrives only if each goes on where the last
    # one stopped.
    moments = cycle([("after", 1), ("before", 2), ("after", 2), ("before", 3), ("after", 3)])
    while killed_move(cli, *next(moments), urls[1]):
        kills += 1
        assert kills < 30
        assert configured(home) == urls[0]
    assert kills > 6
    assert configured(home) == urls[1]
    target = open_storage(home, urls[1])
    assert (dump(target), line(target), target.totals(), target.counters()) == (before, order, totals, counters)
    assert is_open(target) and checking.check(target).problems == []
    target.close()


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_a_move_that_is_killed_before_it_switches_the_configuration_switches_it_the_next_time(
    cli: Cli, urls: tuple[str, str]
) -> None:
    cli.ok("config", "set", "database", urls[0])
    cli.ok("enqueue", "true")
    assert killed_move(cli, "configure", 0, urls[1])
    refused = cli("enqueue", "true")
    assert refused.returncode == 1 and "has moved to" in refused.stderr
    for _ in range(2):
        cli.ok("db", "move", "--to", urls[1])
        assert cli.ok("enqueue", "true") in ("2\n", "3\n")


def interrupted(home: Home, source: Storage, url: str, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(Move, step, lambda *_: 1 / 0)
        move(home, source, url, quiet)


def test_a_move_that_goes_on_does_not_copy_again_what_is_there(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queuectl.storage.tables.BATCH_ROWS", 5)
    source = opened(urls[0])
    fill(source)
    inserted: list[str] = []
    for engine in (sqlite_engine.SQLiteStorage, postgres_engine.PostgresStorage):
        insert = engine.insert

        def counting(self: Any, table: str, columns: Any, rows: Any, insert: Any = insert) -> None:
            insert(self, table, columns, rows)
            inserted.extend(table for _ in rows)

        monkeypatch.setattr(engine, "insert", counting)
    for step in ("_count_on", "_compare"):
        interrupted(home, source, urls[1], monkeypatch, step)
    shown: list[tuple[int, int]] = []
    moved = move(home, source, urls[1], lambda done, total: shown.append((done, total)))
    assert {table: inserted.count(table) for table in moved} == moved
    assert shown[-1][0] == shown[-1][1] == 2 * sum(moved.values()) and shown == sorted(shown)


def test_a_move_that_is_given_up_leaves_the_source_open_and_can_be_begun_anew(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(urls[0])
    fill(source)
    interrupted(home, source, urls[1], monkeypatch, "_compare")
    with pytest.raises(QueueError, match=r"is on its way to .* queuectl db reopen"):
        move(home, source, f"sqlite:///{home.root}/third.db", quiet)
    queue_id = source.queue_id()
    assert reopen(source) and is_open(source) and not reopen(source)
    assert source.meta()["queue_id"] == queue_id
    source.delete([source.job("n0")])
    source.add([new_job(id="later")])
    assert not is_open(opened(urls[1])), "what is half there is not used meanwhile"
    move(home, source, urls[1], quiet)
    assert dump(opened(urls[1])) == dump(source)
    assert opened(urls[1]).job("later")


def test_a_move_whose_source_is_opened_again_meanwhile_switches_nothing(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, other = opened(urls[0]), opened(urls[0])
    fill(source)
    compare = Move._compare_counters
    monkeypatch.setattr(Move, "_compare_counters", lambda self: (reopen(other), compare(self)))
    with pytest.raises(QueueError, match="was opened again while it was moved"):
        move(home, source, urls[1], quiet)
    assert is_open(source) and not is_open(opened(urls[1])) and configured(home) is None


def test_a_source_that_is_opened_again_after_the_move_is_a_queue_of_its_own(cli: Cli, postgres: str) -> None:
    cli.ok("enqueue", "true")
    cli.ok("db", "move", "--to", postgres)
    old = {"QUEUECTL_DB": f"sqlite:///{cli.home}/queuectl.db"}
    asked = cli("db", "reopen", input="n\n", **old)
    assert asked.returncode == 1 and "would run in both places" in asked.stderr
    assert cli("enqueue", "true", **old).returncode == 1
    assert cli.ok("db", "reopen", "--yes", **old) == "The queue is open again.\n"
    assert cli.ok("db", "reopen", **old) == "The queue is open.\n"
    cli.ok("enqueue", "true", **old)
    home = open_home(str(cli.home))
    here, there = open_storage(home, old["QUEUECTL_DB"]), open_storage(home, postgres)
    assert here.queue_id() != there.queue_id()
    here.close()
    there.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE jobs SET output = 'out ' WHERE id = 'n0'",
        "UPDATE runs SET duration_seconds = duration_seconds + 0.0000001 WHERE number = 1",
        "DELETE FROM settings WHERE name = 'stop_grace'",
        "INSERT INTO environments (hash, variables, machine) VALUES ('hash', '{}', '')",
        "UPDATE totals SET dead = dead + 1 WHERE shard = 0",
    ],
)
def test_a_copy_that_is_not_what_was_sent_is_not_used(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    source = opened(urls[0])
    fill(source)
    count_on = Move._count_on

    def damaged(self: Move) -> None:
        count_on(self)
        self.target.statement(damage, {})

    monkeypatch.setattr(Move, "_count_on", damaged)
    with pytest.raises(QueueError, match=r"is not what was sent. Nothing was switched"):
        move(home, source, urls[1], quiet)
    assert configured(home) is None and not is_open(opened(urls[1])) and not has_arrived(source)


def test_of_two_that_move_at_once_one_goes_on(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(urls[0])
    fill(source)
    interrupted(home, source, urls[1], monkeypatch, "_copy")
    target, other = opened(urls[1]), opened(urls[1])
    first, second = (Move(source, one, source.meta()["move"], quiet) for one in (target, other))
    first._copy(first.tables[0])
    with pytest.raises(QueueError, match="Somebody else is moving"):
        second.run()
    first.run()
    assert dump(target) == dump(source)


# --- much ---


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo terminals to look at")
def test_a_bar_shows_how_far_it_is_to_who_looks_and_to_nobody_else(cli: Cli, postgres: str) -> None:
    cli.ok("enqueue", "true")
    seen, terminal = os.openpty()
    command = [sys.executable, str(ROOT / "queuectl.py"), "db", "move", "--to", postgres]
    done = subprocess.run(command, env=cli.env, stderr=terminal, stdout=subprocess.PIPE, timeout=60)
    os.close(terminal)
    shown = os.read(seen, 100_000).decode()
    os.close(seen)
    assert done.returncode == 0 and "Moving  [" in shown and "100%" in shown
    copied = cli("db", "move", "--to", f"sqlite:///{cli.home}/back.db")
    assert copied.returncode == 0 and copied.stderr.count("\n") == 1, "only where the old one is"


def test_long_output_is_moved_a_few_rows_at_a_time(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage]
) -> None:
    source = opened(urls[0])
    source.add([new_job() for _ in range(30)])
    while job := source.claim("w"):
        source.finish(job, Outcome(0, 0.1, chr(97 + job.seq % 20) * 1_000_000, ""))
    sizes = [len(rows_of(source, part)) for part in ranges(source, tables(source)["jobs"])]
    assert sum(sizes) == 30 and max(sizes) * 1_000_000 <= BATCH_BYTES
    tracemalloc.start()
    try:
        move(home, source, urls[1], quiet)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * BATCH_BYTES
    assert opened(urls[1]).job("7").output == source.job("7").output


def test_a_row_that_is_longer_than_a_batch_is_moved_alone(
    home: Home, postgres: str, opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queuectl.storage.tables.BATCH_BYTES", 10)
    source = opened(f"sqlite:///{home.database}")
    fill(source)
    assert {len(rows_of(source, part)) for part in ranges(source, tables(source)["jobs"])} == {1}
    move(home, source, postgres, quiet)
    assert dump(opened(postgres)) == dump(source)
