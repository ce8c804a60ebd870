"""Moving a whole queue between databases: nothing is lost, and nothing can be done to what has moved."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Cli, eventually
from processes import lives
from test_order import new_job
from whole_queue import DONE, HERE, dump, fill, is_open, line, quiet

from queuectl import checking
from queuectl.database import configured, masked
from queuectl.errors import QueueError, QueueMoved
from queuectl.home import Home, open_home
from queuectl.job import State
from queuectl.moving import NOT_ROWS, Move, move, reopen
from queuectl.storage import Storage, Worker, open_storage
from queuectl.storage import postgres as postgres_engine
from queuectl.storage import sqlite as sqlite_engine
from queuectl.storage.sql import migrations
from queuectl.storage.tables import tables

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
    assert done.returncode == 0 and "QUEUECTL_DB is set, and takes precedence" in done.stderr
    assert len(json.loads(cli.ok("list", "--json"))) == 1
