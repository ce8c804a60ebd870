"""Moving a whole queue between databases, checking it and copying it: killed, raced and refused, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cli, eventually
from processes import lives
from test_order import new_job

from queuectl import checking
from queuectl.backup import back_up
from queuectl.database import configured, masked
from queuectl.errors import QueueError, QueueMoved
from queuectl.home import Home, open_home
from queuectl.job import Need, Outcome, State
from queuectl.moving import NOT_ROWS, Move, at_home, has_arrived, move, reopen
from queuectl.storage import QueueRow, Schedule, Storage, Worker, open_storage
from queuectl.storage import postgres as postgres_engine
from queuectl.storage import sqlite as sqlite_engine
from queuectl.storage.sql import migrations
from queuectl.storage.tables import BATCH_BYTES, ranges, rows_of, tables
from queuectl.storage.transactions import NOTHING

DONE = Outcome(0, 0.25, "out\n", "")
FAILED = Outcome(3, 0.125, "żółw 🐢\r\n", "err\u2028")
HERE = {"PATH": "/usr/bin", "ODD": "\udcff"}
DIRECTIONS = ["sqlite-postgres", "postgres-sqlite"]


def quiet(done: int, total: int) -> None:
    pass


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(str(tmp_path / "home"))


@pytest.fixture
def opened(home: Home) -> Iterator[Callable[[str], Storage]]:
    """Opens a database, and closes it in the end."""
    storages: list[Storage] = []

    def open_one(url: str) -> Storage:
        storages.append(open_storage(home, url))
        return storages[-1]

    yield open_one
    for storage in storages:
        storage.close()


@pytest.fixture(params=DIRECTIONS)
def urls(request: pytest.FixtureRequest, home: Home, postgres: str) -> tuple[str, str]:
    """From where, and to where."""
    found = {"sqlite": f"sqlite:///{home.database}", "postgres": postgres}
    source, _, target = request.param.partition("-")
    return found[source], found[target]


def fill(storage: Storage) -> None:
    """A queue with every kind of job, several runs, what was printed, and settings."""
    storage.set_setting("max_backoff", "86400")
    storage.set_setting("stop_grace", "7.5")
    storage.add([new_job(10, id="backing off", max_retries=3, backoff_base=1000.0)])
    job = storage.claim("w")
    assert job and job.id == "backing off"
    storage.finish(job, FAILED)
    storage.add([new_job(id=f"n{number}", max_retries=0, backoff_base=0.0) for number in range(4)], HERE)
    for outcome in (DONE, FAILED, Outcome(None, 0.0, state=State.PENDING)):
        job = storage.claim("w")
        assert job
        storage.finish(job, outcome)
    storage.cancel(storage.job("n3"), "no longer wanted")
    lost = storage.claim("gone")
    assert lost
    storage.lose(lost, rebooted=False)
    storage.add([new_job(9, id="retried", max_retries=3, backoff_base=0.0)])
    for number in range(2):
        job = storage.claim("w")
        assert job and job.id == "retried"
        storage.finish(job, Outcome(number + 1, 0.5, f"try {number}", "x" * 5000))
    storage.add([new_job(id="scheduled", run_at=storage.clock.now() + 3_600_000)])
    for priority in (1, 9, 5, 5, 3):
        storage.add([new_job(priority, command="echo 'ü'", env='{"A": "b"}'), new_job(priority)], {"OTHER": "1"})
    storage.add([new_job(id=wanted, needs=(Need("scheduled", wanted),)) for wanted in ("completed", "any")])
    storage.add_queue(QueueRow("gpu", 0, 2, "10/m"))
    storage.add([new_job(queue="gpu")])
    for name in ("nightly", "hourly"):
        storage.add_schedule(schedule(name, storage.clock.now()), HERE)
    for minute in (29_800_000, 29_800_001):
        with storage.transaction():
            storage.run("add_sample", minute=minute)
    states = {job.state for job in storage.jobs(None, 100)}
    assert states == set(State) - {State.PROCESSING}


def schedule(name: str, now: int) -> Schedule:
    return Schedule(name, "0 2 * * *", None, "Europe/Berlin", "{}", "true", "/", None, "skip", 0, 0, now, now + 1)


def dump(storage: Storage) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables that are moved; this machine has no name in it, as on SQLite."""
    found = {}
    for name, table in tables(storage).items():
        if name not in NOT_ROWS:
            rows = [row for part in ranges(storage, table) for row in rows_of(storage, part)]
            found[name] = sorted(at_home(table, rows, storage.machine, ""), key=repr)
    return found


