"""Named queues: who is next among them, limits to the letter, and nobody held up by a queue that is closed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from math import inf
from typing import Any
from unittest import mock

import pytest
from conftest import SetClock, eventually, open_database
from test_order import new_job

from queuectl.checking import check
from queuectl.errors import DuplicateQueue, QueueError, QueueNotFound, WrongState
from queuectl.job import Job, Outcome, State
from queuectl.storage import Added, QueueRow, Storage
from queuectl.storage import queues as storage_queues
from queuectl.storage.transactions import no_counts

Connect = Callable[[], Storage]
only_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
only_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)
DONE = Outcome(0, 0.5)
MANY = 100_000


def add(storage: Storage, *queues: str, **fields: Any) -> list[Added]:
    """A job in each of these queues, one after the other."""
    return [storage.add([new_job(queue=queue, **fields)])[0] for queue in queues]


def claim(storage: Storage) -> Job:
    job = storage.claim("w")
    assert job
    return job


def claimed(storage: Storage) -> list[str]:
    """The queues of all that may start now, in their order."""
    return [job.queue for job in iter(lambda: storage.claim("w"), None)]


def sound(storage: Storage) -> bool:
    """Nothing is wrong but that these workers are nobody."""
    return all("does not know its worker" in problem for problem in check(storage).problems)


@pytest.fixture
def gpu(storage: Storage) -> Storage:
    """A storage with two named queues."""
    storage.add_queue(QueueRow("gpu"))
    storage.add_queue(QueueRow("mail"))
    return storage


# --- who is next ---


def test_across_queues_the_smallest_rank_is_next(gpu: Storage) -> None:
    add(gpu, "mail", "default", "gpu")
    add(gpu, "gpu", priority=9)
    add(gpu, "mail", "default")
    assert claimed(gpu) == ["gpu", "mail", "default", "gpu", "mail", "default"]


def test_who_serves_some_queues_takes_the_best_of_those_and_no_other(gpu: Storage, connect: Connect) -> None:
    worker = connect()
    worker.serves = frozenset({"gpu", "mail"})
    add(gpu, "default", "mail", "default", "gpu")
    assert claimed(worker) == ["mail", "gpu"]
    assert not worker.has_work() and gpu.has_work()
    other = connect()
    other.serves = frozenset({"gone"})
    assert claimed(other) == []
    assert claimed(gpu) == ["default", "default"]


def test_who_is_promoted_is_before_the_others_of_all_queues_and_still_not_started_by_a_closed_one(gpu: Storage) -> None:
    add(gpu, "default", "gpu", "mail")
    gpu.promote(gpu.glance("3"))
    gpu.promote(gpu.glance("2"))
    gpu.set_queue("gpu", is_paused=1)
    assert claimed(gpu) == ["mail", "default"]
    gpu.set_queue("gpu", is_paused=0)
    assert claimed(gpu) == ["gpu"]


def close(storage: Storage, how: str) -> None:
    """A queue `closed`, of which no job may start, and many wait, all before any other."""
    limits = {"paused": {"is_paused": 1}, "full": {"run_limit": 1}, "held by its rate": {"rate_text": "1/h"}}
    storage.add_queue(QueueRow("closed", **limits[how]))
    add(storage, "closed", "closed")
    if how != "paused":
        claim(storage)
    assert storage.claim("w") is None


def fill(storage: Storage, queue: str, number: int) -> None:
    """So many more jobs like the one that waits there."""
    columns = [name for table, name, *_ in storage.columns() if table == "jobs" and name not in ("seq", "id")]
    storage.statement(
        f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {number})"
        f" INSERT INTO jobs (seq, id, {', '.join(columns)}) SELECT 1000000 + n, 'more-' || n, {', '.join(columns)}"
        f" FROM numbers, jobs WHERE seq = (SELECT MAX(seq) FROM jobs WHERE queue = '{queue}' AND state = 'pending')",
        {},
    )


@pytest.mark.parametrize("how", ["paused", "full", "held by its rate"])
def test_a_queue_that_is_closed_delays_nobody(gpu: Storage, how: str) -> None:
    close(gpu, how)
    add(gpu, "default", "gpu")
    assert claimed(gpu) == ["default", "gpu"]
    assert not gpu.has_work()


@only_sqlite
@pytest.mark.parametrize("how", ["paused", "full", "held by its rate"])
def test_however_many_wait_in_a_closed_queue_a_claim_takes_the_same_steps(gpu: Storage, how: str) -> None:
    close(gpu, how)

    def steps() -> int:
        add(gpu, "default")
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        database = gpu._database  # type: ignore[attr-defined]
        database.set_progress_handler(count, 1)
        assert gpu.has_work() and claim(gpu).queue == "default" and not gpu.has_work()
        gpu.next_due()
        database.set_progress_handler(None, 1)
        return counted

    few = steps()
    fill(gpu, "closed", MANY)
    assert steps() <= few + 100


@only_postgres
@pytest.mark.parametrize("query", ["head", "claim", "running"])
def test_however_many_wait_in_a_closed_queue_the_server_reads_the_same_rows(gpu: Storage, query: str) -> None:
    close(gpu, "full")
    fill(gpu, "closed", MANY)
    gpu.statement("ANALYZE jobs", {})
    for queue in ("closed", "default"):
        values = {"queue": queue, "most": 2**60, "worker": "w", "tick": 1, "now": 1}
        gpu.begin(durable=True)
        explained = gpu.statement(f"EXPLAIN (ANALYZE, FORMAT JSON) {gpu.sql[query]}", values).fetchone()[0]
        gpu.rollback()
        assert sum(rows_read(explained[0]["Plan"])) < 10, json.dumps(explained)


def rows_read(plan: dict[str, Any]) -> list[int]:
    """What each node of a plan gave and what it threw away."""
    own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return [own, *(rows for below in plan.get("Plans", ()) for rows in rows_read(below))]


# --- limits ---


def test_no_more_run_than_the_limit_says_and_a_place_is_free_when_a_run_has_ended(gpu: Storage) -> None:
    gpu.set_queue("gpu", run_limit=2)
    add(gpu, *["gpu"] * 6)
    first, second = claim(gpu), claim(gpu)
    assert claimed(gpu) == []
    third = gpu.finish(first, DONE, next_for="w")
    assert third and third.queue == "gpu", "the place that the same transaction has freed"
    assert claimed(gpu) == []
    gpu.finish(second, Outcome(3, 0.5))
    assert claimed(gpu) == ["gpu"], "also where the run failed and is tried again"
    gpu.lose(third, rebooted=False)
    assert claimed(gpu) == ["gpu"], "and where its worker died"


def test_a_limit_that_is_changed_holds_from_then_on(gpu: Storage, connect: Connect) -> None:
    other = connect()
    add(gpu, *["gpu"] * 8)
    running = [claim(gpu) for _ in range(3)]
    other.set_queue("gpu", run_limit=2)
    assert gpu.claim("w") is None, "those that run go on"
    gpu.finish(running[0], DONE)
    assert gpu.claim("w") is None
    gpu.finish(running[1], DONE)
    running += [claim(gpu)]
    assert gpu.claim("w") is None
    other.set_queue("gpu", run_limit=3)
    assert claimed(gpu) == ["gpu"]
    other.set_queue("gpu", run_limit=None)
    assert claimed(gpu) == ["gpu"] * 3


def test_two_who_change_a_queue_at_once_undo_nothing_of_each_others(gpu: Storage, connect: Connect) -> None:
    other = connect()
    other.queue("gpu")
    gpu.set_queue("gpu", is_paused=1)
    other.set_queue("gpu", run_limit=7)
    gpu.set_queue("gpu", rate_text="5/h")
    assert other.queue("gpu") == QueueRow("gpu", 1, 7, "5/h")


@pytest.mark.parametrize("how", ["unlimited", "a limit of 2", "two of them", "a rate beside"])
def test_however_many_claim_at_once_no_limit_is_exceeded_and_no_job_forgotten(
    gpu: Storage, database: str, clock: SetClock, how: str
) -> None:
    limit = None if how == "unlimited" else 2
    gpu.set_queue("gpu", run_limit=limit, rate_text="1000/s" if how == "a rate beside" else None)
    gpu.set_queue("mail", run_limit=limit if how == "two of them" else None)
    names = ["gpu", "mail", "default"]
    add(gpu, *names * 25)
    running = dict.fromkeys(names, 0)
    most = dict(running)
    done: list[str] = []
    problems: list[BaseException] = []
    counting = threading.Lock()

    def work() -> None:
        storage = open_database(database, clock)
        try:
            while len(done) < 75 and not problems:
                clock.pass_seconds(0.001)
                job = storage.claim("w")
                while job is not None:
                    with counting:
                        running[job.queue] += 1
                        most[job.queue] = max(running[job.queue], most[job.queue])
                    storage.cancel_reason(job)  # as long as a run may take
                    with counting:
                        running[job.queue] -= 1
                        done.append(job.id)
                    job = storage.finish(job, DONE, next_for="w")
        except BaseException as error:
            problems.append(error)
        finally:
            storage.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not problems and len(done) == len(set(done)) == 75, problems
    if limit:
        assert most["gpu"] <= limit
    assert how != "two of them" or most["mail"] <= 2
    assert sound(gpu) and gpu.totals()["completed"] == 75
    if not gpu.url.startswith("sqlite"):
        [(circles,)] = gpu.statement(  # type: ignore[attr-defined]
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()", {}
        ).fetchall()
        assert circles == 0


@only_postgres
@pytest.mark.parametrize("how", ["a limit", "a rate", "a rate over all"])
def test_who_claims_where_there_are_limits_waits_for_who_is_just_claiming_there(
    gpu: Storage, connect: Connect, how: str
) -> None:
    limits = {"a limit": {"run_limit": 1}, "a rate": {"rate_text": "1/h"}, "a rate over all": {}}
    gpu.set_queue("gpu", **limits[how])
    gpu.set_setting("rate", "1/h" if how == "a rate over all" else None)
    add(gpu, "gpu", "gpu")
    first, second, watcher = connect(), connect(), connect()
    found: list[Job | None] = []
    late = threading.Thread(target=lambda: found.append(second.claim("late")))
    with first.transaction() as moment:
        counts = no_counts()
        assert first._claim("first", moment, counts)
        first._count(counts)
        late.start()
        waiting = (
            "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        eventually(lambda: watcher.statement(waiting, {}).fetchone() == (1,))
    late.join(timeout=30)
    assert found == [None]


@only_postgres
def test_who_finds_the_best_just_being_taken_takes_the_next_of_any_queue(gpu: Storage, connect: Connect) -> None:
    add(gpu, "gpu", "mail", "gpu", "mail")
    first, second, third, fourth = connect(), connect(), connect(), connect()
    with first.transaction() as moment, second.transaction() as same:
        found = [first._claim("first", moment, no_counts()), second._claim("second", same, no_counts())]
        found += [claim(third), claim(fourth)]
    assert [job.id for job in found if job] == ["1", "2", "3", "4"]


@only_postgres
def test_who_finds_two_heads_just_being_taken_takes_the_best_of_all_that_is_left(
    gpu: Storage, connect: Connect
) -> None:
    add(gpu, "gpu", "mail", "mail")
    add(gpu, *["mail"] * 20)
    add(gpu, "gpu", priority=1)
    first, second, third = connect(), connect(), connect()
    with first.transaction() as moment, second.transaction() as same:
        found = [first._claim("first", moment, no_counts()), second._claim("second", same, no_counts())]
        found.append(claim(third))
    assert [job.id for job in found if job] == ["1", "2", "3"], "24 of gpu is less urgent than all of mail"


@only_postgres
def test_who_finds_a_queue_full_holds_nobody_up_there(gpu: Storage, connect: Connect) -> None:
    gpu.set_queue("gpu", run_limit=1)
    gpu.set_queue("mail", run_limit=1)
    add(gpu, "gpu", "gpu", "mail")
    first, second = connect(), connect()
    with first.transaction() as moment, mock.patch.object(first, "_start_at", side_effect=[-inf, inf, inf, -inf, -inf]):
        counts = no_counts()
        job = first._claim("first", moment, counts)
        assert job and job.queue == "mail", "gpu was open at first sight, and then full"
        first._count(counts)
        assert claim(second).queue == "gpu"


def test_a_wave_of_jobs_that_come_due_in_a_full_queue_holds_up_nobody(gpu: Storage, clock: SetClock) -> None:
    gpu.set_queue("gpu", run_limit=1)
    add(gpu, "gpu")
    first = claim(gpu)
    gpu.add([new_job(queue="gpu", run_at=clock.now() + 1000) for _ in range(10)])
    clock.pass_seconds(5)
    add(gpu, "default")
    with mock.patch.object(storage_queues, "DUE_BATCH", 3):
        assert claim(gpu).queue == "default"
        looks = 0
        while gpu.has_work():
            assert gpu.claim("w") is None
            looks += 1
        assert looks <= 5 and gpu.next_due() is None, "and nobody looks for work without end"
    gpu.finish(first, DONE)
    assert claimed(gpu) == ["gpu"]


# --- the queues themselves ---


def test_a_queue_that_is_not_there_is_named_and_the_nearest_one_with_it(gpu: Storage) -> None:
    with pytest.raises(QueueNotFound, match=r"No queue 'gpus'\. Did you mean 'gpu'\?"):
        add(gpu, "gpus")
    for change in (gpu.remove_queue, gpu.set_queue, gpu.queue):
        with pytest.raises(QueueNotFound, match="queuectl queue add nothing"):
            change("nothing")
        with pytest.raises(QueueNotFound):
            change("*")
    with pytest.raises(DuplicateQueue):
        gpu.add_queue(QueueRow("gpu"))
    assert gpu.totals()["pending"] == 0


def test_a_queue_in_which_jobs_wait_or_run_is_not_removed(gpu: Storage, clock: SetClock) -> None:
    with pytest.raises(WrongState, match="cannot be removed"):
        gpu.remove_queue("default")
    add(gpu, "gpu", max_retries=1)
    with pytest.raises(WrongState, match="1 job waits or runs"):
        gpu.remove_queue("gpu")
    job = claim(gpu)
    with pytest.raises(WrongState):
        gpu.remove_queue("gpu")
    gpu.finish(job, Outcome(1, 0.1))
    with pytest.raises(WrongState):
        gpu.remove_queue("gpu")
    gpu.cancel(gpu.glance("1"), "x")
    gpu.remove_queue("gpu")
    gpu.look_at_clock()
    assert sorted(gpu.known_queues) == ["default", "mail"]


def test_a_job_whose_queue_was_removed_is_retried_in_the_default_one(gpu: Storage) -> None:
    gpu.set_queue("gpu", run_limit=1)
    [added] = add(gpu, "gpu")
    gpu.finish(claim(gpu), DONE)
    gpu.remove_queue("gpu")
    assert gpu.glance(added.id).queue == "gpu", "what it was stays known"
    gpu.retry([gpu.glance(added.id)])
    assert gpu.glance(added.id).queue == "default"
    assert sound(gpu)
    assert claimed(gpu) == ["default"]


def test_a_queue_of_a_name_that_there_was_before_counts_on(gpu: Storage) -> None:
    add(gpu, "gpu")
    gpu.finish(claim(gpu), DONE)
    gpu.remove_queue("gpu")
    gpu.add_queue(QueueRow("gpu", run_limit=1))
    add(gpu, "gpu")
    assert (gpu.totals_by_queue()["gpu"]["completed"], gpu.totals_by_queue()["gpu"]["pending"]) == (1, 1)
    assert sound(gpu)


def test_a_job_moves_to_another_queue_with_its_place_and_is_counted_there(gpu: Storage) -> None:
    add(gpu, "gpu", "default")
    gpu.set_queue("mail", is_paused=1)
    gpu.edit(gpu.glance("1"), {"queue": "mail"})
    assert sound(gpu) and gpu.totals_by_queue()["mail"]["pending"] == 1
    assert claimed(gpu) == ["default"]
    add(gpu, "default")
    gpu.edit(gpu.glance("1"), {"queue": "default"})
    assert [claim(gpu).id for _ in range(2)] == ["1", "3"], "as old as it was"
    with pytest.raises(QueueNotFound):
        gpu.edit(add_one := gpu.glance(add(gpu, "default")[0].id), {"queue": "nothing"})
    assert gpu.glance(add_one.id).queue == "default" and sound(gpu)


def test_a_removal_that_races_an_enqueue_leaves_no_job_in_a_queue_that_is_not_there(
    gpu: Storage, database: str, clock: SetClock
) -> None:
    for number in range(15):
        name = f"queue{number}"
        gpu.add_queue(QueueRow(name))
        together = threading.Barrier(2)
        said: dict[Any, object] = {}

        def attempt(
            action: Callable[[Storage, str], Any], name: str = name, together: Any = together, said: Any = said
        ) -> None:
            storage = open_database(database, clock)
            together.wait(timeout=30)
            try:
                action(storage, name)
                said[action] = "done"
            except QueueError as error:
                said[action] = error
            storage.close()

        threads = [threading.Thread(target=attempt, args=[action]) for action in (add, Storage.remove_queue)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert [said[add], said[Storage.remove_queue]].count("done") == 1, said
        assert isinstance(said[Storage.remove_queue], WrongState) or isinstance(said[add], QueueNotFound)
    assert sound(gpu)
    assert gpu.totals()["pending"] == len(gpu.jobs(State.PENDING, 100))
