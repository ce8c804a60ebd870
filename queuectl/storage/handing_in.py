"""Adding jobs: they are stored, all or none, with the dependencies between them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from queuectl.errors import DuplicateJob, InvalidInput, JobNotFound, WrongState
from queuectl.job import DEFAULT_QUEUE, HIGHEST_PRIORITY, Need, NewJob, State
from queuectl.storage.acts import Acts
from queuectl.storage.schedules import Schedule, Schedules
from queuectl.storage.transactions import USE_MILLIS, Collision, Counts, Moment, insistent, no_counts
from queuectl.times import Millis

NOWHERE = {"rank": None, "since_tick": None, "since_at": None, "due_at": None}
UNCHAINED = {"waits_for": 0, "dependents": 0, "after_id": None, "after_state": None, "after_exit_code": None}


class Added(NamedTuple):
    """A stored job; without a rank it waits for its run_at, or for other jobs."""

    seq: int
    id: str
    rank: int | None
    is_new: bool = True  # False: this is an earlier job that holds the same unique key
    queue: str = DEFAULT_QUEUE


class Occurrence(NamedTuple):
    """The result of a schedule's occurrence: the job, or a note that says why there is none."""

    schedule: str
    job: Added | None
    note: str | None


class Edge(NamedTuple):
    """A dependency of a new job: its row, the needed job's row, how that job must end, and its current state."""

    row: dict[str, Any]
    needed: dict[str, Any]
    need: Need
    state: State

    @property
    def is_met(self) -> bool:
        return self.need.is_met(self.state)


