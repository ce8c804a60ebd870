"""What only PostgreSQL does: row locks, sequences, waking by NOTIFY, the server's clock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import Cli, eventually
from processes import job, kill, open_queue, state
from test_order import new_job
from test_storage import DONE, counted, totals

from queuectl.clock import ServerClock
from queuectl.errors import DuplicateJob, LeaseLost, StorageError
from queuectl.event_log import EventLog
from queuectl.home import open_home
from queuectl.housekeeping import identity
from queuectl.job import Job, Outcome, State
from queuectl.platforms import runs
from queuectl.storage.postgres import PostgresStorage
from queuectl.storage.rows import Worker
from queuectl.storage.transactions import no_counts
from queuectl.worker import WorkerProcess

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no PostgreSQL is started on Windows")

Open = Callable[[], PostgresStorage]


@pytest.fixture
def connect(postgres: str) -> Iterator[Open]:
    """Opens one more connection, with the clock that is really used."""
    opened: list[PostgresStorage] = []

    def connection() -> PostgresStorage:
        opened.append(PostgresStorage(postgres, ServerClock(), "this boot", "this machine"))
        return opened[-1]

    yield connection
    for storage in opened:
        storage.close()


@pytest.fixture
def storage(connect: Open) -> PostgresStorage:
    return connect()


def cut(storage: PostgresStorage) -> None:
    """The server ends this connection, as when it restarts."""
    pid = storage._connection.info.backend_pid
    with psycopg.connect(storage.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])


def lose_the_answer(storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next commit is done, and its answer never arrives."""
    commit = storage.commit

    def commit_and_lose() -> None:
        monkeypatch.setattr(storage, "commit", commit)
        commit()
        storage._connection.close()
        raise StorageError("the answer was lost")

    monkeypatch.setattr(storage, "commit", commit_and_lose)


def worker(name: str) -> Worker:
    now = int(time.time() * 1000)
    return Worker(name, 1, "1", "boot", "space", "host", now, now, 0, None)


# --- plans ---

LONG = 200_000
FILL = f"""INSERT INTO jobs (
    seq, id, command, state, priority, max_retries, timeout, backoff_base, attempts, lost, lease, cwd, rank,
    since_tick, since_at, created_at, updated_at
) SELECT n, n, 'true', 'pending', 5, 3, 0, 2, 0, 0, 0, '/', hashint4(n::int), n, n, n, n
FROM generate_series(1, {LONG}) AS n"""
# What a claim, an enqueue, an idle worker and a look at the queue ask for.
HOT: dict[str, dict[str, Any]] = {
    "claim": {"worker": "w", "tick": 1, "now": 1, "queue": "default", "most": 2**63 - 1},
    "head": {"queue": "default"},
    "running": {"queue": "default"},
    "clock": {},
    "ahead": {"queue": "default", "rank": 0, "seq": 1, "most": 1000},
    "counted_waiting": {"most": 1000},
    "in_line": {"queue": "default", "key": -(2**63), "seq": 0, "limit": 20},
    "later": {"key": -(2**63), "seq": 0, "limit": 20},
    "blocked": {"seq": 0, "limit": 20},
    "jobs": {"before": 2**62, "limit": 20},
    "jobs_in_state": {"state": "dead", "before": 2**62, "limit": 20},
    "held_by": {"worker": "w"},
    "orphans": {},
    "glance": {"id": "77"},
    "newest_runs": {"limit": 1000, "letters": 200},
    "newest_run_jobs": {"limit": 100},
    "long_runs": {"letters": 200, "looked_at": 10_000, "least_seconds": 1.5, "limit": 500},
    "oldest_in_line": {"queue": "default", "limit": 100},
}