def line(storage: Storage) -> list[str]:
    return [job.id for job in storage.jobs(State.PENDING, 100)]


def is_open(storage: Storage) -> bool:
    try:
        storage.must_be_open()
    except QueueMoved:
        return False
    return True


# --- there and back ---


@pytest.mark.parametrize("aging", ["1 enqueue", "60s", "off"])
def test_a_queue_that_went_there_and_back_is_the_same_row_for_row(
    home: Home, postgres: str, opened: Callable[[str], Storage], aging: str
) -> None:
    first = opened(f"sqlite:///{home.database}")
    fill(first)
    first.set_setting("aging", aging)
    before, order, totals, counters = dump(first), line(first), first.totals(), first.counters()
    assert min(map(len, before.values())) > 1 and len(order) == 15
    moved = move(home, first, postgres, quiet)
    assert moved == {name: len(rows) for name, rows in before.items()}
    there = opened(postgres)
    assert (dump(there), line(there), there.totals(), there.counters()) == (before, order, totals, counters)
    assert there.settings() == first.settings() and there.settings().aging == aging
    assert there.queue_id() == first.queue_id()
    assert configured(home) == postgres

    back = f"sqlite:///{home.root}/back.db"
    move(home, there, back, quiet)
    again = opened(back)
    assert (dump(again), line(again), again.totals(), again.counters()) == (before, order, totals, counters)
    assert again.settings() == first.settings()
    assert configured(home) == back
    assert checking.check(again).problems == checking.check(there).problems == []


def test_numbers_leases_ticks_and_runs_go_on_after_the_move(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage]
) -> None:
    source = opened(urls[0])
    fill(source)
    source.add([new_job(id="newest")])
    source.delete([source.job("newest")])
    last_run = source.statement("SELECT MAX(number) FROM runs", {}).fetchone()[0]
    leases = {job.id: job.lease for job in source.jobs(None, 100)}
    tick, seq = source.counters()
    move(home, source, urls[1], quiet)
    target = opened(urls[1])
    [added] = target.add([new_job(1)])
    assert (added.seq, target.counters()) == (seq + 1, (tick + 1, seq + 1))
    job = target.claim("w")
    assert job and job.lease == leases[job.id] + 1
    target.finish(job, DONE)
    assert target.statement("SELECT MAX(number) FROM runs", {}).fetchone() == (last_run + 1,)
    assert checking.check(target).problems == []


def test_a_job_goes_on_in_the_environment_of_this_machine_and_not_in_that_of_another(
    home: Home, postgres: str, opened: Callable[[str], Storage]
) -> None:
    def owners(storage: Storage) -> list[bool]:
        jobs = [storage.job(job_id) for job_id in ("here", "elsewhere")]
        return [storage.environment(job.environment or "")[1] == storage.machine for job in jobs]

    first = opened(postgres)
    first.add([new_job(id="here")], HERE)
    first.machine = "another machine"
    first.add([new_job(id="elsewhere")], HERE)
    first.machine = home.machine()
    assert owners(first) == [True, False]
    file = f"sqlite:///{home.root}/file.db"
    move(home, first, file, quiet)
    assert owners(opened(file)) == [True, False]
    move(home, opened(file), postgres, quiet)
    last = opened(postgres)
    assert owners(last) == [True, False]
    last.add([new_job(id="again")], HERE)
    assert last.job("again").environment == last.job("here").environment, "stored once, also after the move"


