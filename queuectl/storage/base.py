"""The storage contract: everything that changes the queue, each in one transaction.

An engine adds only how to connect, how a transaction begins so that a claim is exclusive, and how to hear of changes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from queuectl.errors import DuplicateJob, InvalidInput, JobNotFound, LeaseLost
from queuectl.job import (
    DEFAULT_QUEUE,
    HIGHEST_PRIORITY,
    Job,
    Need,
    NewJob,
    Outcome,
    State,
    Verdict,
    after_loss,
    after_run,
    cancelled,
)
from queuectl.storage.history import History
from queuectl.storage.rows import Worker, as_job
from queuectl.storage.schedules import Schedule
from queuectl.storage.transactions import USE_MILLIS, Collision, Counts, Moment, insistent, no_counts
from queuectl.times import Millis

# Jobs that come due enter the line at most so many at a time, so that a wave of them stalls nobody.
DUE_BATCH = 1_000
NOWHERE = {"rank": None, "since_tick": None, "since_at": None, "due_at": None}
UNCHAINED = {"waits_for": 0, "dependents": 0, "woken_by": None}


class Added(NamedTuple):
    """A job that was stored: with no rank it waits for its time, or for others."""

    seq: int
    id: str
    rank: int | None
    is_new: bool = True  # or it stands for another that came before, under the same key
    queue: str = DEFAULT_QUEUE


class Occurrence(NamedTuple):
    """What came of an occurrence of a schedule: a job, or why none did."""

    schedule: str
    job: Added | None
    note: str | None


class Edge(NamedTuple):
    """A new job's row, the row of one that it waits for, how that must end, and what that is by now."""

    row: dict[str, Any]
    needed: dict[str, Any]
    need: Need
    state: State

    @property
    def is_met(self) -> bool:
        return self.need.is_met(self.state)