@pytest.fixture(scope="module")
def long_queue(new_database: Callable[[], str]) -> Iterator[PostgresStorage]:
    storage = PostgresStorage(new_database(), ServerClock(), "this boot", "this machine")
    storage._execute(FILL)
    yield storage
    storage.close()


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("analyzed", [False, True], ids=["new", "analyzed"])
def test_with_200_000_jobs_waiting_no_query_reads_or_sorts_them_all(
    long_queue: PostgresStorage, plan: str, analyzed: bool
) -> None:
    long_queue._execute("ANALYZE jobs" if analyzed else "SELECT 1")
    with long_queue._connection.transaction(force_rollback=True):
        long_queue._execute(f"SET LOCAL plan_cache_mode = {plan}")
        for query, values in HOT.items():
            sql = long_queue.sql[query] % {name: f"${place}" for place, name in enumerate(values, 1)}
            long_queue._execute(f"PREPARE hot AS {sql}")
            given = f"({', '.join(repr(value) for value in values.values())})" if values else ""
            found = "\n".join(row[0] for row in long_queue._execute(f"EXPLAIN EXECUTE hot{given}").fetchall())
            long_queue._execute("DEALLOCATE hot")
            assert "Seq Scan on jobs" not in found and "Sort" not in found, f"{query}\n{found}"
            if query in ("claim", "head"):
                assert "jobs_ready" in found, found


def test_the_tick_is_a_sequence_that_nobody_waits_for(connect: Open) -> None:
    """One enqueue is in the middle of its transaction, and the next one goes through."""
    slow, quick = connect(), connect()
    with slow.transaction():
        first, _ = slow.new_numbers(1)
        slow._count({"default": {"pending": 0}})
        quick.shard = slow.shard + 1
        quick._execute("SET lock_timeout = '5s'")
        [added] = quick.add([new_job()])
    assert quick.job(added.id).since_tick == first + 1


# --- claims ---


def test_a_claim_passes_over_the_job_that_another_claim_has_in_hand(connect: Open) -> None:
    slow, quick = connect(), connect()
    slow.add([new_job(id="first"), new_job(id="second")])
    with slow.transaction() as moment:
        held = slow._claim("w-slow", moment, no_counts())
        quick._execute("SET lock_timeout = '5s'")
        taken = quick.claim("w-quick")
    assert held and taken and (held.id, taken.id) == ("first", "second")


def test_many_at_once_deadlock_never_and_the_totals_stay_right(connect: Open, postgres: str) -> None:
    """Enqueues that choose the same names in opposite order, claims, finishes, retries and purges in opposite order."""
    names = [f"n{number}" for number in range(30)]
    setup = connect()
    setup.add([new_job(max_retries=0) for _ in range(60)])
    for _ in range(40):
        lost = setup.claim("w")
        assert lost
        setup.finish(lost, Outcome(1, 0.1))
    dead = setup.jobs(State.DEAD, 100)
    together = threading.Barrier(8)

    def act(number: int) -> None:
        storage = PostgresStorage(postgres, ServerClock(), "boot", "machine")
        storage.shard = number % 2
        order = 1 if number % 2 else -1
        together.wait(30)
        for round in range(5):
            with suppress(DuplicateJob):
                storage.add([new_job(id=f"{name}-{round}") for name in names[::order]])
            storage.retry(dead[::order])
            for _ in range(4):
                found = storage.claim(f"w{number}")
                if found:
                    storage.finish(found, Outcome(1, 0.1) if number % 3 else DONE, None)
            storage.delete(storage.jobs(State.DEAD, 100)[::order])
        storage.close()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(act, number) for number in range(8)]:
            done.result()
    assert totals(setup) == counted(setup)


@pytest.mark.parametrize("act", ["retry", "delete"])
def test_jobs_are_locked_in_one_order_whatever_order_they_are_named_in(connect: Open, act: str) -> None:
    """Two who name the same jobs in opposite order: the second waits for the first, and never the first for it too."""
    first, second, watch = connect(), connect(), connect()
    first.add([new_job(max_retries=0) for _ in range(2)])
    for _ in range(2):
        taken = first.claim("w")
        assert taken
        first.finish(taken, Outcome(1, 0.1))
    one, two = sorted(first.jobs(State.DEAD, 2))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    lock = "SELECT seq FROM jobs WHERE seq = %(seq)s FOR UPDATE NOWAIT"
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            first._execute(lock, {"seq": one.seq})
            acting = pool.submit(getattr(second, act), [two, one])
            eventually(lambda: watch._execute(waiting).fetchone())
            assert first._execute(lock, {"seq": two.seq}).fetchone() == (two.seq,)
        assert acting.result(20) == (2 if act == "retry" else [one, two])