def test_a_table_that_somebody_adds_is_moved_too(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = [
        "CREATE TABLE notes (number INTEGER PRIMARY KEY, said TEXT)",
        "CREATE TABLE pairs (job INTEGER NOT NULL, needs TEXT NOT NULL, weight REAL, PRIMARY KEY (job, needs))",
        "ALTER TABLE jobs ADD COLUMN colour TEXT",
    ]
    longer = [*migrations(), extra]
    for engine in (sqlite_engine, postgres_engine):
        monkeypatch.setattr(engine, "migrations", lambda: longer)
    monkeypatch.setattr("queuectl.storage.tables.BATCH_ROWS", 2)
    source = opened(urls[0])
    source.add([new_job(id="red")])
    source.statement("UPDATE jobs SET colour = 'red'", {})
    for number in range(1, 6):
        source.statement("INSERT INTO notes (number, said) VALUES (:n, 'so')", {"n": number})
        source.statement("INSERT INTO pairs VALUES (:n, 'b', 0.1), (:n, 'a', NULL)", {"n": number})
    before = dump(source)
    assert len(before["pairs"]) == 10
    move(home, source, urls[1], quiet)
    target = opened(urls[1])
    assert dump(target) == before
    target.statement("INSERT INTO notes (said) VALUES ('next')", {})
    assert target.statement("SELECT MAX(number) FROM notes", {}).fetchone() == (6,)


def test_every_table_has_a_key_to_be_moved_by_or_is_moved_in_another_way(
    opened: Callable[[str], Storage], home: Home, postgres: str
) -> None:
    file, server = tables(opened(f"sqlite:///{home.database}")), tables(opened(postgres))
    assert file == server
    assert {name for name, table in file.items() if not table.key} <= set(NOT_ROWS) < set(file)


# --- closing ---


def test_nothing_can_be_done_to_a_queue_that_has_moved_but_looking(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage]
) -> None:
    source, late = opened(urls[0]), opened(urls[0])
    fill(source)
    late.settings()
    before = dump(source)
    secret = urls[1].replace("postgres:@", "postgres:se3cret@")
    move(home, source, secret, quiet)
    jobs = late.jobs(None, 100)
    worker = Worker("w", 1, "1", "boot", "space", "host", 1, 1, 0, None)
    for change in (
        lambda: late.add([new_job()]),
        lambda: late.claim("w"),
        lambda: late.finish(jobs[0], DONE),
        lambda: late.cancel(jobs[0], "x"),
        lambda: late.retry(jobs),
        lambda: late.delete(jobs),
        lambda: late.set_setting("priority", "9"),
        lambda: late.add_worker(worker),
        lambda: late.heartbeat("w", 0),
        lambda: opened(urls[0]).add([new_job()]),
    ):
        with pytest.raises(QueueMoved, match=r"has moved to .* config set database URL.* db reopen") as refused:
            change()
        assert masked(secret) in str(refused.value) and "se3cret" not in str(refused.value)
    assert dump(late) == before and len(late.jobs(None, 100)) == len(jobs)
    assert "se3cret" not in repr(source.meta())


ENQUEUER = """
import sys
from queuectl.errors import QueueMoved
from queuectl.queue import Queue
queue, anew = Queue(), sys.argv[1] == "anew"
while True:
    try:
        queue = Queue() if anew else queue
        print(queue.enqueue("true").id, flush=True)
    except QueueMoved:
        break
"""


def test_an_enqueue_that_races_with_the_closing_is_moved_or_refused(
    cli: Cli, urls: tuple[str, str], home: Home, tmp_path: Path
) -> None:
    cli.ok("config", "set", "database", urls[0])
    env = {**cli.env, "PYTHONPATH": str(ROOT), "QUEUECTL_DB": urls[0]}
    files = [tmp_path / name for name in ("kept", "anew")]
    enqueuers = []
    try:
        for file in files:
            with open(file, "w") as out:
                enqueuers.append(subprocess.Popen([sys.executable, "-c", ENQUEUER, file.name], stdout=out, env=env))
        eventually(lambda: all(file.read_text().count("\n") > 20 for file in files))
        cli.ok("db", "move", "--to", urls[1])
        assert [process.wait(timeout=30) for process in enqueuers] == [0, 0], "both were refused in the end"
    finally:
        for process in enqueuers:
            process.kill()
            process.wait()
    accepted = [job for file in files for job in file.read_text().split()]
    assert len(accepted) == len(set(accepted)) > 40
    found = json.loads(cli.ok("list", "--limit", "100000", "--json"))
    assert {job["id"] for job in found} == set(accepted)
    cli.ok("db", "check")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_an_idle_worker_of_a_queue_that_has_moved_says_so_and_ends(cli: Cli, database: str) -> None:
    cli.ok("config", "set", "database", database)
    cli.ok("config", "set", "heartbeat-interval", "0.2")
    cli.ok("worker", "start")
    storage = open_storage(open_home(str(cli.home)), database)
    with storage.exclusively():
        storage.run("set_meta", name="moved_to", value="sqlite:////elsewhere")
        storage.run("settings_changed")
    [worker] = storage.workers()
    storage.close()
    log = cli.home / "logs" / f"worker-{worker.name}.log"
    eventually(lambda: "has moved to sqlite:////elsewhere" in log.read_text())
    eventually(lambda: not lives(worker.pid))
    assert cli("worker", "stop").returncode == 0
    refused = cli("worker", "start")
    assert refused.returncode == 1 and "This queue has moved to" in refused.stderr