class Storage(History):
    # --- handing in ---

    @insistent
    def add(self, jobs: Sequence[NewJob], environment: Mapping[str, str] | None = None) -> list[Added]:
        """Store jobs, all or none, as one enqueue: they share one tick of the aging clock.

        In the place of a job whose key another one waits or runs under stands that other one.
        """
        if not jobs:
            return []
        counts = no_counts()
        rows: list[dict[str, Any]] = []
        with self.transaction() as moment:
            self._admit(moment)
            stored, stands_for = self._without_doubles(jobs)
            if stored:
                rows = self._store(stored, self.keep_environment(environment, moment.now), moment, counts)
                self._count(counts)
        return [one if isinstance(one, Added) else added(rows[one]) for one in stands_for]

    def _store(
        self, jobs: Sequence[NewJob], environment: str | None, moment: Moment, counts: Counts
    ) -> list[dict[str, Any]]:
        now, aging = moment.now, moment.aging
        for name in {new.queue for new in jobs}.difference(self.known_queues):
            raise self.no_queue(name)
        tick, numbers = self.new_numbers(len(jobs))
        common = {"environment": environment, "now": now, **UNCHAINED}
        in_line = [
            {"rank": aging.rank(priority, tick, now), "since_tick": tick, "since_at": now, "due_at": None}
            for priority in range(HIGHEST_PRIORITY + 1)
        ]
        rows: list[dict[str, Any]] = []
        for seq, new in zip(numbers, jobs):
            is_due = new.run_at is None or new.run_at <= now
            place = in_line[new.priority] if is_due else {**NOWHERE, "due_at": new.run_at}
            rows.append({**new._asdict(), **common, **place, "seq": seq, "id": new.id or str(seq)})
        edges = self._edges(jobs, rows) if any(new.needs for new in jobs) else []
        # Names that users chose come first: a number that we give must not take one of them.
        chosen = [row for new, row in zip(jobs, rows) if new.id is not None]
        chosen.sort(key=itemgetter("id"))  # two who choose the same names must not wait for each other
        numbered = [row for new, row in zip(jobs, rows) if new.id is None]
        if self.run_many("add", chosen) + self.run_many("add", numbered) < len(rows):
            self._renumber(jobs, rows)
        for row in rows:
            changes = counts[row["queue"]]
            changes["pending"] += 1
            changes["event_enqueued"] += 1
        # Of those that wait for their time somebody who sleeps must know, too: one of them may be the next that comes.
        self.entered += sum(row["rank"] is not None for row in rows) + any(row["due_at"] is not None for row in rows)
        self._tie(edges, moment, counts)
        return rows

    def _without_doubles(self, jobs: Sequence[NewJob]) -> tuple[Sequence[NewJob], Sequence[Added | int]]:
        """The jobs that are to be stored; and for each that was handed in its place among them, or who has its key."""
        if not any(new.unique_key for new in jobs):
            return jobs, range(len(jobs))
        stored: list[NewJob] = []
        stands_for: list[Added | int] = []
        by_key: dict[str, Added | int] = {}
        for new in jobs:
            if new.unique_key is None:
                one: Added | int = len(stored)
            else:
                if new.unique_key not in by_key:
                    row = self.run("owner_of_key", unique_key=new.unique_key).fetchone()
                    by_key[new.unique_key] = Added(row[0], row[1], row[2], False) if row else len(stored)
                one = by_key[new.unique_key]
            stands_for.append(one)
            if one == len(stored):
                stored.append(new)
        return stored, stands_for

    def _edges(self, jobs: Sequence[NewJob], rows: Sequence[dict[str, Any]]) -> list[Edge]:
        """What each job waits for, among those that are there and those that come with it; who waits is in no line."""
        refuse_circles(jobs)
        beside = {new.id: row for new, row in zip(jobs, rows) if new.id is not None}
        wanted = Counter(need.id for new in jobs for need in new.needs)
        there = self._needed({job_id: count for job_id, count in wanted.items() if job_id not in beside})
        for job_id, row in beside.items():
            row["dependents"] = wanted[job_id]
        edges: list[Edge] = []
        for new, row in zip(jobs, rows):
            ended_last = -1
            for need in new.needs:
                needed, state, ended_at = there.get(need.id) or (beside[need.id], State.PENDING, 0)
                edges.append(Edge(row, needed, need, state))
                if not need.is_met(state):
                    row.update(NOWHERE, waits_for=row["waits_for"] + 1)
                elif ended_at > ended_last:
                    row["woken_by"], ended_last = needed["seq"], ended_at
        return edges

    def _needed(self, dependents: Mapping[str, int]) -> dict[str, tuple[dict[str, Any], State, Millis]]:
        """By id the jobs that so many more are to wait for, what they are by now, and when they ended."""
        numbers: dict[int, str] = {}
        for job_id in dependents:
            seq = self.one("seq_of", id=job_id)
            if seq is None:
                raise JobNotFound(job_id, self._nearest(job_id))
            numbers[seq] = job_id
        there: dict[str, tuple[dict[str, Any], State, Millis]] = {}
        for seq in sorted(numbers):  # in one order, so that two who wait for the same do not wait for each other
            job_id = numbers[seq]
            found = self.run("needed", seq=seq, dependents=dependents[job_id]).fetchone()
            if found is None:
                raise JobNotFound(job_id)
            there[job_id] = {"seq": seq}, State(found[0]), found[1] or 0
        return there

    def _tie(self, edges: Sequence[Edge], moment: Moment, counts: Counts) -> None:
        """Store who waits for whom; who waits for what has ended otherwise is cancelled, as it would be later."""
        facts = [
            dict(seq=edge.row["seq"], needs=edge.needed["seq"], wanted=edge.need.wanted, is_met=int(edge.is_met))
            for edge in edges
        ]
        self.run_many("add_dependency", facts)
        for needs, job_id, state in {
            (edge.needed["seq"], edge.need.id, edge.state) for edge in edges if edge.state.has_ended and not edge.is_met
        }:
            self._settle(needs, job_id, state, moment, counts)

    @insistent
    def occur(
        self, schedule: Schedule, following_at: Millis | None, job: NewJob | None, note: str | None = None
    ) -> Occurrence | None:
        """The occurrence of a schedule that is due: of the first who comes, and None for all others.

        A job is enqueued, unless there is none to be made of it, as the note says, or that of the last occurrence has
        not ended and they may not overlap. Where no other follows, the schedule is paused.
        """
        counts = no_counts()
        with self.transaction() as moment:
            row = self.run("hold_schedule", name=schedule.name).fetchone()
            held = None if row is None else Schedule(*row)
            if held is None or held.is_paused or held.next_at != schedule.next_at:
                return None
            paused, next_at = (1, held.next_at) if following_at is None else (0, following_at)
            return self._occur(held._replace(is_paused=paused, next_at=next_at, note=note), job, moment, counts)

    @insistent
    def occur_now(self, name: str, job: NewJob) -> Occurrence:
        """One more occurrence of a schedule, whatever its time."""
        counts = no_counts()
        with self.transaction() as moment:
            return self._occur(self._held_schedule(name)._replace(note=None), job, moment, counts)

    def _occur(self, schedule: Schedule, job: NewJob | None, moment: Moment, counts: Counts) -> Occurrence:
        last = None if schedule.last_seq is None else self.glance_at(schedule.last_seq)
        stored: Sequence[NewJob] = ()
        if job is not None and last is not None and not last.state.has_ended and not schedule.may_overlap:
            schedule = schedule._replace(note=f"the job of the last one, {last.id}, has not ended")
        elif job is not None:
            stored, _ = self._without_doubles([job._replace(queue=self._queue_of(job))])
            if not stored:
                schedule = schedule._replace(note=f"another job waits or runs under its key {job.unique_key!r}")
        new = None
        if stored:
            self.run("use_environment", hash=schedule.environment, now=moment.now)
            [row] = self._store(stored, schedule.environment, moment, counts)
            self._count(counts)
            schedule = schedule._replace(last_at=moment.now, last_seq=row["seq"])
            new = added(row)
        self._move(schedule)
        return Occurrence(schedule.name, new, schedule.note)

    def forget_environments(self) -> None:
        """Remove those that were last used before any job came that is still there, and by no schedule."""
        now = self.clock.now()
        before = min(now, self.one("oldest_job") or now) - 2 * USE_MILLIS
        if self.one("old_environments", before=before) is not None:
            with self.transaction():
                self.run("forget_environments", before=before)

    def _renumber(self, jobs: Sequence[NewJob], rows: list[dict[str, Any]]) -> None:
        """Some ids were taken. Those that a user chose are refused; the others get the next number that is free."""
        for new, row in zip(jobs, rows):
            while self.one("seq_of", id=row["id"]) != row["seq"]:
                if new.unique_key and self.one("owner_of_key", unique_key=new.unique_key) is not None:
                    raise Collision(f"Another job with the key {new.unique_key!r} came at the same moment. Try again")
                if new.id is not None:
                    raise DuplicateJob(new.id)
                row["seq"] = self.next_number()
                row["id"] = str(row["seq"])
                self.run_many("add", [row])

    def _admit(self, moment: Moment) -> None:
        if moment.due is not None and moment.due <= moment.now:
            self.run("admit", tick=moment.tick, now=moment.now, batch=DUE_BATCH, **moment.aging._asdict())

    @insistent
    def claim(self, worker: str) -> Job | None:
        """Take the job with the smallest rank; nobody else can have it while its lease is current."""
        with self.transaction(durable=False) as moment:
            counts = no_counts()
            job = self._claim(worker, moment, counts)
            self._count(counts)
        return job

    def _claim(self, worker: str, moment: Moment, counts: Counts) -> Job | None:
        self._admit(moment)
        row = self._take(worker, moment)
        if row is None:
            return None
        job = as_job(row)
        if job.lease > 1:
            self.run("keep_output", seq=job.seq)
            self.run("clear_output", seq=job.seq)
        changes = counts[job.queue]
        changes[job.was or ""] -= 1
        changes["processing"] += 1
        changes["event_started"] += 1
        return job

    @insistent
    def finish(self, job: Job, outcome: Outcome, next_for: str | None = None) -> Job | None:
        """Store what came of a run, if its lease is still current, and claim the next job in the same transaction."""
        with self.transaction(durable=False) as moment:
            counts = no_counts()
            verdict = after_run(job, outcome, moment.now, self.known_settings.max_backoff, chance_for(job))
            self._conclude(job, outcome, verdict, moment, counts)
            following = self._claim(next_for, moment, counts) if next_for else None
            self._count(counts)
        return following

    @insistent
    def lose(self, job: Job, rebooted: bool, worker: Worker | None = None) -> Verdict:
        """The job's worker died: put the job back, or make it dead if it takes its workers down with it.

        Refused where the worker was heard of since it was taken for dead, as it was found then; None: it was unknown.
        """
        with self.transaction() as moment:
            if self.one("heard_at", name=job.worker) != (worker and worker.heartbeat_at):
                raise LeaseLost(job.id, job.lease)
            counts = no_counts()
            outcome = Outcome(None, max(0, moment.now - (job.started_at or moment.now)) / 1000)
            verdict = self._conclude(job, outcome, after_loss(job, rebooted), moment, counts)
            self._count(counts)
        return verdict

    def _conclude(self, job: Job, outcome: Outcome, verdict: Verdict, moment: Moment, counts: Counts) -> Verdict:
        """Move the job to where the verdict says and write the run's row; refused where the lease is not current."""
        if not verdict.state.has_ended and (reason := self.one("cancel_asked", seq=job.seq)) is not None:
            verdict = cancelled(reason)
        assert job.started_at is not None and job.since_at is not None
        state = verdict.state.value
        facts: dict[str, Any] = {
            "seq": job.seq,
            "lease": job.lease,
            "now": moment.now,
            "state": state,
            "lost": verdict.lost,
            "duration_seconds": outcome.duration_seconds,
            "exit_code": outcome.exit_code,
            "error_message": verdict.error_message,
            "output": outcome.output,
            "stderr": outcome.stderr,
            "attempt": job.attempts,
            "worker": job.worker,
            "waited_seconds": max(0, job.started_at - job.since_at) / 1000,
            "started_at": job.started_at,
            "outcome": verdict.outcome,
        }
        dependents: int | None = job.dependents
        if verdict.state.has_ended:
            done = self.change("finish", dependents=dependents, **facts) > 0
            if not done:  # others have come to wait for it since it was claimed, or it is somebody else's
                dependents = self.one("dependents", seq=job.seq)
                done = self.change("finish", dependents=dependents, **facts) > 0
        else:
            facts.update(tick=moment.tick, run_at=verdict.run_at)
            if verdict.state is State.FAILED:
                done = self.change("back_off", **facts) > 0
            else:
                done = self.change("put_back", **moment.aging._asdict(), **facts) > 0
                self.entered += 1
        if not done:
            raise LeaseLost(job.id, job.lease)
        self.run("add_run", **facts)
        changes = counts[job.queue]
        changes["processing"] -= 1
        changes[state] += 1
        if verdict.state is not State.PENDING:
            changes[f"event_{state}"] += 1
        if self.is_limited(job.queue):
            self.entered += 1  # a place is free
        if verdict.state.has_ended and dependents:
            self._settle(job.seq, job.id, verdict.state, moment, counts)
        return verdict

    # --- workers ---

    def add_worker(self, worker: Worker) -> None:
        with self.transaction():
            self.run("add_worker", **worker._asdict())

    def heartbeat(self, name: str, processed: int) -> bool:
        """Say that the worker lives; False if it was taken for dead. Durable, so all commits before it are, too."""
        with self.transaction() as moment:
            return bool(self.change("heartbeat", name=name, processed=processed, now=moment.now))

    def ask_to_stop(self, name: str, grace_seconds: float) -> None:
        with self.transaction():
            self.run("ask_to_stop", name=name, stop_grace=grace_seconds)

    def remove_worker(self, name: str) -> None:
        with self.transaction():
            self.run("remove_worker", name=name)

    def remove_dead(self, worker: Worker) -> bool:
        """Unless it was heard of since it was taken for dead, as it was found then; or somebody else was first."""
        with self.transaction():
            return self.change("remove_dead", name=worker.name, heartbeat_at=worker.heartbeat_at) > 0


def chance_for(job: Job) -> float:
    if not job.jitter:
        return 0.0
    from random import random

    return random()


def added(row: Mapping[str, Any]) -> Added:
    return Added(row["seq"], row["id"], row["rank"], queue=row["queue"])


def refuse_circles(jobs: Sequence[NewJob]) -> None:
    """Jobs that come together may wait for each other in any order, but not in a circle."""
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter({new.id: [need.id for need in new.needs] for new in jobs if new.id}).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise InvalidInput(
            f"These jobs wait for each other in a circle: {circle}. Take one of them out of it"
        ) from None