def test_no_transaction_stays_open_while_a_command_runs(cli: Cli, postgres: str) -> None:
    cli.env["QUEUECTL_DB"] = postgres
    cli.ok("worker", "start")
    cli.ok("enqueue", "--id", "long", "while [ ! -e go ]; do sleep 0.05; done")
    eventually(lambda: state(cli, "long") == "processing")
    storage = open_queue(cli)
    left_open = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    found = [storage._execute(left_open).fetchall() for _ in range(50)]  # type: ignore[attr-defined]
    assert [] in found, "at some moment of many nobody is in a transaction"
    storage.close()
    (cli.cwd / "go").touch()
    eventually(lambda: state(cli, "long") == "completed")


# --- waking ---


def heard(connection: psycopg.Connection[Any], seconds: float = 0.5) -> int:
    return len(list(connection.notifies(timeout=seconds, stop_after=1)))


def test_only_a_worker_that_is_idle_is_told_of_a_job_and_only_one_for_one_job(connect: Open, postgres: str) -> None:
    enqueuer, busy, idle, other = connect(), connect(), connect(), connect()
    for name, storage in (("w-busy", busy), ("w-idle", idle), ("w-other", other)):
        storage.add_worker(worker(name))
    with psycopg.connect(postgres, autocommit=True) as listener:
        for name in ("w-busy", "w-idle", "w-other"):
            listener.execute(f'LISTEN "queuectl_{name}"')
        enqueuer.add([new_job()])
        assert heard(listener) == 0
        assert enqueuer.claim("w-busy")
        idle.wait(0.01)  # it marks itself as idle, looks once more, and sleeps
        other.wait(0.01)
        enqueuer.add([new_job()])
        [told] = listener.notifies(timeout=10, stop_after=1)
        assert told.channel == "queuectl_w-idle"
        assert heard(listener) == 0
        before = time.monotonic()
        idle.wait(30)
        assert idle.changed() and time.monotonic() - before < 25
        enqueuer.add([new_job(), new_job(), new_job()])
        [told] = listener.notifies(timeout=10, stop_after=1)
        assert told.channel == "queuectl_w-other", "the only one that is idle still"
        assert heard(listener) == 0


