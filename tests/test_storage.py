"""The storage contract: leases, counts, durability, clocks and flat cost, on real files."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, SetClock, open_database
from test_order import new_job

from queuectl.errors import DuplicateJob, JobNotFound, LeaseLost, StorageError
from queuectl.job import Outcome, State
from queuectl.liveness import Condition
from queuectl.storage import sqlite as sqlite_engine
from queuectl.storage import transactions
from queuectl.storage.base import Storage
from queuectl.storage.rows import Worker
from queuectl.storage.sql import migrations, queries

Connect = Callable[[], Storage]
only_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
only_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)
DONE = Outcome(0, 0.5, "out", "err")
FAILED = Outcome(3, 0.5, "out", "err")


def counted(storage: Storage) -> dict[str, int]:
    """What the totals should say, found by counting."""
    rows = storage._execute("SELECT state, COUNT(*) FROM jobs GROUP BY state").fetchall()  # type: ignore[attr-defined]
    return {**{state.value: 0 for state in State}, **dict(rows)}


def totals(storage: Storage) -> dict[str, int]:
    return {state.value: storage.totals()[state.value] for state in State}


# --- leases ---


def test_two_connections_never_claim_the_same_job(connect: Connect, database: str) -> None:
    connect().add([new_job() for _ in range(400)])
    claimed: list[list[str]] = [[] for _ in range(4)]
    together = threading.Barrier(4)

    def claim_a_quarter(number: int) -> None:
        storage = open_database(database, SetClock())
        for _ in range(100):
            together.wait(timeout=60)
            job = storage.claim(f"worker {number}")
            assert job
            claimed[number].append(job.id)
        storage.close()

    threads = [threading.Thread(target=claim_a_quarter, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [job for part in claimed for job in part]
    assert len(every) == len(set(every)) == 400


def test_a_finish_without_the_current_lease_changes_nothing(storage: Storage) -> None:
    storage.add([new_job()])
    late = storage.claim("slow")
    assert late
    storage.lose(late, rebooted=False)
    current = storage.claim("quick")
    assert current and current.lease == late.lease + 1
    for outcome in (DONE, FAILED, Outcome(None, 1.0, state=State.PENDING), Outcome(None, 1.0, state=State.CANCELLED)):
        with pytest.raises(LeaseLost):
            storage.finish(late, outcome, "slow")
    with pytest.raises(LeaseLost):
        storage.lose(late, rebooted=False)
    assert storage.job(current.id).state is State.PROCESSING
    assert totals(storage) == counted(storage)
    storage.finish(current, DONE)
    assert storage.job(current.id).state is State.COMPLETED


def test_a_refused_finish_claims_nothing(storage: Storage) -> None:
    storage.add([new_job(), new_job()])
    late = storage.claim("slow")
    assert late
    storage.lose(late, rebooted=False)
    with pytest.raises(LeaseLost):
        storage.finish(late, DONE, next_for="slow")
    assert totals(storage)["pending"] == 2


def test_finishing_claims_the_next_job_in_the_same_transaction(storage: Storage, connect: Connect) -> None:
    first, second = storage.add([new_job(), new_job()])
    job = storage.claim("w")
    assert job
    other = connect()
    following = storage.finish(job, DONE, next_for="w")
    assert following and following.id == second.id
    assert other.job(first.id).state is State.COMPLETED
    assert other.job(second.id).state is State.PROCESSING


# --- what becomes of a job ---


def test_a_job_is_tried_once_more_than_it_has_retries_and_then_is_dead(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(max_retries=2, backoff_base=3.0)])
    waits = []
    for _ in range(3):
        job = storage.claim("w")
        assert job
        storage.finish(job, FAILED)
        after = storage.job(job.id)
        if after.state is State.FAILED:
            assert after.run_at is not None
            waits.append((after.run_at - clock.now()) / 1000)
            assert storage.claim("w") is None
            clock.pass_seconds(waits[-1] - 0.001)
            assert storage.claim("w") is None
            clock.pass_seconds(0.001)
    assert waits == [3.0, 9.0]
    dead = storage.job("1")
    assert (dead.state, dead.attempts, dead.exit_code, dead.error_message) == (State.DEAD, 3, 3, "exit code 3")
    assert [run.outcome for run in storage.runs_of(dead)] == ["failed", "failed", "dead"]


def test_the_wait_is_never_longer_than_max_backoff(storage: Storage, clock: SetClock) -> None:
    storage.set_setting("max_backoff", "7")
    storage.add([new_job(max_retries=5, backoff_base=1000.0)])
    job = storage.claim("w")
    assert job
    storage.finish(job, FAILED)
    assert storage.job(job.id).run_at == clock.now() + 7000


def test_every_try_keeps_its_own_output(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(max_retries=1, backoff_base=1.0)])
    for text in ("first", "second"):
        job = storage.claim("w")
        assert job
        storage.finish(job, Outcome(1, 0.1, text, text + " err"))
        clock.pass_seconds(5)
    job = storage.job("1")
    assert (job.output, job.stderr) == ("second", "second err")
    assert storage.printed(job.seq, 1) == ("first", "first err")
    assert storage.printed(job.seq, 2) == ("second", "second err")


def test_a_lost_worker_costs_no_try_and_the_third_in_a_row_makes_the_job_dead(storage: Storage) -> None:
    storage.add([new_job(max_retries=0)])
    states = []
    for _ in range(3):
        job = storage.claim("w")
        assert job and job.attempts == 1
        states.append(storage.lose(job, rebooted=False).state)
    assert states == [State.PENDING, State.PENDING, State.DEAD]
    assert storage.job("1").error_message == "worker lost 3 times in a row"


def test_a_run_that_ends_by_itself_forgets_earlier_losses(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(max_retries=9, backoff_base=0.0)])
    for _ in range(3):
        for lost in (True, True, False):
            job = storage.claim("w")
            assert job
            storage.lose(job, rebooted=False) if lost else storage.finish(job, FAILED)
    assert storage.job("1").state is State.FAILED


def test_a_reboot_is_not_counted_as_a_lost_worker(storage: Storage) -> None:
    storage.add([new_job()])
    for _ in range(6):
        job = storage.claim("w")
        assert job
        assert storage.lose(job, rebooted=True).state is State.PENDING


def test_a_released_job_is_pending_again_where_it_stood_with_no_try_lost(storage: Storage) -> None:
    first, second = storage.add([new_job(), new_job()])
    job = storage.claim("w")
    assert job
    storage.finish(job, Outcome(None, 1.0, state=State.PENDING, reason="its worker was stopped"))
    again = storage.job(first.id)
    assert (again.state, again.attempts, again.rank) == (State.PENDING, 0, storage.job(second.id).rank)
    following = storage.claim("w")
    assert following and following.id == first.id


def test_cancel_ends_a_waiting_job_at_once_and_asks_for_a_running_one(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(max_retries=3, backoff_base=1.0) for _ in range(3)])
    running = storage.claim("w")
    assert running
    assert storage.cancel(storage.job("2"), "no longer wanted")
    assert storage.job("2").state is State.CANCELLED
    assert storage.cancel(running, "no longer wanted")
    assert storage.job(running.id).state is State.PROCESSING
    assert storage.cancel_reason(running) == "no longer wanted"
    storage.finish(running, FAILED)
    cancelled = storage.job(running.id)
    assert (cancelled.state, cancelled.error_message) == (State.CANCELLED, "no longer wanted")
    assert not storage.cancel(running, "again")
    assert totals(storage) == counted(storage)


def test_a_job_that_completes_although_its_cancelling_was_asked_for_is_completed(storage: Storage) -> None:
    storage.add([new_job()])
    job = storage.claim("w")
    assert job
    storage.cancel(job, "too late")
    storage.finish(job, DONE)
    assert storage.job(job.id).state is State.COMPLETED


# --- adding ---


def test_ids_are_numbers_and_pass_over_names_that_are_taken(storage: Storage) -> None:
    assert [job.id for job in storage.add([new_job(), new_job(id="4"), new_job()])] == ["1", "4", "3"]
    assert [job.id for job in storage.add([new_job(), new_job()])] == ["6", "5"]
    assert [job.id for job in storage.add([new_job(), new_job(id="7")])] == ["9", "7"]
    assert len({job.id for job in storage.jobs(None, 100)}) == 7
    assert totals(storage) == counted(storage)


def test_a_duplicate_id_stores_nothing_of_the_whole_enqueue(storage: Storage) -> None:
    storage.add([new_job(id="taken")])
    before = (storage.totals(), None if storage.is_shared else storage.look_at_clock())
    for batch in ([new_job(), new_job(id="taken")], [new_job(id="twice"), new_job(id="twice")]):
        with pytest.raises(DuplicateJob):
            storage.add(batch)
    # A sequence does not step back: on a server a refused enqueue makes everybody one tick older.
    assert (storage.totals(), None if storage.is_shared else storage.look_at_clock()) == before


def test_an_enqueue_of_nothing_is_no_tick(storage: Storage) -> None:
    storage.add([])
    assert storage.look_at_clock()[0] == 0


def test_an_environment_is_stored_once(storage: Storage, connect: Connect) -> None:
    for connection in (storage, connect(), storage):
        connection.add([new_job()], {"B": "2", "A": "\udcff"})
        connection.add([new_job()], {"A": "\udcff", "B": "2"})
    storage.add([new_job()], {"A": "1"})
    first, *_, last = (storage.job(str(number)).environment or "" for number in range(1, 8))
    assert json.loads(storage.environment(first)[0]) == {"A": "\udcff", "B": "2"}
    assert json.loads(storage.environment(last)[0]) == {"A": "1"}
    assert len({storage.job(str(number)).environment for number in range(1, 7)}) == 1


def test_the_nearest_id_is_named(storage: Storage) -> None:
    storage.add([new_job(id="build-web"), new_job(id="deploy")])
    with pytest.raises(JobNotFound, match="Did you mean 'build-web'"):
        storage.job("bild-web")
    with pytest.raises(JobNotFound, match="queuectl list"):
        storage.job("xyz")


# --- counts ---


def test_the_totals_are_what_counting_gives(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(max_retries=1, backoff_base=0.0) for _ in range(8)])
    for outcome in (DONE, FAILED, FAILED, Outcome(None, 0.0, state=State.PENDING), DONE):
        job = storage.claim("w")
        assert job
        storage.finish(job, outcome)
        clock.pass_seconds(1)
        assert totals(storage) == counted(storage)
    events = storage.totals()
    assert (events["event_enqueued"], events["event_started"], events["event_completed"]) == (8, 5, 2)
    storage.retry(storage.jobs(State.DEAD, 10))
    assert totals(storage) == counted(storage)
    storage.delete(storage.jobs(State.COMPLETED, 10))
    assert totals(storage) == counted(storage)
    assert storage.totals()["event_completed"] == 2


def test_a_place_in_line_is_counted_to_a_thousand(storage: Storage) -> None:
    added = storage.add([new_job() for _ in range(1500)])
    for index, ahead in ((0, 0), (7, 7), (999, 999), (1400, 1000)):
        job = added[index]
        assert job.rank is not None
        assert storage.ahead(job.rank, job.seq) == ahead


# --- this machine's clock: on a server the server's counts, and whoever runs it keeps it right ---


@only_sqlite
def test_a_retry_comes_in_time_although_the_clock_is_set_back_an_hour(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(max_retries=3, backoff_base=4.0)])
    job = storage.claim("w")
    assert job
    storage.finish(job, FAILED)
    clock.be_set(-3600)
    assert storage.claim("w") is None
    clock.pass_seconds(3.9)
    assert storage.claim("w") is None
    clock.pass_seconds(0.2)
    assert storage.claim("w") is not None


@only_sqlite
def test_a_retry_comes_no_sooner_because_the_clock_is_set_forward(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(max_retries=3, backoff_base=4.0)])
    job = storage.claim("w")
    assert job
    storage.finish(job, FAILED)
    clock.be_set(+3600)
    assert storage.claim("w") is None
    clock.pass_seconds(4)
    assert storage.claim("w") is not None


@only_sqlite
def test_a_clock_that_was_set_is_mended_once_however_many_look(connect: Connect, clock: SetClock) -> None:
    first, second = connect(), connect()
    first.add([new_job(max_retries=3, backoff_base=4.0)])
    job = first.claim("w")
    assert job
    second.heartbeat("nobody", 0)
    first.finish(job, FAILED)
    clock.be_set(-3600)
    for storage in (first, second, connect(), first):
        storage.heartbeat("nobody", 0)
    assert first.job(job.id).run_at == clock.now() + 4000


def test_an_appointment_keeps_to_the_wall_clock(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(run_at=clock.now() + 7_200_000)])
    clock.be_set(+7200)
    assert storage.claim("w") is not None


@only_sqlite
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_clock_that_is_set_during_a_run_changes_nothing_of_what_its_job_had_waited(
    storage: Storage, clock: SetClock, is_lost: bool
) -> None:
    storage.set_setting("aging", "10m")
    storage.add([new_job(max_retries=1, backoff_base=0.0)])
    clock.pass_seconds(1200)
    job = storage.claim("w")
    assert job
    clock.pass_seconds(60)
    clock.be_set(+7200)
    storage.lose(job, rebooted=False) if is_lost else storage.finish(job, Outcome(1, 59.9))
    assert storage.job("1").waiting_time == 2
    assert storage.glance("1").since_at == clock.now() - 1_200_000


@only_sqlite
def test_the_order_by_waiting_time_survives_a_clock_that_is_set(storage: Storage, clock: SetClock) -> None:
    storage.set_setting("aging", "60s")
    [old] = storage.add([new_job(5)])
    clock.pass_seconds(120)
    clock.be_set(-3600)
    storage.add([new_job(6)])
    job = storage.claim("w")
    assert job and job.id == old.id
    assert storage.job(old.id).waiting_time == 2


# --- files ---


def test_the_schema_is_migrated_forward_in_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "queuectl.db")
    old = sqlite_engine.SQLiteStorage(path, SetClock(), "boot")
    old.add([new_job(id="kept")])
    old.close()
    broken = [*migrations(), ["CREATE TABLE extra (x INTEGER)", "CREATE TABLE nonsense ("]]
    monkeypatch.setattr(sqlite_engine, "migrations", lambda: broken)
    with pytest.raises(StorageError):
        sqlite_engine.SQLiteStorage(path, SetClock(), "boot")
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (len(migrations()),)
    assert raw.execute("SELECT name FROM sqlite_master WHERE name = 'extra'").fetchone() is None
    raw.close()
    monkeypatch.setattr(sqlite_engine, "migrations", lambda: [*migrations(), ["CREATE TABLE extra (x INTEGER)"]])
    new = sqlite_engine.SQLiteStorage(path, SetClock(), "boot")
    assert new.job("kept").state is State.PENDING
    assert new._schema_version() == len(migrations()) + 1
    new.close()


def test_the_log_stays_short_although_nobody_closes_the_database(tmp_path: Path) -> None:
    """Each process replays it and leaves without closing, as the command line does to be quick."""
    path = str(tmp_path / "queuectl.db")
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from queuectl.clock import Clock\nfrom queuectl.storage.sqlite import SQLiteStorage\n"
        "from test_order import new_job\n"
        "s = SQLiteStorage(sys.argv[2], Clock(), 'b')\n"
        "s.add([new_job(command='x' * 50_000) for _ in range(40)])\nos._exit(0)"
    )
    tests = str(Path(__file__).parent)
    sizes = []
    for _ in range(8):
        subprocess.run(
            [sys.executable, "-c", code, tests, path], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        sizes.append(Path(path + "-wal").stat().st_size)
    assert max(sizes) < 12_000_000


@only_sqlite
def test_nothing_that_was_read_holds_the_log_open(storage: Storage, connect: Connect) -> None:
    """A statement that was not read to its end would: until the next one, and of an idle worker that may be hours."""
    storage.add([new_job(id="a"), new_job(id="b")])
    looks: list[Callable[[], object]] = [
        storage.has_work,
        storage.settings,
        storage.totals,
        storage.changed,
        lambda: storage.job("a"),
        lambda: storage.claim("w"),
    ]
    other = connect()
    for look in looks:
        look()
        checkpoint = other._execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
        assert checkpoint.fetchone() == (0, 0, 0)
        other.set_setting("timeout", "1")  # so that there is something to read in the log


def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StorageError, match=r"needs 3\.35 or later"):
        sqlite_engine.SQLiteStorage(str(tmp_path / "queuectl.db"), SetClock(), "boot")


@only_sqlite
def test_an_enqueue_waits_for_the_disk_and_a_finish_need_not(storage: Storage) -> None:
    modes: list[int] = []
    database = storage._database  # type: ignore[attr-defined]
    storage.add([new_job() for _ in range(3)])
    modes.append(database.execute("PRAGMA synchronous").fetchone()[0])
    job = storage.claim("w")
    assert job
    storage.finish(job, DONE)
    modes.append(database.execute("PRAGMA synchronous").fetchone()[0])
    assert storage.unsynced_seconds() > 0
    storage.heartbeat("w", 1)
    modes.append(database.execute("PRAGMA synchronous").fetchone()[0])
    assert storage.unsynced_seconds() == 0
    full, normal = 2, 1
    assert modes == [full, normal, full]
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@only_sqlite
def test_a_finish_is_synced_when_the_last_sync_is_a_tenth_of_a_second_ago(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.add([new_job() for _ in range(3)])
    now = [1000.0]
    monkeypatch.setattr(transactions.time, "monotonic", lambda: now[0])
    storage.heartbeat("w", 0)
    synced = []
    for pause in (0.05, 0.04, 0.02, 0.05):
        now[0] += pause
        storage.claim("w")
        synced.append(storage.unsynced_seconds() == 0 and storage._unsynced_since is None)  # type: ignore[attr-defined]
    assert synced == [False, False, True, False]


# --- flat cost ---

# What may read everything: it happens once, after the clock or the rule of aging was changed, or is asked for.
WHOLE = re.compile(r"rerank|shift_times|count_jobs|count_runs|check_.*")
# Tables with a row for each thing that a user has set up, and parts of a query that have a limit of their own.
SMALL = {"meta", "settings", "clock", "totals", "queues", "schedules", "workers"}
LIMITED = {"line", "later", "blocked", "after", "before", "oldest", "newest", "(subquery", "CONSTANT"}


def whole_reads(storage: Storage, sql: str) -> list[str]:
    """The steps by which SQLite would read, or sort, all jobs or runs."""
    values = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
    database = storage._database  # type: ignore[attr-defined]
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    scanned = {step.split()[1] for step in plan if step.startswith("SCAN")}
    large = scanned - SMALL - LIMITED
    found = [step for step in plan if "TEMP B-TREE" in step and not (scanned and scanned <= SMALL)]
    return found + [
        step for step in plan if step.startswith("SCAN") and step.split()[1] in large and "LIMIT" not in sql
    ]


@pytest.fixture
def analyzed(storage: Storage) -> Storage:
    storage.add([new_job() for _ in range(200)])
    storage._database.execute("ANALYZE")  # type: ignore[attr-defined]
    return storage


@only_sqlite
@pytest.mark.parametrize(
    "query", [name for name in queries(sqlite_engine.SQLiteStorage.DIALECT) if not WHOLE.fullmatch(name)]
)
def test_no_query_reads_or_sorts_the_whole_queue(analyzed: Storage, query: str) -> None:
    assert whole_reads(analyzed, analyzed.sql[query]) == []


@only_sqlite
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM jobs WHERE +state = 'processing' AND +queue = :queue",
        "SELECT COUNT(*) FROM jobs WHERE id LIKE :text",
        "SELECT seq FROM jobs WHERE queue = :queue AND rank IS NOT NULL ORDER BY created_at LIMIT 1",
    ],
)
def test_a_query_that_does_would_be_noticed(analyzed: Storage, sql: str) -> None:
    assert whole_reads(analyzed, sql)


# --- workers ---


def worker(name: str, now: int) -> Worker:
    return Worker(name, 1, "1", "boot", "space", "host", now, now, 0, None)


def test_a_worker_is_asked_to_stop_through_the_database(connect: Connect, clock: SetClock) -> None:
    storage, other = connect(), connect()
    storage.add_worker(worker("w", clock.now()))
    assert storage.stop_grace("w") is None
    other.ask_to_stop("w", 7.5)
    assert storage.stop_grace("w") == 7.5


def test_a_worker_that_was_taken_for_dead_hears_of_it(storage: Storage, clock: SetClock) -> None:
    storage.add_worker(worker("w", clock.now()))
    assert storage.heartbeat("w", 1)
    storage.remove_worker("w")
    assert not storage.heartbeat("w", 2)


def test_a_worker_that_was_heard_of_since_it_was_taken_for_dead_keeps_its_job(
    storage: Storage, clock: SetClock
) -> None:
    storage.add_worker(worker("w", clock.now()))
    [judged] = storage.workers()
    clock.pass_seconds(1)
    assert storage.heartbeat("w", 0)
    storage.add([new_job()])
    claimed = storage.claim("w")
    assert claimed
    with pytest.raises(LeaseLost):
        storage.lose(claimed, False, judged)
    assert not storage.remove_dead(judged)
    assert storage.held_by("w") == [claimed]
    [judged] = storage.workers()
    assert storage.lose(claimed, False, judged).state is State.PENDING
    assert storage.remove_dead(judged) and not storage.workers()


def test_the_job_of_a_worker_that_has_joined_again_is_nobody_elses(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job()])
    claimed = storage.claim("w")
    assert claimed and storage.orphans() == [claimed]
    storage.add_worker(worker("w", clock.now()))
    with pytest.raises(LeaseLost):
        storage.lose(claimed, False)
    assert storage.held_by("w") == [claimed]


@only_sqlite
def test_changes_of_others_are_noticed_and_ones_own_are_not(connect: Connect) -> None:
    storage, other = connect(), connect()
    storage.changed()
    assert not storage.changed()
    storage.add([new_job()])
    assert not storage.changed()
    other.add([new_job()])
    assert storage.changed()
    assert not storage.changed()


def test_settings_are_read_again_when_somebody_has_changed_them(connect: Connect) -> None:
    storage, other = connect(), connect()
    assert storage.settings().max_backoff == 3600
    other.set_setting("max_backoff", "5")
    storage.claim("w")
    assert storage.known_settings.max_backoff == 5


def test_conditions_are_words(storage: Storage) -> None:
    assert [str(condition) for condition in Condition] == ["alive", "lost", "rebooted"]


def test_a_database_of_version_5_tells_a_dependent_what_it_knew_of_its_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "queuectl.db")
    with monkeypatch.context() as older:
        older.setattr(sqlite_engine, "migrations", lambda: migrations()[:5])
        sqlite_engine.SQLiteStorage(path, SetClock(), "boot").close()
    raw = sqlite3.connect(path)
    facts = "command, priority, max_retries, timeout, backoff_base, attempts, lost, lease, cwd, created_at, updated_at"
    for seq, job_id, state, exit_code, woken_by in ((1, "need", "dead", 3, None), (2, "told", "pending", None, 1)):
        values = f"{seq}, '{job_id}', '{state}', {exit_code or 'NULL'}, {woken_by or 'NULL'}"
        raw.execute(
            f"INSERT INTO jobs (seq, id, state, exit_code, woken_by, {facts}) "
            f"VALUES ({values}, 'true', 5, 0, 0, 2, 0, 0, 0, '/', 1, 1)"
        )
    raw.commit()
    raw.close()
    new = sqlite_engine.SQLiteStorage(path, SetClock(), "boot")
    told, need = new.glance("told"), new.glance("need")
    assert (told.after_id, told.after_state, told.after_exit_code) == ("need", "dead", 3)
    assert (need.after_id, need.begun_after) == (None, 0)
    new.close()
