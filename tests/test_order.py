"""The order in which jobs run is, to the letter, that of the naive rule; and nobody is passed for ever."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

from conftest import SetClock, open_database
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive import NaiveQueue, Named, Row

from queuectl.job import Job, Need, NewJob, Outcome, State
from queuectl.ranking import parse_aging
from queuectl.storage import queues as storage_queues
from queuectl.storage.base import Storage
from queuectl.storage.rows import QueueRow

BATCH = 3
AGINGS = ["1 enqueue", "3 enqueues", "2s", "60s", "off"]

priorities = st.integers(1, 10)
delays = st.none() | st.integers(0, 20)
queues = st.sampled_from(["default", "default", "gpu", "mail"])
needs = st.tuples(st.integers(1, 6), st.sampled_from(["completed", "dead", "any"]))  # which of the newest jobs, and how
steps = st.one_of(
    st.tuples(st.just("enqueue"), st.lists(st.tuples(priorities, delays, queues), min_size=1, max_size=4)),
    st.tuples(st.just("enqueue_after"), st.tuples(priorities, delays, st.lists(needs, min_size=1, max_size=3))),
    st.tuples(st.just("promote"), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("move"), st.tuples(st.integers(0, 5), queues)),
    st.tuples(st.just("pause"), st.tuples(queues, st.sampled_from([0, 0, 1]))),
    st.tuples(st.just("limit"), st.tuples(queues, st.sampled_from([None, None, 1, 2]))),
    st.tuples(st.just("claim"), st.none()),
    st.tuples(st.just("end"), st.sampled_from(["complete", "fail", "fail", "release", "lose"])),
    st.tuples(st.just("pass"), st.integers(1, 15)),
    st.tuples(st.just("retry"), st.none()),
    st.tuples(st.just("aging"), st.sampled_from(AGINGS)),
)


def new_job(priority: int = 5, **fields: Any) -> NewJob:
    values: dict[str, Any] = dict(
        id=None, command="true", argv=None, max_retries=2, timeout=0, backoff_base=2.0, run_at=None, cwd="/", env=None
    )
    return NewJob(**{**values, "priority": priority, **fields})


class Both:
    """The real queue, through two connections in turn, and the naive one beside it."""

    def __init__(self, database: str) -> None:
        self.clock = SetClock()
        self.turn = 0
        self.connections = [open_database(database, self.clock) for _ in range(2)]
        self.naive = NaiveQueue(parse_aging("1 enqueue"), BATCH)
        for name in ("gpu", "mail"):
            self.storage.add_queue(QueueRow(name))
            self.naive.named[name] = Named()
        self.running: list[Job] = []
        self.always_one_enqueue = True
        self.was_promoted = False

    @property
    def storage(self) -> Storage:
        self.turn += 1
        return self.connections[self.turn % 2]

    def enqueue(self, jobs: list[tuple[int, int | None, str]]) -> None:
        now = self.clock.now()
        new = [
            new_job(priority, run_at=None if delay is None else now + delay * 1000, queue=queue)
            for priority, delay, queue in jobs
        ]
        added = self.storage.add(new)
        self.naive.enqueue(
            now, [(stored.seq, job.priority, job.run_at, {}, job.queue) for stored, job in zip(added, new)]
        )

    def enqueue_after(self, job: tuple[int, int | None, list[tuple[int, str]]]) -> None:
        priority, delay, wanted = job
        now, newest = self.clock.now(), list(self.naive.rows)[::-1]
        needs = {newest[back - 1]: how for back, how in wanted if back <= len(newest)}
        run_at = None if delay is None else now + delay * 1000
        new = new_job(priority, run_at=run_at, needs=tuple(Need(str(seq), how) for seq, how in needs.items()))
        [stored] = self.storage.add([new])
        self.naive.enqueue(now, [(stored.seq, priority, run_at, needs, "default")])

    def promote(self, which: int) -> None:
        waiting = [row for row in self.naive.rows.values() if row.state in ("pending", "failed") and not row.needs]
        if which < len(waiting):
            self.was_promoted = True
            self.storage.promote(self.storage.glance(str(waiting[which].seq)))
            self.naive.promote(self.clock.now(), waiting[which].seq)

    def cancel(self, which: int) -> None:
        waiting = [row for row in self.naive.rows.values() if row.state in ("pending", "failed")]
        if which < len(waiting):
            self.storage.cancel(self.storage.glance(str(waiting[which].seq)), "not wanted")
            self.naive.end(self.clock.now(), waiting[which].seq, "cancelled")

    def move(self, where: tuple[int, str]) -> None:
        which, queue = where
        waiting = [row for row in self.naive.rows.values() if row.state in ("pending", "failed")]
        if which < len(waiting):
            self.storage.edit(self.storage.glance(str(waiting[which].seq)), {"queue": queue})
            waiting[which].queue = queue

    def pause(self, change: tuple[str, int]) -> None:
        self.storage.set_queue(change[0], is_paused=change[1])
        self.naive.named[change[0]].is_paused = change[1]

    def limit(self, change: tuple[str, int | None]) -> None:
        self.storage.set_queue(change[0], run_limit=change[1])
        self.naive.named[change[0]].run_limit = change[1]

    def claim(self, _: None) -> None:
        waiting = [row for row in self.naive._waiting() if self.naive.is_open(row.queue)]
        waiting_before = {row.seq: self.naive.tick - row.enqueues for row in waiting}
        storage = self.storage
        had_work = storage.has_work()
        expected = self.naive.claim(self.clock.now())
        job = storage.claim("a worker")
        assert (job and job.seq) == (expected and expected.seq)
        assert had_work or job is None, "an idle worker would have slept on"
        if job and expected:
            self.running.append(job)
            if self.always_one_enqueue and not self.was_promoted:
                self.nobody_was_passed_too_often(expected, waiting_before)

    def nobody_was_passed_too_often(self, claimed: Row, since: dict[int, int]) -> None:
        for row in self.naive._waiting():
            if row.due_at is None and row.seq in since:
                assert claimed.enqueued_tick < since[row.seq] + 9

    def end(self, how: str) -> None:
        if not self.running:
            return
        job = self.running.pop(0)
        storage, now = self.storage, self.clock.now()
        ran = (now - (job.started_at or now)) / 1000
        if how == "complete":
            storage.finish(job, Outcome(0, ran))
        elif how == "fail":
            storage.finish(job, Outcome(1, ran))
        elif how == "release":
            storage.finish(job, Outcome(None, ran, state=State.PENDING))
        else:
            storage.lose(job, rebooted=False)
        after = storage.job(job.id)
        if after.state is State.FAILED:
            assert after.run_at is not None
            self.naive.fail(now, job.seq, after.run_at)
        elif after.state is State.PENDING:
            self.naive.put_back(now, job.seq)
        else:
            self.naive.end(now, job.seq, after.state.value)

    def pass_(self, seconds: int) -> None:
        self.clock.pass_seconds(seconds)

    def retry(self, _: None) -> None:
        dead = self.storage.jobs(State.DEAD, 1)
        if dead:
            self.storage.retry(dead)
            self.naive.retry(self.clock.now(), dead[0].seq)

    def aging(self, rule: str) -> None:
        self.always_one_enqueue = self.always_one_enqueue and rule == "1 enqueue"
        self.storage.set_setting("aging", rule)
        self.naive.aging = parse_aging(rule)

    def waiting_times_are_those_of_the_rule(self) -> None:
        self.naive._bump_by_the_clock(self.clock.now())
        for row in self.naive._waiting():
            shown = self.storage.job(str(row.seq)).effective_priority
            assert shown == int(self.naive.effective(row))

    def states_are_those_of_the_rule(self) -> None:
        for row in self.naive.rows.values():
            job = self.storage.glance(str(row.seq))
            assert (job.state.value, job.waits_for) == (row.state, len(row.needs))

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


# The order does not depend on the platform; a file is slow on some.
@settings(max_examples=150 if os.name == "posix" else 15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=5, max_size=60))
def test_the_job_claimed_is_the_one_that_the_naive_rule_picks(script: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        compare(f"sqlite:///{directory}/queuectl.db", script)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=st.lists(steps, min_size=20, max_size=60))
def test_and_so_it_is_on_a_server(new_database: Callable[[], str], script: list[tuple[str, Any]]) -> None:
    compare(new_database(), script)


def compare(database: str, script: list[tuple[str, Any]]) -> None:
    with mock.patch.object(storage_queues, "DUE_BATCH", BATCH):
        both = Both(database)
        try:
            for name, argument in script:
                getattr(both, {"pass": "pass_"}.get(name, name))(argument)
            both.waiting_times_are_those_of_the_rule()
            both.states_are_those_of_the_rule()
            for _ in range(30):
                both.clock.pass_seconds(5)
                both.claim(None)
        finally:
            both.close()


def test_a_job_of_the_lowest_priority_waits_for_nine_enqueues_at_most(storage: Storage) -> None:
    [patient] = storage.add([new_job(1)])
    urgent = [storage.add([new_job(10)])[0] for _ in range(20)]
    order = [job.seq for job in iter(lambda: storage.claim("a worker"), None)]
    assert order.index(patient.seq) == 8
    assert order == [job.seq for job in urgent[:8]] + [patient.seq] + [job.seq for job in urgent[8:]]


def test_the_jobs_of_a_bulk_enqueue_share_one_tick(storage: Storage) -> None:
    bulk = storage.add([new_job(5) for _ in range(50)])
    [urgent] = storage.add([new_job(7)])
    order = [job.seq for job in iter(lambda: storage.claim("a worker"), None)]
    assert order == [urgent.seq] + [job.seq for job in bulk]


def test_with_aging_off_a_lower_priority_waits_however_long(storage: Storage) -> None:
    storage.set_setting("aging", "off")
    [patient] = storage.add([new_job(1)])
    for _ in range(30):
        storage.add([new_job(2)])
    order = [job.seq for job in iter(lambda: storage.claim("a worker"), None)]
    assert order[-1] == patient.seq
