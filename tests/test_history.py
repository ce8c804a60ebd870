"""What has happened lately: who ended last, how the queue stood minute by minute, and the mark of a change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import SetClock
from test_acts import DONE, FAILED, ran
from test_order import new_job

from queuectl.job import State
from queuectl.storage import Sample
from queuectl.storage.base import Storage
from queuectl.storage.history import MINUTES_KEPT

Connect = Callable[[], Storage]


def test_the_last_to_end_comes_first_however_it_ended(storage: Storage, clock: SetClock) -> None:
    for job_id, outcome, max_retries in (("dead", FAILED, 0), ("done", DONE, 3), ("comes-back", FAILED, 3)):
        storage.add([new_job(id=job_id, max_retries=max_retries)])
        ran(storage, outcome)
        clock.pass_seconds(1)
    storage.add([new_job(id="cancelled")])
    storage.cancel_all([storage.glance("cancelled")], "enough")
    assert [job.id for job in storage.recently_ended(10)] == ["cancelled", "done", "dead"]
    assert [job.id for job in storage.recently_ended(2)] == ["cancelled", "done"]


def test_one_sample_a_minute_is_written_by_whoever_comes_first(connect: Connect, clock: SetClock) -> None:
    one, other = connect(), connect()
    one.add([new_job(), new_job(), new_job(max_retries=5)])
    ran(one, DONE)
    for storage in (one, other, one):
        storage.sample()
    minute = clock.now() // 60_000
    assert one.samples(minute - 5, minute + 5) == [Sample(minute, 1, 0, 0, waiting=2, running=0)]
    clock.pass_seconds(60)
    ran(other, FAILED)
    other.claim("w")
    other.sample()
    one.sample()
    assert one.samples(minute + 1, minute + 1) == [Sample(minute + 1, 1, 1, 0, waiting=1, running=1)]
    assert one.standing(minute) == Sample(minute, 1, 1, 0, waiting=1, running=1)


def test_samples_go_after_25_hours_and_those_to_come_where_the_clock_was_set_back(
    storage: Storage, clock: SetClock
) -> None:
    first = clock.now() // 60_000
    storage.sample()
    clock.pass_seconds(3600)
    storage.sample()
    clock.be_set(-1800)
    storage.sample()
    assert [one.minute for one in storage.samples(0, 2 * first)] == [first, first + 30]
    clock.be_set(60 * MINUTES_KEPT)
    storage.sample()
    assert [one.minute for one in storage.samples(0, 2 * first)] == [first + 30, first + 30 + MINUTES_KEPT]


def test_runs_are_told_with_their_queue_from_a_number_on(storage: Storage) -> None:
    assert storage.newest_run() == 0 and storage.runs_after(0, 10) == []
    storage.add([new_job(), new_job()])
    ran(storage, DONE)
    first = storage.newest_run()
    ran(storage, DONE)
    [(number, queue, _, waited)] = storage.runs_after(first, 10)
    assert (number, queue, waited) == (storage.newest_run(), "default", 0)
    assert len(storage.runs_after(0, 10)) == 2 and len(storage.runs_after(0, 1)) == 1


def test_the_oldest_of_the_first_in_line_tells_how_long_one_waits(storage: Storage, clock: SetClock) -> None:
    assert storage.oldest_in_line("default", 10) is None
    began = clock.now()
    storage.add([new_job(priority=1)])
    clock.pass_seconds(10)
    storage.add([new_job(priority=9), new_job(priority=9)])
    assert storage.oldest_in_line("default", 10) == began
    assert storage.oldest_in_line("default", 2) == began + 10_000, "no more are looked at"


@pytest.mark.parametrize("durable", [True, False])
def test_the_mark_of_a_connection_changes_with_every_commit_of_another(connect: Connect, durable: bool) -> None:
    looking, other = connect(), connect()
    for change in (lambda: other.add([new_job(id="one")]), lambda: other.cancel_all(other.jobs(None, 1), "enough")):
        before = looking.version()
        assert looking.version() == before
        change()
        assert looking.version() != before
    assert looking.glance("one").state is State.CANCELLED


def test_a_commit_of_one_that_began_before_another_changes_the_mark_too(connect: Connect) -> None:
    looking, slow, quick = connect(), connect(), connect()
    if not looking.is_shared:
        pytest.skip("SQLite has one who writes at a time")
    with slow.transaction():
        slow.run("set_meta", name="slow", value="1")
        quick.add([new_job()])
        before = looking.version()
    assert looking.version() != before


def test_the_database_tells_how_large_it_is(storage: Storage) -> None:
    storage.add([new_job()])
    assert storage.size_bytes() > 10_000