def test_a_job_that_comes_between_the_last_look_and_the_mark_is_seen(
    connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueuer, sleeper = connect(), connect()
    sleeper.add_worker(worker("w"))
    run = sleeper.run

    def run_late(query: str, **values: Any) -> Any:
        if query == "mark_idle":
            enqueuer.add([new_job()])  # nobody is idle yet, so nobody is told
        return run(query, **values)

    monkeypatch.setattr(sleeper, "run", run_late)
    before = time.monotonic()
    sleeper.wait(30)
    assert sleeper.changed() and time.monotonic() - before < 25


def test_a_worker_that_sleeps_is_told_of_a_job_that_comes_later(connect: Open) -> None:
    enqueuer, sleeper = connect(), connect()
    sleeper.add_worker(worker("w"))
    sleeper.wait(0.01)
    enqueuer.add([new_job(run_at=enqueuer.clock.now() + 60_000)])
    before = time.monotonic()
    sleeper.wait(30)
    assert sleeper.changed() and time.monotonic() - before < 25


def test_an_idle_worker_hears_of_jobs_again_after_its_connection_was_cut(connect: Open) -> None:
    enqueuer, sleeper = connect(), connect()
    sleeper.add_worker(worker("w"))
    sleeper.wait(0.01)
    cut(sleeper)
    with pytest.raises(StorageError):
        sleeper.wait(30)
    sleeper.wait(0.01)
    enqueuer.add([new_job()])
    before = time.monotonic()
    sleeper.wait(30)
    assert sleeper.changed() and time.monotonic() - before < 25


def test_a_job_is_stored_although_nobody_can_be_woken(connect: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueuer, other = connect(), connect()
    commit = enqueuer.commit

    def commit_and_be_cut() -> None:
        commit()
        cut(enqueuer)

    monkeypatch.setattr(enqueuer, "commit", commit_and_be_cut)
    [added] = enqueuer.add([new_job(id="stored")])
    assert added.id == "stored" and other.job("stored").state is State.PENDING
    held = other.claim("w")
    assert held
    assert enqueuer.finish(held, Outcome(None, 0.1, state=State.PENDING)) is None
    assert other.job("stored").state is State.PENDING


# --- connections that break off ---


@pytest.mark.parametrize("step", ["admit", "claim", "add_run", "COMMIT"])
def test_a_transaction_that_is_cut_in_the_middle_changes_nothing_and_can_be_done_again(
    connect: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    storage, other = connect(), connect()
    storage.add([new_job(id="one", max_retries=0), new_job(id="two")])
    held = storage.claim("w")
    assert held
    if step == "admit":
        storage.add([new_job(id="due", run_at=storage.clock.now() + 100)])
        eventually(lambda: storage.next_due() is not None and storage.next_due() <= storage.clock.now())  # type: ignore[operator]
    run, commit = storage.run, storage.commit

    def run_cut(query: str, **values: Any) -> Any:
        if query == step:
            monkeypatch.setattr(storage, "run", run)
            cut(storage)
        return run(query, **values)

    def commit_cut() -> None:
        monkeypatch.setattr(storage, "commit", commit)
        cut(storage)
        commit()

    if step == "COMMIT":
        monkeypatch.setattr(storage, "commit", commit_cut)
    monkeypatch.setattr(storage, "run", run_cut)
    before = (other.job("one"), totals(other))
    with pytest.raises(StorageError, match="may be, or not" if step == "COMMIT" else None):
        storage.finish(held, DONE, "w")
    assert (other.job("one"), totals(other)) == before
    following = storage.finish(held, DONE, "w")
    assert following and following.id == "two"
    assert (other.job("one").state, len(other.runs_of(held))) == (State.COMPLETED, 1)
    assert totals(other) == counted(other)


def test_a_finish_whose_answer_was_lost_is_refused_the_second_time_and_counted_once(
    connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, other = connect(), connect()
    storage.add([new_job(id="one"), new_job(id="two")])
    held = storage.claim("w")
    assert held
    lose_the_answer(storage, monkeypatch)
    with pytest.raises(StorageError):
        storage.finish(held, DONE, "w")
    with pytest.raises(LeaseLost):
        storage.finish(held, DONE, "w")
    assert [found.id for found in storage.held_by("w")] == ["two"], "what was claimed with it is still in hand"
    assert (other.job("one").state, len(other.runs_of(held))) == (State.COMPLETED, 1)
    assert totals(other) == counted(other)


@pytest.fixture
def process(connect: Open, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker that has joined, and that the test moves step by step."""
    home, storage = open_home(str(tmp_path / "home")), connect()
    guardian = runs.Guardian(is_leased=True)
    made = WorkerProcess("w", home, storage, guardian, EventLog(home.worker_log("w")))
    storage.add_worker(identity("w", storage))
    yield made
    made.runner.close()
    kill(guardian.pid)
    os.waitpid(guardian.pid, 0)


def test_a_claim_whose_answer_was_lost_is_not_made_a_second_time(
    process: WorkerProcess, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connect()
    other.add([new_job(id="one"), new_job(id="two")])
    lose_the_answer(process.storage, monkeypatch)  # type: ignore[arg-type]
    taken = process._claim()
    assert taken and taken.id == "one"
    assert [found.id for found in other.held_by("w")] == ["one"]


def test_a_worker_goes_on_with_what_it_claimed_together_with_a_finish_whose_answer_was_lost(
    process: WorkerProcess, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connect()
    other.add([new_job(id="one"), new_job(id="two"), new_job(id="three")])
    taken = process._claim()
    assert taken
    lose_the_answer(process.storage, monkeypatch)  # type: ignore[arg-type]
    assert process._finish(taken, DONE) is None
    following = process._claim()
    assert following and following.id == "two"


def test_a_worker_that_was_taken_for_dead_goes_on_with_what_it_has_claimed_since(
    process: WorkerProcess, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was idle, somebody removed it, and it took a job before it heard of it."""
    other = connect()
    other.remove_worker("w")
    other.add([new_job(id="one"), new_job(id="two")])
    ran: list[str] = []

    def run(job: Job) -> Outcome:
        ran.append(job.id)
        process.house.looked_at = 0.0  # it is time to look around
        if len(ran) == 2:
            process.stop.ask(0)
        return DONE

    process.house.looked_at = time.monotonic() + 3600

    monkeypatch.setattr(process, "_run", run)
    monkeypatch.setattr(process, "_idle", lambda: pytest.fail("it has a job in hand, and idles"))
    process.work()
    assert ran == ["one", "two"]
    assert [worker.name for worker in other.workers()] == ["w"]
    assert totals(other)["completed"] == 2


def test_settings_can_be_changed_after_a_change_that_was_cut_off(
    connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, other = connect(), connect()
    run = storage.run

    def run_cut(query: str, **values: Any) -> Any:
        if query == "set_setting":
            monkeypatch.setattr(storage, "run", run)
            cut(storage)
        return run(query, **values)

    monkeypatch.setattr(storage, "run", run_cut)
    with pytest.raises(StorageError):
        storage.set_setting("aging", "off")
    other._execute("SET lock_timeout = '5s'")
    other.set_setting("aging", "60s")
    assert storage.settings().aging == "60s"
    assert other.add([new_job()])


def test_a_wait_for_a_lock_that_is_broken_off_leaves_no_transaction_behind(connect: Open) -> None:
    storage, other = connect(), connect()
    storage._execute("SET lock_timeout = '0.1s'")
    other._is_alone = True
    with other.transaction(), pytest.raises(StorageError, match="lock timeout"):
        storage.add([new_job()])
    other._is_alone = False
    assert [added.id for added in storage.add([new_job(id="after")])] == ["after"]


def test_every_commit_is_on_disk_so_that_a_server_that_crashes_forgets_no_claim(storage: PostgresStorage) -> None:
    with storage.transaction(durable=False):
        assert storage._execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert storage.unsynced_seconds() == 0


def test_what_the_url_says_of_the_connection_goes_before_our_own_words(postgres: str) -> None:
    joined = "&" if "?" in postgres else "?"
    url = f"{postgres}{joined}application_name=mine&options=-c%20lock_timeout%3D7s%20-c%20search_path%3Dpublic"
    storage = PostgresStorage(url, ServerClock(), "boot", "machine")
    shown = [
        storage._execute(f"SHOW {name}").fetchone() for name in ("application_name", "lock_timeout", "search_path")
    ]
    assert shown == [("mine",), ("7s",), ("queuectl",)]
    storage.close()


# --- the server's clock ---


def test_the_time_is_the_servers_however_wrong_ours_is(connect: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 600_000_000_000)
    fast = connect()
    monkeypatch.setattr(time, "time_ns", lambda: real() - 600_000_000_000)
    slow = connect()
    monkeypatch.undo()
    [(now,)] = fast._execute("SELECT EXTRACT(EPOCH FROM clock_timestamp()) * 1000").fetchall()
    assert abs(fast.clock.now() - float(now)) < 5000 and abs(slow.clock.now() - float(now)) < 5000


# --- what is stored ---


def test_nul_bytes_in_output_become_the_sign_for_what_cannot_be_read(cli: Cli, database: str) -> None:
    """On both engines alike."""
    cli.env["QUEUECTL_DB"] = database
    done = cli("run", "--id", "nul", r"printf 'a\0b\377c'; printf '\0' >&2")
    assert done.returncode == 0
    found = job(cli, "nul")
    assert (found["output"], found["stderr"]) == ("a\ufffdb\ufffdc", "\ufffd")