class HandingIn(Acts, Schedules):
    @insistent
    def add(self, jobs: Sequence[NewJob], environment: Mapping[str, str] | None = None) -> list[Added]:
        """Store jobs, all or none, as one enqueue: they share one tick of the aging clock.

        A job whose unique key is held by a waiting or running job is not stored; the holder is returned in its place.
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
        return [
            one
            if isinstance(one, Added)
            else added(rows[one])
            if one >= 0
            else added(rows[~one])._replace(is_new=False)
            for one in stands_for
        ]

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
        # Insert the ids that users chose first: a generated number must not take one of them.
        chosen = [row for new, row in zip(jobs, rows) if new.id is not None]
        chosen.sort(key=itemgetter("id"))  # two transactions that insert the same ids must not deadlock
        numbered = [row for new, row in zip(jobs, rows) if new.id is None]
        if self.run_many("add", chosen) + self.run_many("add", numbered) < len(rows):
            self._renumber(jobs, rows)
        for row in rows:
            changes = counts[row["queue"]]
            changes["pending"] += 1
            changes["event_enqueued"] += 1
        # A scheduled job wakes a worker, too: it may be due before the time until which all workers sleep.
        self.entered += sum(row["rank"] is not None for row in rows) + any(row["due_at"] is not None for row in rows)
        self._tie(edges, moment, counts)
        return rows

    def _without_doubles(self, jobs: Sequence[NewJob]) -> tuple[Sequence[NewJob], Sequence[Added | int]]:
        """The jobs to store; and for each given job its index among them, or the stored job that holds its unique key.

        If another job of the same call holds the key, the entry is the complement (~) of that job's index.
        """
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
                    by_key[new.unique_key] = Added(row[0], row[1], row[2], False, row[3]) if row else len(stored)
                one = by_key[new.unique_key]
            stands_for.append(one)
            if one == len(stored):
                stored.append(new)
                if new.unique_key is not None:
                    by_key[new.unique_key] = ~one
        return stored, stands_for

    def _edges(self, jobs: Sequence[NewJob], rows: Sequence[dict[str, Any]]) -> list[Edge]:
        """The edges to stored jobs and to other jobs of this call; a job with an unmet need gets no rank."""
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
                needed, state, ended_at, exit_code = there.get(need.id) or (beside[need.id], State.PENDING, 0, None)
                edges.append(Edge(row, needed, need, state))
                if not need.is_met(state):
                    row.update(NOWHERE, waits_for=row["waits_for"] + 1)
                elif ended_at > ended_last:
                    row.update(after_id=need.id, after_state=state.value, after_exit_code=exit_code)
                    ended_last = ended_at
        return edges

    def _needed(self, dependents: Mapping[str, int]) -> dict[str, tuple[dict[str, Any], State, Millis, int | None]]:
        """Lock the needed jobs and raise their number of dependents; by id: row, state, finished_at, exit code."""
        numbers: dict[int, str] = {}
        for job_id in dependents:
            seq = self.one("seq_of", id=job_id)
            if seq is None:
                raise JobNotFound(job_id, self._nearest(job_id))
            numbers[seq] = job_id
        there: dict[str, tuple[dict[str, Any], State, Millis, int | None]] = {}
        for seq in sorted(numbers):  # one lock order, so that two transactions with the same needs do not deadlock
            job_id = numbers[seq]
            found = self.run("needed", seq=seq, dependents=dependents[job_id]).fetchone()
            if found is None:
                raise JobNotFound(job_id)
            there[job_id] = {"seq": seq}, State(found[0]), found[1] or 0, found[2]
        return there

    def _tie(self, edges: Sequence[Edge], moment: Moment, counts: Counts) -> None:
        """Store the edges; a job whose need has already ended in another way is cancelled at once."""
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
        """Take the occurrence of a schedule that is due: the first caller gets it, all others get None.

        Its job is enqueued, unless none could be made (the note says why), the job of the last occurrence has not
        ended and they may not overlap, or another job holds its unique key. A schedule without a next time is paused.
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
    def occur_now(self, name: str, job: NewJob) -> Added:
        """Enqueue a schedule's job once more, now; its next occurrence stays as it is."""
        counts = no_counts()
        with self.transaction() as moment:
            occurred = self._occur(self._held_schedule(name)._replace(note=None), job, moment, counts)
            if occurred.job is None:
                raise WrongState(f"Schedule {name!r} was not run: {occurred.note}. Wait for it")
        return occurred.job

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
            self.run("use_environment", hash=schedule.environment, used_at=self.latest_use(moment.now))
            [row] = self._store(stored, schedule.environment, moment, counts)
            self._count(counts)
            schedule = schedule._replace(last_at=moment.now, last_seq=row["seq"])
            new = added(row)
        self._move(schedule)
        return Occurrence(schedule.name, new, schedule.note)

    def _renumber(self, jobs: Sequence[NewJob], rows: list[dict[str, Any]]) -> None:
        """Handle ids that were taken: refuse those that a user chose, and give the other jobs the next free numbers."""
        for new, row in zip(jobs, rows):
            while self.one("seq_of", id=row["id"]) != row["seq"]:
                if new.unique_key and self.one("owner_of_key", unique_key=new.unique_key) is not None:
                    raise Collision(f"Another job with the key {new.unique_key!r} came at the same moment. Try again")
                if new.id is not None:
                    raise DuplicateJob(new.id)
                row["seq"] = self.next_number()
                row["id"] = str(row["seq"])
                self.run_many("add", [row])

    def forget_environments(self) -> None:
        """Remove environments that were last used before the oldest stored job was added, and that no schedule uses."""
        now = self.clock.now()
        before = min(now, self.one("oldest_job") or now) - 2 * USE_MILLIS
        if self.one("old_environments", before=before) is not None:
            with self.transaction():
                self.run("forget_environments", before=before)


def added(row: Mapping[str, Any]) -> Added:
    return Added(row["seq"], row["id"], row["rank"], queue=row["queue"])


def refuse_circles(jobs: Sequence[NewJob]) -> None:
    """Refuse jobs of one call that wait for each other in a circle; their order does not matter."""
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter({new.id: [need.id for need in new.needs] for new in jobs if new.id}).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise InvalidInput(
            f"These jobs wait for each other in a circle: {circle}. Take one of them out of it"
        ) from None
