"""The storage contract as a machine: every operation, in any order, by several connections while time moves.

After each step what is stored is compared with a model of plain dictionaries (model.py), and `db check` finds nothing.
`QUEUECTL_TEST_EXAMPLES=2000 python test.py tests/test_machine.py` runs it for as long as one likes, each time by other
chance; without that it is the same histories every time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
from chance import MANY, budget
from conftest import SetClock, open_database
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import ENDED, Facts, Model, Recurring
from test_order import new_job

from queuectl import recurring
from queuectl.checking import check
from queuectl.config import parse_rate
from queuectl.errors import DuplicateJob, DuplicateQueue, JobNotFound, LeaseLost, QueueError, QueueNotFound, WrongState
from queuectl.home import Home
from queuectl.job import Job, Need, NewJob, Outcome, State
from queuectl.ranking import parse_aging
from queuectl.recurrence import Rule
from queuectl.storage import QueueRow, Storage
from queuectl.storage import queues as storage_queues
from queuectl.storage.rows import Worker
from queuectl.tidying import tidy

BATCH = 3
PAGE = 4
QUEUES = ["default", "default", "gpu", "mail"]
DAY = 86_400

which = st.integers(0, 40)  # of the jobs there are
some = st.lists(which, min_size=1, max_size=3, unique=True)
priorities = st.integers(1, 10)
queues = st.sampled_from(QUEUES)
delays = st.sampled_from([None, None, None, 0, 3, 20, 7200])
jobs = st.fixed_dictionaries(
    {
        "priority": priorities,
        "delay": delays,
        "queue": queues,
        "unique_key": st.sampled_from([None, None, None, "red", "blue"]),
        "label": st.sampled_from([None, "nightly"]),
        "max_retries": st.integers(0, 2),
        "backoff_base": st.sampled_from([0.0, 1.0, 2.0, 60.0]),
        "no_retry_on": st.sampled_from([None, None, "64,65"]),
        "no_rerun": st.sampled_from([0, 0, 0, 1]),
    }
)
wanted = st.sampled_from(["completed", "completed", "dead", "any"])
ends = st.sampled_from(["success", "success", "failure", "failure", "wrong", "timeout", "put back", "cancelled"])
changes = st.one_of(
    st.tuples(st.sampled_from(["add", "remove"]), st.none()),
    st.tuples(st.just("is_paused"), st.sampled_from([0, 0, 1])),
    st.tuples(st.just("run_limit"), st.sampled_from([None, None, 1, 2])),
    st.tuples(st.just("rate_text"), st.sampled_from([None, None, "10/s", "1/s", "30/m", "1/h"])),
)
SETTINGS = [
    *(("aging", value) for value in ("1 enqueue", "3 enqueues", "2s", "10m", "off")),
    *(("max_backoff", value) for value in ("0", "5", "3600")),
    *(("keep_completed", value) for value in ("forever", "0s", "1h")),
    *(("rate", value) for value in (None, None, "5/s", "1/m")),
]
# As with `enqueue`, every job has one: when one was last used is told by those that came later.
SAME = {"LANG": "C"}
environments = st.sampled_from([SAME, {"LANG": "de"}, {"LANG": "en"}])
OUTCOMES: dict[str, dict[str, Any]] = {
    "success": {"exit_code": 0, "output": "out"},
    "failure": {"exit_code": 1, "stderr": "err"},
    "wrong": {"exit_code": 64},
    "timeout": {"exit_code": None, "reason": "timed out after 1 s"},
    "put back": {"exit_code": None, "reason": "stopped", "state": State.PENDING},
    "cancelled": {"exit_code": None, "reason": "not wanted", "state": State.CANCELLED},
}


class Machine(RuleBasedStateMachine):
    def __init__(self, database: str) -> None:
        super().__init__()
        self.clock = SetClock()
        self.database = database
        self.connections = [open_database(database, self.clock) for _ in range(2)]
        self.own: dict[str, Storage] = {}  # by worker, its connection
        self.identities: dict[str, Worker] = {}  # by worker, what it says of itself when it joins
        self.home = Home(os.path.join(tempfile.gettempdir(), "no-such-home"))
        self.model = Model(self.clock, BATCH)
        self.turn = 0
        self.names = 0
        self.in_hand: dict[str, Job] = {}  # by worker
        self.late: list[Job] = []  # in hand of workers that were taken for dead

    @property
    def storage(self) -> Storage:
        self.turn += 1
        return self.connections[self.turn % len(self.connections)]

    def new_name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def pick(self, number: int) -> int | None:
        seqs = sorted(self.model.rows)
        return seqs[number % len(seqs)] if seqs else None

    def picked(self, numbers: Sequence[int]) -> list[int]:
        return list(dict.fromkeys(seq for seq in map(self.pick, numbers) if seq is not None))

    def glances(self, seqs: Sequence[int]) -> list[Job]:
        return [self.storage.glance(self.model.facts[seq].id) for seq in seqs]

    # --- handing in ---

    def new(self, given: dict[str, Any], **fields: Any) -> NewJob:
        values = {name: value for name, value in given.items() if name != "delay"}
        delay = given["delay"]
        return new_job(**values, run_at=None if delay is None else self.clock.now() + delay * 1000, **fields)

    def add(self, new: Sequence[NewJob], needs: Sequence[dict[int, str]], environment: dict[str, str] | None) -> None:
        """What the storage should do with these jobs, and what the model makes of it."""
        facts = [
            Facts(
                job.id or "",
                job.unique_key,
                job.label,
                job.max_retries,
                job.backoff_base,
                tuple(map(int, job.no_retry_on.split(","))) if job.no_retry_on else (),
                bool(job.no_rerun),
            )
            for job in new
        ]
        stored = [place for place, _ in self.model.without_doubles(list(enumerate(facts)))]
        unknown = {new[place].queue for place in stored}.difference(self.model.line.named)
        if unknown:
            with pytest.raises(QueueNotFound):
                self.storage.add(new, environment)
            return
        added = self.storage.add(new, environment)
        assert [place for place, one in enumerate(added) if one.is_new] == stored
        by_key = {facts[place].key: added[place].seq for place in stored}
        for place, one in enumerate(added):
            if place not in stored:
                assert one.seq == self.model.owner_of(facts[place].key) or one.seq == by_key[facts[place].key]
        offset = self.clock.wall_offset
        taken, places = {}, {}
        for place in stored:
            seq, job = added[place].seq, new[place]
            facts[place].id = added[place].id
            taken[seq] = facts[place]
            places[seq] = (job.priority, None if job.run_at is None else job.run_at - offset, needs[place], job.queue)
        assert list(taken) == sorted(taken) and not any(seq in self.model.rows for seq in taken)
        self.model.enqueue(taken, places)

    @rule(job=jobs, environment=environments)
    def enqueue(self, job: dict[str, Any], environment: dict[str, str] | None) -> None:
        self.add([self.new(job)], [{}], environment)

    @rule(many=st.lists(jobs, min_size=2, max_size=4))
    def enqueue_many(self, many: list[dict[str, Any]]) -> None:
        self.add([self.new(job) for job in many], [{}] * len(many), SAME)

    @rule(job=jobs, wanted=st.dictionaries(which, wanted, min_size=1, max_size=3))
    def enqueue_after(self, job: dict[str, Any], wanted: dict[int, str]) -> None:
        needs = {seq: how for number, how in wanted.items() if (seq := self.pick(number)) is not None}
        named = tuple(Need(self.model.facts[seq].id, how) for seq, how in needs.items())
        self.add([self.new(job, needs=named)], [needs], SAME)

    @rule(first=jobs, then=st.lists(st.tuples(jobs, wanted), min_size=1, max_size=3))
    def enqueue_chain(self, first: dict[str, Any], then: list[tuple[dict[str, Any], str]]) -> None:
        """Each waits for the one before it, and all come at once."""
        ids = [self.new_name("chain-") for _ in range(1 + len(then))]
        before = [()] + [(Need(job_id, how),) for job_id, (_, how) in zip(ids, then)]
        chain = [first, *(job for job, _ in then)]
        new = [
            self.new(dict(job, unique_key=None), id=job_id, needs=needs)
            for job, job_id, needs in zip(chain, ids, before)
        ]
        seq = self.storage.counters()[1]  # numbers are given in order
        needs = [{}] + [{seq + place: how} for place, (_, how) in enumerate(then, 1)]
        self.add(new, needs, SAME)

    @rule(number=which)
    def enqueue_what_is_refused(self, number: int) -> None:
        seq = self.pick(number)
        if seq is not None:
            with pytest.raises(DuplicateJob):
                self.storage.add([new_job(), new_job(id=self.model.facts[seq].id)])
            self.has_refused()
        with pytest.raises(JobNotFound):
            self.storage.add([new_job(), new_job(needs=(Need("nobody", "any"),))])
        self.has_refused()

    def has_refused(self) -> None:
        """On a server the tick comes from a sequence, which takes no number back: all who wait are a tick older."""
        if self.storage.is_shared:
            for row in self.model.line._waiting():
                row.enqueues += 1

    # --- workers ---

    @precondition(lambda self: len(self.model.workers) < 4)
    @rule(serves=st.sampled_from([None, None, {"default"}, {"gpu", "mail"}]))
    def start_worker(self, serves: set[str] | None) -> None:
        name = self.new_name("w-")
        now = self.clock.now()
        served = ",".join(sorted(serves)) if serves else None
        self.identities[name] = Worker(name, 1, "start", "this boot", "", "host", now, now, 0, None, served)
        self.storage.add_worker(self.identities[name])
        self.model.workers[name] = None if serves is None else frozenset(serves)
        self.own[name] = open_database(self.database, self.clock)
        self.own[name].serves = self.model.workers[name]

    def claimed(self, worker: str, job: Job | None, expected: Any) -> None:
        assert (job and job.seq) == (expected and expected.seq)
        if job:
            facts = self.model.facts[job.seq]
            assert (job.lease, job.attempts, job.worker) == (facts.lease, facts.attempts, worker)
            self.in_hand[worker] = job

    @precondition(lambda self: len(self.in_hand) < len(self.model.workers))
    @rule(number=which)
    def claim(self, number: int) -> None:
        idle = [name for name in self.model.workers if name not in self.in_hand]
        worker = idle[number % len(idle)]
        storage = self.own[worker]
        had_work = storage.has_work()
        job = storage.claim(worker)
        self.claimed(worker, job, self.model.claim(worker))
        assert had_work or job is None, "an idle worker would have slept on"

    @rule(number=which, how=ends, millis=st.sampled_from([0, 5, 2_500]))
    def run(self, number: int, how: str, millis: int) -> None:
        """Claim a job and finish it."""
        if len(self.in_hand) < len(self.model.workers):
            self.claim(number)
        if self.in_hand:
            self.clock.pass_seconds(millis / 1000)
            self.finish(len(self.in_hand) - 1, how, goes_on=False)

    @precondition(lambda self: self.in_hand)
    @rule(number=which, how=ends, goes_on=st.booleans())
    def finish(self, number: int, how: str, goes_on: bool) -> None:
        worker = list(self.in_hand)[number % len(self.in_hand)]
        job = self.in_hand.pop(worker)
        ran = (self.clock.steady() - self.model.facts[job.seq].started_at) / 1000
        outcome = Outcome(duration_seconds=ran, **OUTCOMES[how])
        following = self.own[worker].finish(job, outcome, worker if goes_on else None)
        as_put = {"wrong": "failure", "timeout": "failure"}.get(how, how)
        expected = self.model.finish(job.seq, as_put, outcome.exit_code, worker if goes_on else None)
        self.claimed(worker, following, expected)

    @precondition(lambda self: self.late)
    @rule(number=which, how=ends, is_judge=st.booleans())
    def finish_late(self, number: int, how: str, is_judge: bool) -> None:
        """Somebody comes back whose lease is no longer current; or two find the same worker dead."""
        job = self.late[number % len(self.late)]
        with pytest.raises(LeaseLost):
            if is_judge:
                self.storage.lose(job, rebooted=False)
            else:
                self.storage.finish(job, Outcome(duration_seconds=1.0, **OUTCOMES[how]), "late")

    @precondition(lambda self: self.model.workers)
    @rule(number=which, is_restart=st.sampled_from([False, False, True]))
    def lose_workers(self, number: int, is_restart: bool) -> None:
        """One of them dies, or the machine is restarted."""
        workers = list(self.model.workers)
        for worker in workers if is_restart else [workers[number % len(workers)]]:
            self.lose(worker, "rebooted" if is_restart else "lost")
        self.start_worker(None)

    def lose(self, worker: str, how: str) -> None:
        self.bury(worker, how)
        del self.model.workers[worker]
        self.own.pop(worker).close()

    def bury(self, worker: str, how: str) -> None:
        """Somebody takes the worker for dead: its job is put back, and its row is removed."""
        held = self.storage.held_by(worker)
        assert [job.seq for job in held] == self.model.held_by(worker)
        [judged] = [row for row in self.storage.workers() if row.name == worker]
        for job in held:
            verdict = self.storage.lose(job, how == "rebooted", judged)
            self.model.conclude(job.seq, how)
            assert verdict.state.value == self.model.rows[job.seq].state
        if worker in self.in_hand:
            self.late.append(self.in_hand.pop(worker))
        assert self.storage.remove_dead(judged)
        self.model.stopping.pop(worker, None)
        assert not self.storage.heartbeat(worker, 1)

    @precondition(lambda self: self.model.workers)
    @rule(number=which, is_recovered=st.booleans())
    def claim_without_being_known(self, number: int, is_recovered: bool) -> None:
        """A worker that was taken for dead claims once more before it hears of that, and then joins again."""
        worker = list(self.model.workers)[number % len(self.model.workers)]
        self.bury(worker, "lost")
        self.claimed(worker, self.own[worker].claim(worker), self.model.claim(worker))
        held = [self.in_hand[worker].seq] if worker in self.in_hand else []
        assert [job.seq for job in self.storage.orphans()] == held
        if held and is_recovered:
            job = self.in_hand.pop(worker)
            self.storage.lose(job, rebooted=False)
            self.model.conclude(job.seq, "lost")
            self.late.append(job)
            held = []
        self.storage.add_worker(self.identities[worker])
        assert [job.seq for job in self.own[worker].held_by(worker)] == held
        assert self.storage.orphans() == []

    @precondition(lambda self: self.model.workers)
    @rule(number=which, grace_seconds=st.sampled_from([0.0, 30.0]))
    def ask_to_stop(self, number: int, grace_seconds: float) -> None:
        worker = list(self.model.workers)[number % len(self.model.workers)]
        self.storage.ask_to_stop(worker, grace_seconds)
        self.model.stopping[worker] = grace_seconds

    @precondition(lambda self: len(self.in_hand) < len(self.model.workers))
    @rule(number=which)
    def stop_worker(self, number: int) -> None:
        """One that has nothing in hand leaves; another comes."""
        idle = [name for name in self.model.workers if name not in self.in_hand]
        worker = idle[number % len(idle)]
        self.own[worker].remove_worker(worker)
        self.own.pop(worker).close()
        del self.model.workers[worker]
        self.model.stopping.pop(worker, None)
        self.start_worker(None)

    # --- what people do ---

    @rule(what=st.sampled_from(["cancel", "cancel", "retry", "retry", "delete"]), chosen=some)
    def change_jobs(self, what: str, chosen: list[int]) -> None:
        seqs = self.picked(chosen)
        {"cancel": self.cancel, "retry": self.retry, "delete": self.delete}[what](seqs)

    def cancel(self, seqs: list[int]) -> None:
        assert self.storage.cancel_all(self.glances(seqs), "not wanted") == self.model.cancel(seqs, "not wanted")

    def retry(self, seqs: list[int]) -> None:
        assert self.storage.retry(self.glances(seqs)) == self.model.retry(seqs)

    def delete(self, seqs: list[int]) -> None:
        ids = [self.model.facts[seq].id for seq in seqs]
        deleted = [job.seq for job in self.storage.delete(self.glances(seqs))]
        assert deleted == self.model.delete(seqs)
        for seq, job_id in zip(seqs, ids):
            if seq in deleted:
                with pytest.raises(JobNotFound):
                    self.storage.glance(job_id)

    @rule(
        number=which,
        changes=st.dictionaries(st.sampled_from(["priority", "label", "max_retries", "queue"]), st.integers(1, 10)),
        delay=delays,
    )
    def edit(self, number: int, changes: dict[str, Any], delay: int | None) -> None:
        seq = self.pick(number)
        if seq is None:
            return
        if "label" in changes:
            changes["label"] = "edited"
        if "queue" in changes:
            changes["queue"] = QUEUES[changes["queue"] % len(QUEUES)]
        [job] = self.glances([seq])
        run_at = {} if delay is None else {"run_at": self.clock.now() + delay * 1000}
        refusal = self.refusal_to_edit(seq, changes.get("queue", "default"))
        if refusal:
            with pytest.raises(refusal):
                self.storage.edit(job, {**changes, **run_at})
        else:
            self.storage.edit(job, {**changes, **run_at})
            self.model.edit(seq, None if delay is None else self.clock.steady() + delay * 1000, **changes)

    def refusal_to_edit(self, seq: int, queue: str) -> type[QueueError] | None:
        if self.model.rows[seq].state not in ("pending", "failed"):
            return WrongState
        return None if queue in self.model.line.named else QueueNotFound

    @rule(number=which)
    def promote(self, number: int) -> None:
        seq = self.pick(number)
        if seq is None:
            return
        row = self.model.rows[seq]
        [job] = self.glances([seq])
        if row.state in ("pending", "failed") and not row.needs:
            self.storage.promote(job)
            self.model.line.promote(self.clock.steady(), seq)
        else:
            with pytest.raises(WrongState):
                self.storage.promote(job)

    @rule()
    def tidy(self) -> None:
        tidy(self.storage, self.home)
        self.model.tidy()

    # --- queues, settings, recurring jobs ---

    @rule(name=queues, change=changes)
    def change_queue(self, name: str, change: tuple[str, Any]) -> None:
        what, value = change
        {"add": self.add_queue, "remove": self.remove_queue}.get(what, lambda name: self.set_queue(name, what, value))(
            name
        )

    def add_queue(self, name: str) -> None:
        if name in self.model.line.named:
            with pytest.raises(DuplicateQueue):
                self.storage.add_queue(QueueRow(name))
        else:
            self.storage.add_queue(QueueRow(name))
            self.model.add_queue(name)

    def set_queue(self, name: str, what: str, value: Any) -> None:
        if name not in self.model.line.named:
            with pytest.raises(QueueNotFound):
                self.storage.set_queue(name, **{what: value})
            return
        self.storage.set_queue(name, **{what: value})
        if what == "rate_text":
            self.model.set_rate(name, parse_rate(value or ""))
        else:
            setattr(self.model.line.named[name], what, value)

    def remove_queue(self, name: str) -> None:
        if name in self.model.line.named and name != "default" and not self.model.is_in_use(name):
            self.storage.remove_queue(name)
            self.model.remove_queue(name)
        else:
            with pytest.raises((WrongState, QueueNotFound)):
                self.storage.remove_queue(name)

    @rule(setting=st.sampled_from(SETTINGS))
    def set_setting(self, setting: tuple[str, str | None]) -> None:
        name, value = setting
        self.storage.set_setting(name, value)
        if name == "aging":
            self.model.line.aging = parse_aging(value or "")
        elif name == "rate":
            self.model.set_rate("*", parse_rate(value or ""))
        elif name == "max_backoff":
            self.model.max_backoff = float(value or 0)
        else:
            self.model.keep_completed = {"forever": None, "0s": 0, "1h": 3600}[value or ""]

    @precondition(lambda self: len(self.model.schedules) < 3)
    @rule(
        every=st.sampled_from([1, 30, 3600]),
        queue=queues,
        key=st.sampled_from([None, None, "red"]),
        may_overlap=st.booleans(),
        missed=st.sampled_from([recurring.RUN_ONCE, recurring.SKIP]),
    )
    def add_schedule(self, every: int, queue: str, key: str | None, may_overlap: bool, missed: str) -> None:
        name = self.new_name("every-")
        fields = {"command": "true", "priority": 7, "queue": queue, "unique": key, "max_retries": 1}
        arguments = (name, Rule(None, every, ""), fields, new_job(7, queue=queue), {"LANG": "fr"}, missed, may_overlap)
        if queue not in self.model.line.named:
            with pytest.raises(QueueNotFound):
                recurring.add(self.storage, *arguments)
            return
        recurring.add(self.storage, *arguments)
        self.model.schedules[name] = Recurring(
            every * 1000,
            self.clock.steady() + every * 1000,
            Facts("", key, max_retries=1),
            7,
            queue,
            may_overlap,
            missed == recurring.SKIP,
        )

    @rule()
    def let_come_what_is_due(self) -> None:
        due = {name for name in self.model.schedules if self.model.is_due(name)}
        occurred = recurring.enqueue_due(self.storage)
        assert {one.schedule for one in occurred} == due
        for one in occurred:
            facts = self.model.occur(one.schedule)
            assert (one.job is None) == (facts is None) == (one.note is not None)
            if one.job and facts:
                self.model.has_occurred(one.schedule, one.job.seq, facts)

    @precondition(lambda self: self.model.schedules)
    @rule(number=which, what=st.sampled_from(["pause", "resume", "run", "remove"]))
    def change_schedule(self, number: int, what: str) -> None:
        name = sorted(self.model.schedules)[number % len(self.model.schedules)]
        schedule = self.model.schedules[name]
        if what == "pause":
            self.storage.pause_schedule(name)
            schedule.is_paused = True
        elif what == "resume":
            recurring.resume(self.storage, name)
            if schedule.is_paused:
                schedule.is_paused = False
                passed = (self.clock.steady() - schedule.next_at) // schedule.every
                schedule.next_at += (passed + 1) * schedule.every
        elif what == "remove":
            self.storage.remove_schedule(name)
            del self.model.schedules[name]
        elif facts := self.model.job_of(schedule):
            self.model.has_occurred(name, recurring.run_now(self.storage, name).seq, facts)
        else:
            with pytest.raises(QueueError):
                recurring.run_now(self.storage, name)

    # --- time ---

    @rule(millis=st.sampled_from([1, 50, 100, 1_000, 2_000, 30_000, 3_600_000, 3 * DAY * 1000]))
    def time_passes(self, millis: int) -> None:
        self.clock.pass_seconds(millis / 1000)

    @rule(seconds=st.sampled_from([-4 * DAY, -3600, -2, 2, 90, 3600, 4 * DAY]))
    def the_clock_is_set(self, seconds: int) -> None:
        if self.storage.is_shared:
            return  # the server's clock is not ours to set
        self.clock.be_set(seconds)
        for storage in (*self.connections, *self.own.values()):
            storage.heartbeat("nobody", 0)  # the first mends what is stored, and all know of it
        self.model.clock_was_set(seconds * 1000)

    # --- what must be true after each step ---

    @initialize(many=st.lists(jobs, min_size=3, max_size=5))
    def begin(self, many: list[dict[str, Any]]) -> None:
        for name in ("gpu", "mail"):
            self.add_queue(name)
        self.start_worker(None)
        self.start_worker({"gpu", "mail"})
        self.enqueue_many(many)

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        self.each_job_is_what_the_model_says()
        self.the_line_is_in_the_order_of_the_naive_rule()
        self.the_totals_are_what_there_is()
        self.the_workers_are_those_that_joined()
        self.the_history_of_a_job_is_whole()
        assert check(self.storage).problems == []

    def each_job_is_what_the_model_says(self) -> None:
        found = {job.seq: job for job in self.storage.jobs(None, 1_000)}
        assert list(found) == sorted(self.model.rows, reverse=True)
        for seq, row in self.model.rows.items():
            job, facts = found[seq], self.model.facts[seq]
            assert (job.state, job.queue, job.priority, job.waits_for) == (
                row.state,
                row.queue,
                row.priority,
                len(row.needs),
            )
            assert (job.id, job.unique_key, job.label, job.max_retries) == (
                facts.id,
                facts.key,
                facts.label,
                facts.max_retries,
            )
            assert (job.lease, job.attempts, job.lost, job.cancel_reason) == (
                facts.lease,
                facts.attempts,
                facts.lost,
                facts.cancel_reason,
            )
            is_waiting = row.state not in (*ENDED, "processing")
            due_at = row.due_at if is_waiting and not row.needs else None
            assert job.due_at == (None if due_at is None else due_at + self.clock.wall_offset)
            assert (job.rank is not None) == (is_waiting and not row.needs and due_at is None)

    def the_line_is_in_the_order_of_the_naive_rule(self) -> None:
        line = self.model.line
        line._bump_by_the_clock(self.clock.steady())
        expected = [*line.in_line(), *line.waiting_for_their_time()]
        expected += sorted((row for row in line.all_waiting() if row.needs), key=lambda row: row.seq)
        storage = self.storage
        found: list[Job] = []
        cursor: str | None = ""
        while cursor is not None:
            jobs, cursor = storage.page(PAGE, State.PENDING, cursor=cursor)
            found += jobs
        assert [job.seq for job in found] == [row.seq for row in expected]
        for job, row in zip(found, expected):
            assert job.effective_priority == (int(line.effective(row)) if row.entered else row.priority)
            if job.since_tick is not None and job.since_at is not None:
                waited = (storage.counters()[0] - job.since_tick, self.clock.now() - job.since_at)
                assert waited == (row.enqueues, row.millis)
        in_line = [job for job in found if job.rank is not None]
        if in_line:
            place = self.turn % len(in_line)
            mine = in_line[place]
            rivals = [job for job in in_line[:place] if job.queue == mine.queue or not line.named[job.queue].is_paused]
            assert storage.ahead(mine.rank or 0, mine.seq, mine.queue) == len(rivals)

    def the_totals_are_what_there_is(self) -> None:
        for queue, counts in self.storage.totals_by_queue().items():
            assert {name: count for name, count in counts.items() if count} == self.model.totals(queue)

    def the_workers_are_those_that_joined(self) -> None:
        stopping = self.model.stopping
        expected = {name: stopping.get(name) for name in self.model.workers}
        assert {worker.name: worker.stop_grace for worker in self.storage.workers()} == expected
        for name, storage in self.own.items():
            assert storage.stop_grace(name) == expected[name]
        for name, job in self.in_hand.items():
            assert self.own[name].cancel_reason(job) == self.model.facts[job.seq].cancel_reason

    def the_history_of_a_job_is_whole(self) -> None:
        seq = self.pick(self.turn)
        if seq is not None:
            [job] = self.glances([seq])
            assert [(run.lease, run.outcome) for run in self.storage.runs_of(job)] == self.model.facts[seq].history
            needs = {need.id for need in self.storage.needs_of(job) if not need.is_met}
            row = self.model.rows[seq]
            if row.state == "pending":
                assert needs == {self.model.facts[need].id for need in row.needs}

    def teardown(self) -> None:
        for connection in (*self.connections, *self.own.values()):
            connection.close()


def run(new_database: Callable[[], str], examples: int, steps: int, **more: Any) -> None:
    steps = 100 if MANY else steps
    settings = budget(examples, stateful_step_count=steps, **more)
    with mock.patch.object(storage_queues, "DUE_BATCH", BATCH):
        run_state_machine_as_test(lambda: Machine(new_database()), settings=settings)


def test_any_operations_in_any_order_leave_what_a_plain_model_says() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        made = iter(range(1_000_000))
        run(lambda: f"sqlite:///{directory}/{next(made)}.db", 40 if os.name == "posix" else 5, 40)


def test_and_so_they_do_on_a_server(new_database: Callable[[], str]) -> None:
    """Each try takes a database of its own there, so there are fewer of them, and what fails is not shrunk."""
    run(new_database, 8, 30, part=40, phases=[Phase.generate])
