"""Jobs that wait for others: who enters the line when, who is cancelled, and that nobody is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import SetClock, open_database
from test_acts import CANCELLED, DONE, FAILED, edit, order, ran
from test_order import new_job
from test_storage import counted, totals

from queuectl.errors import InvalidInput, JobNotFound
from queuectl.job import Job, Need, NewJob, Outcome, State
from queuectl.storage.base import Storage

Connect = Callable[[], Storage]


def after(*ids: str, wanted: str = "completed", **fields: Any) -> NewJob:
    return new_job(needs=tuple(Need(job_id, wanted) for job_id in ids), **fields)


def state(storage: Storage, job_id: str) -> str:
    return storage.glance(job_id).state.value


def reason(storage: Storage, job_id: str) -> str | None:
    return storage.glance(job_id).error_message


def finish(storage: Storage, job_id: str, outcome: Outcome) -> None:
    """Run this job next, and end it so."""
    storage.promote(storage.glance(job_id))
    assert ran(storage, outcome).id == job_id


# --- one after the other ---


def test_a_dependent_enters_the_line_when_its_need_is_completed_and_has_waited_for_nothing(storage: Storage) -> None:
    storage.add([new_job(id="build"), after("build", id="test", priority=1)])
    for _ in range(5):
        storage.add([new_job(2, run_at=2**45)])
    blocked = storage.job("test")
    assert (blocked.waits_for, blocked.rank, blocked.waiting_time) == (1, None, 0)
    assert ran(storage, DONE).id == "build"
    free = storage.job("test")
    assert (free.waits_for, free.waiting_time, free.after_id) == (0, 0, "build")
    assert order(storage) == ["test"]


@pytest.mark.parametrize(
    ("wanted", "outcome", "becomes"),
    [
        ("completed", DONE, "pending"),
        ("completed", FAILED, "cancelled"),
        ("completed", CANCELLED, "cancelled"),
        ("any", DONE, "pending"),
        ("any", FAILED, "pending"),
        ("any", CANCELLED, "pending"),
        ("dead", DONE, "cancelled"),
        ("dead", FAILED, "pending"),
        ("dead", CANCELLED, "cancelled"),
    ],
)
@pytest.mark.parametrize("has_ended", [False, True], ids=["before its end", "after its end"])
def test_what_becomes_of_a_dependent(
    storage: Storage, wanted: str, outcome: Outcome, becomes: str, has_ended: bool
) -> None:
    storage.add([new_job(id="need", max_retries=0)])
    if has_ended:
        ran(storage, outcome)
    storage.add([after("need", wanted=wanted, id="dependent")])
    if not has_ended:
        assert storage.glance("dependent").waits_for == 1
        ran(storage, outcome)
    job = storage.glance("dependent")
    assert job.state.value == becomes
    assert (job.rank is not None) == (becomes == "pending") and job.waits_for == 0
    if becomes == "cancelled":
        words = {"completed": "completed", "dead": "is dead", "cancelled": "was cancelled"}
        assert job.error_message == f"job need {words[state(storage, 'need')]}"
    else:
        need = storage.glance("need")
        assert (job.after_id, job.after_state, job.after_exit_code) == (need.id, need.state, need.exit_code)
    assert totals(storage) == counted(storage)


def test_a_need_that_fails_and_will_be_tried_again_decides_nothing(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(id="need", max_retries=1), after("need", id="dependent")])
    ran(storage, FAILED)
    assert storage.glance("dependent").waits_for == 1
    clock.pass_seconds(3600)
    ran(storage, DONE)
    assert order(storage) == ["dependent"]


def test_a_need_that_takes_its_workers_down_with_it_cancels_its_dependents(storage: Storage) -> None:
    storage.add([new_job(id="need"), after("need", id="dependent")])
    for _ in range(3):
        job = storage.claim("w")
        assert job
        storage.lose(job, rebooted=False)
    assert reason(storage, "dependent") == "job need is dead"
    assert totals(storage) == counted(storage)


def test_a_dependent_with_a_time_waits_for_both(storage: Storage, clock: SetClock) -> None:
    late = clock.now() + 60_000
    storage.add([new_job(id="need"), after("need", id="late", run_at=late), after("need", id="soon", run_at=1)])
    assert ran(storage, DONE).id == "need"
    assert (storage.glance("late").due_at, order(storage)) == (late, ["soon"])
    clock.pass_seconds(60)
    assert order(storage) == ["late"]


def test_a_blocked_job_is_edited_where_it_stands(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(id="need"), after("need", id="a"), after("need", id="b")])
    edit(storage, "b", priority=9)
    edit(storage, "a", delay=60)
    assert storage.glance("a").waits_for == 1 and storage.glance("a").due_at is None
    assert order(storage) == ["need"]
    storage.finish(storage.held_by("w")[0], DONE)
    assert order(storage) == ["b"]
    clock.pass_seconds(60)
    assert order(storage) == ["a"]


# --- several ---


def test_who_waits_for_several_enters_the_line_after_the_last_and_hears_of_that(storage: Storage) -> None:
    storage.add([new_job(id="a"), new_job(id="b", max_retries=0), new_job(id="c")])
    needs = (Need("a", "completed"), Need("b", "dead"), Need("c", "any"))
    storage.add([new_job(id="last", needs=needs)])
    for left, (job_id, outcome) in enumerate([("c", CANCELLED), ("a", DONE), ("b", FAILED)], -3):
        assert (storage.glance("last").waits_for, storage.glance("last").rank) == (-left, None)
        finish(storage, job_id, outcome)
    job = storage.glance("last")
    assert (job.waits_for, job.after_id, job.after_state, job.after_exit_code) == (0, "b", "dead", 3)
    assert order(storage) == ["last"]


def test_of_needs_that_have_ended_already_the_latest_is_told_of(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(id="a"), new_job(id="b")])
    for job_id in ("b", "a"):
        finish(storage, job_id, DONE)
        clock.pass_seconds(1)
    storage.add([after("a", "b", id="last")])
    assert storage.glance("last").after_id == "a"


def test_one_need_that_ends_otherwise_is_enough_and_the_others_no_longer_matter(storage: Storage) -> None:
    storage.add([new_job(id="a", max_retries=0), new_job(id="b"), after("a", "b", id="last")])
    finish(storage, "a", FAILED)
    assert (state(storage, "last"), reason(storage, "last")) == ("cancelled", "job a is dead")
    finish(storage, "b", DONE)
    assert state(storage, "last") == "cancelled"
    assert totals(storage) == counted(storage)


def test_cancelling_goes_down_the_chain_and_stops_where_any_end_will_do(storage: Storage) -> None:
    storage.add(
        [
            new_job(id="build", max_retries=0),
            after("build", id="test"),
            after("test", id="deploy"),
            after("deploy", id="clean-up", wanted="any"),
            after("clean-up", id="report"),
            after("deploy", id="apology", wanted="dead"),
        ]
    )
    ran(storage, FAILED)
    found = {job_id: state(storage, job_id) for job_id in ("test", "deploy", "clean-up", "report", "apology")}
    assert found == dict(
        test="cancelled", deploy="cancelled", **{"clean-up": "pending"}, report="pending", apology="cancelled"
    )
    assert reason(storage, "deploy") == "job test was cancelled"
    assert order(storage) == ["clean-up"]
    assert totals(storage) == counted(storage)


def test_a_cancelled_need_takes_its_dependents_along_at_once_or_when_its_run_is_dead(storage: Storage) -> None:
    storage.add([new_job(id="waits"), after("waits", id="a"), new_job(9, id="runs"), after("runs", id="b")])
    storage.cancel(storage.glance("waits"), "not wanted")
    assert reason(storage, "a") == "job waits was cancelled"
    running = storage.claim("w")
    assert running and running.id == "runs"
    storage.cancel(running, "not wanted")
    assert storage.glance("b").waits_for == 1
    storage.finish(running, FAILED)
    assert reason(storage, "b") == "job runs was cancelled"
    assert totals(storage) == counted(storage)


def test_a_blocked_job_can_be_cancelled_and_its_needs_no_longer_concern_it(storage: Storage) -> None:
    storage.add([new_job(id="need"), after("need", id="a")])
    assert storage.cancel(storage.glance("a"), "not wanted")
    ran(storage, DONE)
    assert (state(storage, "a"), reason(storage, "a")) == ("cancelled", "not wanted")
    assert totals(storage) == counted(storage)


# --- handing in ---


def test_jobs_that_come_together_may_name_each_other_in_any_order(storage: Storage) -> None:
    storage.add([after("b", id="c"), after("a", id="b"), new_job(id="a")])
    for job_id in "abc":
        assert ran(storage, DONE).id == job_id


@pytest.mark.parametrize(
    ("jobs", "circle"),
    [
        ([after("a", id="a")], "a -> a"),
        ([after("b", id="a"), after("c", id="b"), after("a", id="c")], "a -> b -> c -> a"),
    ],
    ids=["one", "three"],
)
def test_a_circle_is_refused_and_nothing_is_stored(storage: Storage, jobs: list[NewJob], circle: str) -> None:
    with pytest.raises(InvalidInput, match="in a circle") as refused:
        storage.add([new_job(), *jobs])
    named = str(refused.value).partition(": ")[2].partition(".")[0].split(" -> ")
    wanted = circle.split(" -> ")
    assert named[0] == named[-1] and set(named) == set(wanted) and len(named) == len(wanted)
    assert totals(storage) == counted(storage) and not any(totals(storage).values())


def test_an_unknown_need_is_refused_with_the_nearest_id_and_nothing_is_stored(storage: Storage) -> None:
    storage.add([new_job(id="build")])
    with pytest.raises(JobNotFound, match="Did you mean 'build'"):
        storage.add([new_job(), after("bild")])
    assert totals(storage)["pending"] == 1
    assert storage.glance("build").dependents == 0


def test_a_need_that_is_named_in_two_ways_is_one_need(storage: Storage) -> None:
    from queuectl.fields import needs

    found = needs({"depends_on": ["a"], "after_any": ["a", "b"], "after_failed": ["b"]})
    assert sorted(found) == [Need("a", "completed"), Need("b", "any")]


# --- retrying and deleting what others wait for ---


def test_a_chain_that_is_retried_together_waits_again_in_its_order(storage: Storage) -> None:
    storage.add([new_job(id="build", max_retries=0), after("build", id="test"), after("test", id="deploy")])
    ran(storage, FAILED)
    assert storage.retry([storage.glance(job_id) for job_id in ("deploy", "test", "build")]) == 3
    assert [storage.glance(job_id).waits_for for job_id in ("build", "test", "deploy")] == [0, 1, 1]
    assert totals(storage) == counted(storage)
    for job_id in ("build", "test", "deploy"):
        assert ran(storage, DONE).id == job_id


def test_a_dependent_that_is_retried_alone_does_not_wait_for_what_has_ended(storage: Storage) -> None:
    storage.add([new_job(id="a", max_retries=0), new_job(id="b"), after("a", "b", id="last")])
    finish(storage, "a", FAILED)
    storage.retry([storage.glance("last")])
    assert storage.glance("last").waits_for == 1, "for b, which has not ended"
    storage.retry([storage.glance("a")])
    finish(storage, "a", DONE)
    assert storage.glance("last").waits_for == 1, "and what a does no longer concerns it"
    finish(storage, "b", DONE)
    assert order(storage) == ["last"]


def test_a_need_that_is_retried_after_its_dependent_was_let_in_does_not_block_it_again(storage: Storage) -> None:
    storage.add([new_job(id="need"), after("need", id="a")])
    need = ran(storage, DONE)
    storage.retry([need])
    assert storage.glance("a").waits_for == 0
    assert set(order(storage)) == {"need", "a"}
    for job in storage.held_by("w"):
        storage.finish(job, DONE)
    assert totals(storage) == counted(storage)


def test_a_dependent_knows_how_its_need_ended_also_when_that_has_been_retried_or_deleted(storage: Storage) -> None:
    storage.add([new_job(id="need", max_retries=0), after("need", id="a", wanted="any")])
    storage.retry([ran(storage, FAILED)])
    told = storage.glance("a")
    assert (told.after_id, told.after_state, told.after_exit_code) == ("need", "dead", 3)
    storage.delete([storage.glance("need")])
    assert storage.glance("a").after_id == "need"


def test_a_need_that_ends_twice_counts_once(storage: Storage) -> None:
    storage.add([new_job(id="a"), new_job(id="b"), after("a", "b", id="last")])
    for _ in range(2):
        finish(storage, "a", DONE)
        storage.retry([storage.glance("a")])
    assert storage.glance("last").waits_for == 1
    finish(storage, "b", DONE)
    assert set(order(storage)) == {"a", "last"}


def test_a_waiting_need_that_is_deleted_counts_as_cancelled(storage: Storage) -> None:
    storage.add([new_job(id="need"), after("need", id="a"), after("need", id="b", wanted="any")])
    storage.delete([storage.glance("need")])
    assert state(storage, "a") == "cancelled"
    assert order(storage) == ["b"]
    assert storage.needs_of(storage.glance("b")) == []
    assert totals(storage) == counted(storage)


def test_jobs_that_wait_for_each_other_can_be_deleted_together(storage: Storage) -> None:
    storage.add([new_job(id="a"), after("a", id="b"), after("b", id="c"), after("b", wanted="any", id="stays")])
    chosen = [storage.glance(job_id) for job_id in "abc"]
    assert storage.delete(chosen) == chosen
    assert [job.id for job in storage.jobs(None, 9)] == order(storage) == ["stays"]
    assert totals(storage)["cancelled"] == 0


def test_a_need_that_has_ended_can_be_deleted_and_blocks_nobody(storage: Storage) -> None:
    storage.add([new_job(id="a"), new_job(id="b"), after("a", "b", id="last")])
    finish(storage, "a", DONE)
    storage.delete([storage.glance("a")])
    assert storage.glance("last").waits_for == 1
    finish(storage, "b", DONE)
    assert order(storage) == ["last"]


def test_a_blocked_job_that_is_deleted_leaves_no_ties(storage: Storage) -> None:
    storage.add([new_job(id="need"), after("need", id="a")])
    storage.delete([storage.glance("a")])
    assert storage.dependents_of(storage.glance("need")) == []
    ran(storage, DONE)
    assert totals(storage) == counted(storage)


# --- at the same moment ---


def together(database: str, *actions: Callable[[Storage], object]) -> None:
    """Each in a thread and with a connection of its own, all begun at once; what one raises is raised here."""
    barrier = threading.Barrier(len(actions))
    raised: list[BaseException] = []

    def begin(action: Callable[[Storage], object]) -> None:
        storage = open_database(database, SetClock())
        try:
            barrier.wait(timeout=60)
            action(storage)
        except BaseException as error:
            raised.append(error)
        finally:
            storage.close()

    threads = [threading.Thread(target=begin, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def ending(job: Job | None, outcome: Outcome) -> Callable[[Storage], object]:
    assert job
    return lambda storage: storage.finish(job, outcome)


ROUNDS = 12


def test_a_need_that_ends_while_its_dependent_is_handed_in_never_leaves_it_blocked(
    storage: Storage, database: str
) -> None:
    for number in range(ROUNDS):
        outcome, becomes = (DONE, State.PENDING) if number % 2 else (FAILED, State.CANCELLED)
        storage.add([new_job(id=f"need{number}", max_retries=0)])
        new = after(f"need{number}", id=f"after{number}")
        together(database, ending(storage.claim("w"), outcome), lambda other, new=new: other.add([new]))  # type: ignore[misc]
        dependent = storage.glance(f"after{number}")
        assert (dependent.waits_for, dependent.state) == (0, becomes)
        if becomes is State.PENDING:
            assert ran(storage, DONE).id == dependent.id
    assert totals(storage) == counted(storage)


@pytest.mark.parametrize("outcomes", [(DONE, DONE), (DONE, FAILED), (FAILED, FAILED)], ids=["both", "one", "none"])
def test_two_needs_that_end_at_once_settle_what_waits_for_both(
    storage: Storage, database: str, outcomes: tuple[Outcome, Outcome]
) -> None:
    for number in range(ROUNDS):
        storage.add([new_job(id=f"a{number}", max_retries=0), new_job(id=f"b{number}", max_retries=0)])
        fan = [f"fan{number}-{leaf}" for leaf in range(5)]
        storage.add([after(f"a{number}", f"b{number}", id=job_id) for job_id in fan])
        together(database, *(ending(storage.claim("w"), outcome) for outcome in outcomes))
        found = {(storage.glance(job_id).state, storage.glance(job_id).waits_for) for job_id in fan}
        assert found == {(State.PENDING if FAILED not in outcomes else State.CANCELLED, 0)}
        assert totals(storage) == counted(storage)
        while job := storage.claim("w"):
            storage.finish(job, DONE)


def test_a_need_that_dies_while_its_dependent_is_cancelled_counts_it_once(storage: Storage, database: str) -> None:
    for number in range(ROUNDS):
        storage.add([new_job(id=f"need{number}", max_retries=0), after(f"need{number}", id=f"after{number}")])
        dependent = storage.glance(f"after{number}")
        together(
            database,
            ending(storage.claim("w"), FAILED),
            lambda other, dependent=dependent: other.cancel(dependent, "not wanted"),  # type: ignore[misc]
        )
        assert state(storage, dependent.id) == "cancelled"
    assert totals(storage) == counted(storage)


def test_a_need_that_ends_while_its_dependent_is_retried_never_leaves_it_blocked(
    storage: Storage, database: str
) -> None:
    for number in range(ROUNDS):
        storage.add([new_job(id=f"need{number}"), after(f"need{number}", id=f"after{number}")])
        storage.cancel(storage.glance(f"after{number}"), "not now")
        dependent = storage.glance(f"after{number}")
        together(
            database,
            ending(storage.claim("w"), DONE),
            lambda other, dependent=dependent: other.retry([dependent]),  # type: ignore[misc]
        )
        assert ran(storage, DONE).id == dependent.id
    assert totals(storage) == counted(storage)


# --- ten thousand ---

MANY = 10_000


class Counting:
    """How many queries a storage runs."""

    def __init__(self, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries = 0
        run = storage.run

        def counted(query: str, **parameters: Any) -> Any:
            self.queries += 1
            return run(query, **parameters)

        monkeypatch.setattr(storage, "run", counted)

    def of(self, action: Callable[[], object]) -> int:
        before = self.queries
        action()
        return self.queries - before


def chain(name: str, length: int) -> list[NewJob]:
    links = [after(f"{name}{number - 1}", id=f"{name}{number}") for number in range(1, length)]
    return [new_job(id=f"{name}0"), *links]


def test_a_finish_in_a_chain_costs_the_same_however_long_the_chain_is(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(storage, monkeypatch)
    storage.add(chain("short", 20))
    short = [counting.of(lambda: ran(storage, DONE)) for _ in range(10)]
    storage.add(chain("long", MANY))
    long = [counting.of(lambda: ran(storage, DONE)) for _ in range(40)]
    assert max(long) <= max(short)
    assert totals(storage)["completed"] == 50


def test_a_finish_with_a_fan_of_ten_thousand_is_one_statement_for_all_and_a_stranger_pays_nothing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(storage, monkeypatch)
    storage.add([new_job(id="alone")])
    plain = counting.of(lambda: ran(storage, DONE))
    handing_in = counting.of(lambda: storage.add([new_job(id="root"), *(after("root") for _ in range(MANY))]))
    assert handing_in < 30, "and not some for each"
    assert counting.of(lambda: ran(storage, DONE)) <= plain + 5
    assert storage.ahead(2**62, 0) == 1000
    assert totals(storage) == counted(storage)
    storage.add([new_job(10, id="stranger", run_at=1)])
    finish(storage, "stranger", DONE)
    assert counting.of(lambda: ran(storage, DONE)) <= plain


def test_a_death_costs_in_proportion_to_its_own_dependents(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(storage, monkeypatch)
    storage.add([new_job(1, id="other"), *(after("other") for _ in range(MANY))])
    costs = []
    for dependents in (10, 20):
        storage.add([new_job(9, max_retries=0, id=f"root{dependents}")])
        storage.add([after(f"root{dependents}") for _ in range(dependents)])
        costs.append(counting.of(lambda: ran(storage, FAILED)))
    assert costs[1] - costs[0] == 10
    assert totals(storage)["cancelled"] == 30
