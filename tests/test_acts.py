"""What people do to jobs that are there: retry, delete, edit, promote; and one job at a time under a key."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import SetClock, open_database
from test_order import new_job
from test_storage import counted, totals

from queuectl.errors import InvalidInput, WrongState
from queuectl.fields import changes
from queuectl.job import Job, Need, Outcome, State
from queuectl.storage import QueueRow, Storage

Connect = Callable[[], Storage]
DONE = Outcome(0, 0.5, "out", "err")
FAILED = Outcome(3, 0.5, "out", "err")
CANCELLED = Outcome(None, 0.5, "out", "err", "not wanted", State.CANCELLED)


def ran(storage: Storage, outcome: Outcome) -> Job:
    job = storage.claim("w")
    assert job
    storage.finish(job, outcome)
    return storage.glance(job.id)


def order(storage: Storage) -> list[str]:
    """The ids in the order in which they are claimed."""
    return [job.id for job in iter(lambda: storage.claim("w"), None)]


# --- retry ---


@pytest.mark.parametrize("outcome", [DONE, FAILED, CANCELLED], ids=["completed", "dead", "cancelled"])
def test_a_job_that_has_ended_is_retried_as_a_new_one_and_keeps_its_history(storage: Storage, outcome: Outcome) -> None:
    storage.add([new_job(max_retries=0)])
    ended = ran(storage, outcome)
    assert ended.state.has_ended
    assert storage.retry([ended]) == 1
    again = storage.job(ended.id)
    assert (again.state, again.attempts, again.error_message, again.waiting_time) == (State.PENDING, 0, None, 0)
    assert totals(storage) == counted(storage)
    after = ran(storage, Outcome(0, 0.1, "second", ""))
    assert (after.state, after.lease) == (State.COMPLETED, 2)
    assert [run.outcome for run in storage.runs_of(after)] == [ended.state.value, "completed"]
    assert storage.printed(after.seq, 1) == ("out", "err")


def test_a_retry_of_what_is_no_longer_as_it_was_chosen_changes_nothing(storage: Storage) -> None:
    storage.add([new_job(max_retries=0)])
    dead = ran(storage, FAILED)
    assert [storage.retry([dead]), storage.retry([dead])] == [1, 0]
    running = storage.claim("w")
    assert running and storage.retry([running]) == 0
    assert storage.delete([running]) == []
    assert storage.glance(dead.id).state is State.PROCESSING
    assert totals(storage) == counted(storage)


def test_a_retried_job_begins_to_wait_anew(storage: Storage) -> None:
    storage.add([new_job(1, max_retries=0, id="old")])
    dead = ran(storage, FAILED)
    for _ in range(20):
        storage.add([new_job(2)])
    storage.retry([dead])
    assert order(storage)[-1] == "old"


# --- delete ---


def test_a_deleted_job_is_gone_with_its_runs_and_its_ties(storage: Storage) -> None:
    storage.add([new_job(id="a"), new_job(id="b")])
    ended = ran(storage, DONE)
    assert storage.delete([ended]) == [ended]
    assert storage.delete([ended]) == []
    rows = storage._execute("SELECT COUNT(*) FROM runs").fetchone()  # type: ignore[attr-defined]
    assert rows[0] == 0
    assert totals(storage) == counted(storage) and totals(storage)["completed"] == 0


def test_a_job_that_was_claimed_meanwhile_is_not_deleted(storage: Storage) -> None:
    storage.add([new_job(id="a")])
    chosen = storage.glance("a")
    storage.claim("w")
    assert storage.delete([chosen]) == []
    assert storage.glance("a").state is State.PROCESSING


# --- edit ---


def edit(storage: Storage, job_id: str, **fields: Any) -> Job:
    job = storage.glance(job_id)
    return storage.edit(job, changes(job, fields, "/", storage.clock.now()))


def test_what_is_edited_changes_and_nothing_else(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(id="a", label="old", env='{"A": "1"}')])
    before = storage.glance("a")
    clock.pass_seconds(1)
    edit(storage, "a", command="false", max_retries=9, timeout=60, backoff_base=3.5, label="new")
    after = storage.glance("a")
    changed = {name: value for name, value in after._asdict().items() if value != getattr(before, name)}
    assert changed.pop("updated_at") == clock.now()
    assert changed == {"command": "false", "max_retries": 9, "timeout": 60, "backoff_base": 3.5, "label": "new"}


def test_a_command_that_becomes_a_list_runs_without_a_shell_and_back(storage: Storage) -> None:
    storage.add([new_job(id="a")])
    edit(storage, "a", command=["echo", "a b"])
    assert storage.glance("a").argv == '["echo", "a b"]'
    edit(storage, "a", command="echo a b")
    assert (storage.glance("a").command, storage.glance("a").argv) == ("echo a b", None)


def test_a_new_priority_moves_a_job_in_line_and_what_it_has_waited_counts_on(storage: Storage) -> None:
    for number in range(3):
        storage.add([new_job(5, id=f"job{number}")])
    edit(storage, "job0", priority=4)  # 4 + 2 earned is more than 5 + 0, and came before 5 + 1
    edit(storage, "job2", priority=9)
    assert order(storage) == ["job2", "job0", "job1"]


def test_the_shell_of_a_job_is_edited(storage: Storage) -> None:
    storage.add([new_job(id="a")])
    edit(storage, "a", shell="bash")
    assert storage.glance("a").shell == "bash"


def test_an_edited_time_takes_a_job_out_of_the_line_and_back(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(id="a")])
    edit(storage, "a", delay=60)
    assert storage.claim("w") is None
    waiting = storage.glance("a")
    assert (waiting.rank, waiting.due_at, waiting.run_at) == (None, clock.now() + 60_000, clock.now() + 60_000)
    edit(storage, "a", delay=0)
    assert storage.glance("a").due_at is None
    assert order(storage) == ["a"]


def test_time_that_an_edited_job_is_scheduled_for_earns_nothing(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(1, id="a")])
    edit(storage, "a", delay=60)
    for _ in range(20):
        storage.add([new_job(2)])
    clock.pass_seconds(61)
    assert order(storage)[-1] == "a"


def test_a_job_that_backs_off_is_edited_and_keeps_what_it_has_waited(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(1, id="a", max_retries=2)])
    ran(storage, FAILED)
    since = storage.glance("a").since_tick
    edit(storage, "a", delay=5, priority=3)
    job = storage.glance("a")
    assert (job.state, job.since_tick, job.due_at, job.priority) == (State.FAILED, since, clock.now() + 5000, 3)
    clock.pass_seconds(5)
    assert order(storage) == ["a"]


def test_a_job_that_runs_or_has_ended_is_not_edited(storage: Storage) -> None:
    storage.add([new_job(id="a")])
    waiting = storage.glance("a")
    running = storage.claim("w")
    assert running
    for state in (State.PROCESSING, State.COMPLETED):
        with pytest.raises(WrongState, match=f"is {state}: only a job that waits can be changed"):
            storage.edit(waiting, {"priority": 9})
        if state is State.PROCESSING:
            storage.finish(running, DONE)
    assert storage.glance("a").priority == 5


@pytest.mark.parametrize("field", ["id", "unique", "depends_on", "after_any", "after_failed"])
def test_what_ties_a_job_to_others_is_not_edited(storage: Storage, field: str) -> None:
    storage.add([new_job(id="a")])
    with pytest.raises(InvalidInput, match=f"^{field} cannot be changed"):
        edit(storage, "a", **{field: "b"})


def test_an_edit_of_nothing_is_refused(storage: Storage) -> None:
    storage.add([new_job(id="a")])
    with pytest.raises(InvalidInput, match=r"^Nothing to change"):
        edit(storage, "a", priority=None)
    edit(storage, "a", priority=7, cwd=None, label=None)
    assert (storage.glance("a").cwd, storage.glance("a").priority) == ("/", 7)


# --- promote ---


def promote(storage: Storage, job_id: str) -> None:
    storage.promote(storage.glance(job_id))


def test_a_promoted_job_is_first_whatever_the_rank_and_the_last_promoted_before_the_others(storage: Storage) -> None:
    storage.add([new_job(1, id="a"), new_job(1, id="b")])
    for _ in range(3):
        storage.add([new_job(10)])
    promote(storage, "a")
    promote(storage, "b")
    storage.add([new_job(10)])
    assert order(storage)[:2] == ["b", "a"]


@pytest.mark.parametrize("aging", ["off", "60s", "3 enqueues"])
def test_a_promotion_outlives_a_new_rule_of_aging(storage: Storage, clock: SetClock, aging: str) -> None:
    storage.add([new_job(1, id="a")])
    storage.add([new_job(10, id="b")])
    promote(storage, "a")
    storage.set_setting("aging", aging)
    clock.pass_seconds(1000)
    storage.add([new_job(10, id="c")])
    assert order(storage)[0] == "a"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)  # a server's clock is its owner's to keep right
@pytest.mark.parametrize("aging", ["1 enqueue", "2s"])
def test_a_promotion_outlives_a_clock_that_is_set(storage: Storage, clock: SetClock, aging: str) -> None:
    storage.set_setting("aging", aging)
    storage.add([new_job(1, id="a")])
    storage.add([new_job(10, id="b")])
    promote(storage, "a")
    for seconds in (-100_000_000, 200_000_000):
        clock.be_set(seconds)
        storage.heartbeat("nobody", 0)
    storage.set_setting("aging", "off")
    storage.add([new_job(10, id="c")])
    assert order(storage)[0] == "a"


def test_a_promotion_is_used_up_by_the_claim(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(1, id="a", max_retries=3, backoff_base=0.0), new_job(5, id="b")])
    promote(storage, "a")
    assert ran(storage, FAILED).id == "a"
    clock.pass_seconds(1)
    assert order(storage) == ["b", "a"]


def test_a_scheduled_job_and_one_that_backs_off_can_be_promoted(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(id="shaky", max_retries=3)])
    ran(storage, FAILED)
    storage.add([new_job(id="later", run_at=clock.now() + 60_000), new_job(10)])
    promote(storage, "later")
    promote(storage, "shaky")
    assert order(storage)[:2] == ["shaky", "later"]


def test_a_promoted_job_keeps_its_place_when_it_is_edited(storage: Storage) -> None:
    storage.add([new_job(1, id="a")])
    storage.add([new_job(10, id="b")])
    promote(storage, "a")
    edit(storage, "a", priority=2, command="false")
    assert order(storage) == ["a", "b"]


def test_who_runs_or_waits_for_others_cannot_be_promoted(storage: Storage) -> None:
    storage.add([new_job(id="a"), new_job(id="b", needs=(Need("a", "completed"),))])
    storage.claim("w")
    for job_id, why in (("a", "is processing"), ("b", "waits for other jobs")):
        with pytest.raises(WrongState, match=why):
            promote(storage, job_id)


# --- one at a time under a key ---


def test_a_key_is_taken_while_its_job_waits_runs_or_backs_off(storage: Storage, clock: SetClock) -> None:
    [first] = storage.add([new_job(unique_key="k", max_retries=1)])
    again = [storage.add([new_job(unique_key="k")])[0]]
    job = storage.claim("w")
    assert job
    again += storage.add([new_job(unique_key="k")])
    storage.finish(job, FAILED)
    again += storage.add([new_job(unique_key="k")])
    assert [(one.id, one.is_new) for one in again] == [(first.id, False)] * 3
    clock.pass_seconds(3600)
    ran(storage, DONE)
    [fresh] = storage.add([new_job(unique_key="k")])
    assert fresh.is_new and fresh.id != first.id
    assert totals(storage) == counted(storage)


def test_who_came_before_under_the_same_key_is_told_of_with_its_queue(storage: Storage) -> None:
    storage.add_queue(QueueRow("gpu"))
    storage.add([new_job(unique_key="k", queue="gpu")])
    [again] = storage.add([new_job(unique_key="k")])
    assert (again.is_new, again.queue) == (False, "gpu")


def test_of_two_with_one_key_in_one_enqueue_the_first_stands_for_both(storage: Storage) -> None:
    added = storage.add([new_job(unique_key="k", id="a"), new_job(), new_job(unique_key="k", id="b")])
    assert [one.id for one in added] == ["a", added[1].id, "a"]
    assert totals(storage)["pending"] == 2


def test_a_job_whose_key_another_has_taken_since_is_not_retried(storage: Storage) -> None:
    storage.add([new_job(unique_key="k", max_retries=0)])
    dead = ran(storage, FAILED)
    storage.add([new_job(unique_key="k")])
    assert storage.retry([dead]) == 0
    assert storage.glance(dead.id).state is State.DEAD
    assert totals(storage) == counted(storage)


def test_a_key_that_many_hand_in_at_once_is_stored_once(connect: Connect, database: str) -> None:
    connect()  # the schema is made
    rounds, many = 15, 4
    together = threading.Barrier(many)
    ids: list[list[str]] = [[] for _ in range(many)]

    def hand_in(number: int) -> None:
        storage = open_database(database, SetClock())
        for round in range(rounds):
            together.wait(timeout=60)
            [added] = storage.add([new_job(unique_key=f"key {round}")])
            ids[number].append(added.id)
        storage.close()

    threads = [threading.Thread(target=hand_in, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids == [ids[0]] * many and len(set(ids[0])) == rounds
    storage = connect()
    assert totals(storage) == counted(storage) and totals(storage)["pending"] == rounds


def test_a_retry_and_an_enqueue_of_one_key_at_once_leave_one_of_them(connect: Connect, database: str) -> None:
    storage = connect()
    rounds = 15
    for round in range(rounds):
        storage.add([new_job(id=f"old{round}", unique_key=f"key {round}", max_retries=0)])
        ran(storage, FAILED)
    together = threading.Barrier(2)

    def enqueue() -> None:
        other = open_database(database, SetClock())
        for round in range(rounds):
            together.wait(timeout=60)
            other.add([new_job(unique_key=f"key {round}")])
        other.close()

    thread = threading.Thread(target=enqueue)
    thread.start()
    for round in range(rounds):
        together.wait(timeout=60)
        storage.retry([storage.glance(f"old{round}")])
    thread.join()
    assert totals(storage)["pending"] == rounds
    assert totals(storage) == counted(storage)