def test_looking_at_a_queue_that_has_moved_says_so(cli: Cli, postgres: str) -> None:
    cli.ok("enqueue", "true")
    cli.ok("db", "move", "--to", postgres)
    old = {"QUEUECTL_DB": f"sqlite:///{cli.home}/queuectl.db"}
    for command in (["list"], ["status"], ["show", "1"], ["metrics"]):
        seen = cli(*command, **old)
        assert seen.returncode == 0 and "This queue has moved to" in seen.stderr
        assert "has moved" not in cli(*command).stderr
    refused = cli("enqueue", "true", **old)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: This queue has moved to postgresql://") and refused.stderr.count("\n") == 1


# --- refused ---


def test_a_queue_is_not_moved_while_somebody_works_on_it(cli: Cli, postgres: str) -> None:
    cli.ok("enqueue", "--id", "long", "touch begun; sleep 1; echo done")
    cli.ok("worker", "start")
    eventually(lambda: (cli.cwd / "begun").exists())
    refused = cli("db", "move", "--to", postgres)
    assert refused.returncode == 1 and "worker stop --all" in refused.stderr and "--wait" in refused.stderr
    assert not (cli.home / "config.json").exists()
    cli.ok("enqueue", "--id", "next", "true")

    cli.ok("db", "move", "--wait", "--to", postgres)
    long = json.loads(cli.ok("show", "long", "--json"))
    assert (long["state"], long["output"]) == ("completed", "done\n"), "the job in hand was let finish"
    assert json.loads(cli.ok("config", "get", "database", "--json"))["database"] == masked(postgres)
    cli.ok("db", "check")
    cli.ok("worker", "start")
    eventually(lambda: json.loads(cli.ok("show", "next", "--json"))["state"] == "completed")


def test_what_a_dead_worker_had_in_hand_is_put_back_before_the_move(
    home: Home, postgres: str, opened: Callable[[str], Storage]
) -> None:
    source = opened(f"sqlite:///{home.database}")
    source.add([new_job(id="lost")])
    source.add_worker(Worker("dead", 1, "never", "an earlier boot", "space", "host", 1, 1, 0, None))
    assert source.claim("dead")
    move(home, source, postgres, quiet)
    assert opened(postgres).job("lost").state is State.PENDING


def test_a_queue_is_not_moved_into_one_that_has_jobs(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage]
) -> None:
    source, target = opened(urls[0]), opened(urls[1])
    source.add([new_job(id="ours")])
    target.add([new_job(id="theirs")])
    before = dump(source), dump(target), source.meta(), target.meta()
    with pytest.raises(QueueError, match=r"There is a queue in .* already. Nothing was changed"):
        move(home, source, urls[1], quiet)
    assert (dump(source), dump(target), source.meta(), target.meta()) == before
    assert is_open(source) and is_open(target) and configured(home) is None


def test_a_queue_is_not_moved_into_half_of_another(
    home: Home, urls: tuple[str, str], opened: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened(f"sqlite:///{home.root}/other.db")
    other.add([new_job()])
    monkeypatch.setattr(Move, "_count_on", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        move(home, other, urls[1], quiet)
    monkeypatch.undo()
    source, target = opened(urls[0]), opened(urls[1])
    with pytest.raises(QueueMoved, match=r"is being moved here from .*other.db, and is not whole yet"):
        target.add([new_job()])
    with pytest.raises(QueueMoved):
        reopen(target)
    with pytest.raises(QueueError, match="There is a queue in"):
        move(home, source, urls[1], quiet)
    assert is_open(source)
    move(home, other, urls[1], quiet)
    assert len(opened(urls[1]).jobs(None, 9)) == 1


def test_a_queue_that_is_there_already_is_not_moved(cli: Cli, postgres: str, tmp_path: Path) -> None:
    cli.ok("enqueue", "true")
    (tmp_path / "link").symlink_to(cli.home)
    for same in (f"sqlite:///{cli.home}/queuectl.db", f"sqlite:///{tmp_path}/link/queuectl.db"):
        assert "The queue is in" in cli.ok("db", "move", "--to", same)
    cli.ok("enqueue", "true")
    cli.ok("db", "move", "--to", postgres)
    assert "Moved" not in cli.ok("db", "move", "--to", postgres.replace("postgresql:", "postgres:"))
    cli.ok("enqueue", "true")
    cli.ok("db", "check")


@pytest.mark.parametrize("url", ["mysql://me:secret@server/queue", "sqlite:", "", "postgresql://nobody:secret@:1/x"])
def test_a_target_that_cannot_be_is_one_line_and_changes_nothing(cli: Cli, url: str) -> None:
    cli.ok("enqueue", "true")
    refused = cli("db", "move", "--to", url)
    assert refused.returncode and refused.stderr.startswith("Error: ") and refused.stderr.count("\n") == 1
    assert "secret" not in refused.stderr
    cli.ok("enqueue", "true")


def test_a_variable_that_goes_before_the_setting_is_named(cli: Cli, postgres: str) -> None:
    cli.ok("enqueue", "true")
    done = cli("db", "move", "--to", postgres, QUEUECTL_DB=f"sqlite:///{cli.home}/queuectl.db")
    assert done.returncode == 0 and "QUEUECTL_DB is set, and goes before" in done.stderr
    assert len(json.loads(cli.ok("list", "--json"))) == 1


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


# --- check ---

BROKEN = {
    "check_waiting": "UPDATE jobs SET rank = NULL WHERE id = 'ok'",
    "check_blocked": "UPDATE jobs SET waits_for = 2, rank = NULL WHERE id = 'ok'",
    "check_line": "UPDATE jobs SET since_at = NULL WHERE id = 'ok'",
    "check_due": "UPDATE jobs SET due_at = 1 WHERE id = 'done'",
    "check_held": "UPDATE jobs SET state = 'processing', worker = 'nobody' WHERE id = 'done'",
    "check_runs": "UPDATE runs SET seq = 99",
    "check_leases": "UPDATE runs SET lease = 9",
    "check_environments": "DELETE FROM environments",
    "check_queues": "UPDATE jobs SET queue = 'nowhere' WHERE id = 'ok'",
    "check_numbers": "UPDATE jobs SET seq = 1000 WHERE id = 'ok'",
}


@pytest.mark.parametrize("query", BROKEN)
def test_what_is_wrong_is_said(storage: Storage, query: str) -> None:
    storage.add([new_job(id="done")])
    job = storage.claim("w")
    assert job
    storage.finish(job, DONE)
    storage.add([new_job(id="ok")], HERE)
    assert checking.check(storage) == (2, 1, [])
    storage.statement(BROKEN[query], {})
    beginning = checking.CHECKS[query].split("{1}")[0].split(",")[0].split("{0}")[0]
    found = checking.check(storage).problems
    assert any(line.startswith(beginning) for line in found), found
    known = [line for line in found if line.startswith(beginning) or "the counter says" in line]
    assert len(known) == len(found) or query in ("check_held", "check_numbers"), found


def test_every_check_is_tried() -> None:
    assert BROKEN.keys() == checking.CHECKS.keys()


def test_totals_that_are_not_what_counting_gives_are_said(storage: Storage) -> None:
    storage.add([new_job(), new_job()])
    with storage.transaction():
        storage._count({"default": {**NOTHING, "pending": 3, "dead": 1}})
    assert checking.check(storage).problems == [
        "2 jobs are pending in queue default, and the counter says 5",
        "0 jobs are dead in queue default, and the counter says 1",
    ]
    storage.statement("UPDATE jobs SET state = 'asleep' WHERE seq = 1", {})
    assert "1 jobs are asleep, which is no state" in checking.check(storage).problems


def test_check_prints_a_line_a_problem_and_exits_with_1(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    assert cli.ok("db", "check") == "All is well: 1 jobs and 0 runs.\n"
    with sqlite3.connect(cli.home / "queuectl.db") as raw:
        raw.execute("UPDATE jobs SET rank = NULL")
    raw.close()
    found = cli("db", "check")
    assert (found.returncode, found.stdout.count("\n")) == (1, 1) and found.stdout.startswith("job 1 is pending, and")
    as_json = cli("db", "check", "--json")
    assert as_json.returncode == 1 and len(json.loads(as_json.stdout)["problems"]) == 1


def test_an_index_that_has_lost_a_row_is_noticed(home: Home, opened: Callable[[str], Storage]) -> None:
    storage = opened(f"sqlite:///{home.database}")
    storage.add([new_job(id="hidden"), new_job(id="seen")])
    assert storage.damage() == []
    storage.statement("PRAGMA writable_schema = ON", {})
    storage.statement("DELETE FROM sqlite_master WHERE name = 'jobs_ready'", {})
    storage.close()
    with sqlite3.connect(home.database) as raw:
        raw.execute("CREATE INDEX jobs_ready ON jobs (rank, seq) WHERE rank IS NOT NULL AND id <> 'hidden'")
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute(
            "UPDATE sqlite_master SET sql = REPLACE(sql, ' AND id <> ''hidden''', '') WHERE name = 'jobs_ready'"
        )
    raw.close()
    damage = opened(f"sqlite:///{home.database}").damage()
    assert any("jobs_ready" in line for line in damage), damage


# --- backup ---


def test_a_copy_of_a_live_queue_is_whole(home: Home, opened: Callable[[str], Storage], tmp_path: Path) -> None:
    url = f"sqlite:///{home.database}"
    source = opened(url)
    fill(source)
    source.add([new_job(command="x" * 2000) for _ in range(3000)])
    copied, written = threading.Event(), [0, 0]

    def write(number: int) -> None:
        storage = open_storage(home, url)
        storage.add_worker(Worker(f"w{number}", 1, "1", "boot", "space", "host", 1, 1, 0, None))
        while not copied.is_set():
            storage.add([new_job()])
            job = storage.claim(f"w{number}")
            assert job
            storage.finish(job, DONE)
            held = storage.claim(f"w{number}")
            assert held
            storage.finish(held, FAILED)
            written[number] += 1
        storage.claim(f"w{number}")
        storage.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    meanwhile: list[int] = []
    try:
        eventually(lambda: min(written) > 5)
        for number in range(5):
            back_up(home, source, str(tmp_path / f"{number}.db"), False, lambda *_: meanwhile.append(sum(written)))
    finally:
        copied.set()
        for writer in writers:
            writer.join()
    assert meanwhile[-1] > meanwhile[0] > 0, "they went on writing meanwhile"
    for number in range(5):
        path = tmp_path / f"{number}.db"
        copy = opened(f"sqlite:///{path}")
        found = checking.check(copy)
        assert found.problems == [] and found.jobs > 3000
        assert copy.queue("gpu") == QueueRow("gpu", 0, 2, "10/m")
        assert copy.workers() == [] and copy.totals()["processing"] == 0 and copy.queue_id() != source.queue_id()
        assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.new*"))


def test_a_copy_is_a_queue_whose_running_jobs_are_pending_with_no_try_lost(cli: Cli, tmp_path: Path) -> None:
    until_told = "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(0.05)"
    cli.ok("enqueue", "--id", "running", "--", sys.executable, "-c", until_told)
    cli.ok("enqueue", "--id", "waiting", "true")
    cli.ok("worker", "start")
    eventually(lambda: (cli.cwd / "begun").exists())
    copy = cli.cwd / "copy.db"
    assert "copied to copy.db" in cli.ok("db", "backup", "copy.db")
    use = {"QUEUECTL_DB": f"sqlite:///{copy}"}
    found = json.loads(cli.ok("show", "running", "--json", **use))
    assert (found["state"], found["attempts"]) == ("pending", 0)
    assert json.loads(cli.ok("worker", "list", "--json", **use)) == []
    assert cli.ok("db", "check", **use) == "All is well: 2 jobs and 1 runs.\n"
    assert json.loads(cli.ok("show", "running", "--json"))["state"] == "processing", "the queue itself is as it was"
    (cli.cwd / "go").touch()


def test_a_file_that_is_there_is_not_overwritten_unless_asked_for(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    copy = cli.cwd / "copy.db"
    copy.write_text("precious")
    (cli.cwd / "copy.db-wal").write_text("of another")
    refused = cli("db", "backup", "copy.db")
    assert refused.returncode == 1 and "--overwrite" in refused.stderr and copy.read_text() == "precious"
    cli.ok("db", "backup", "--overwrite", "copy.db")
    cli.ok("db", "check", QUEUECTL_DB=f"sqlite:///{copy}")
    for path in (str(cli.home / "queuectl.db"), str(cli.cwd), "missing/copy.db"):
        refused = cli("db", "backup", "--overwrite", path)
        assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    cli.ok("db", "check")
    assert sorted(path.name for path in cli.cwd.iterdir()) == ["copy.db", "copy.db-shm", "copy.db-wal"]


def test_a_server_is_copied_by_its_own_tool(cli: Cli, postgres: str) -> None:
    refused = cli("db", "backup", "copy.db", QUEUECTL_DB=postgres)
    assert refused.returncode == 1 and "pg_dump --schema=queuectl" in refused.stderr
    assert list(cli.cwd.iterdir()) == []
