"""Operations on stored jobs: cancel, retry, delete, edit, promote; and the effect of a job's end on its dependents.

Each operation is one transaction, and its cost grows only with the number of jobs that it changes.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from queuectl.errors import WrongState
from queuectl.job import DEFAULT_QUEUE, Job, Need, NewJob, State
from queuectl.ranking import PROMOTED, before_all
from queuectl.storage.queues import Queues
from queuectl.storage.rows import as_job
from queuectl.storage.transactions import Counts, Moment, insistent, no_counts


class Needed(NamedTuple):
    """A job that another job waited for: its number, id and current state, and the end that the other job requires."""

    seq: int
    id: str
    state: str
    wanted: str

    @property
    def has_ended(self) -> bool:
        return State(self.state).has_ended

    @property
    def is_missed(self) -> bool:
        """Whether the needed job has ended in another way than required."""
        return self.has_ended and not Need(self.id, self.wanted).is_met(State(self.state))


class Acts(Queues):
    def _hold(self, job: Job) -> Job | None:
        """Read the job and lock its row until the transaction ends; None if the job no longer exists."""
        row = self.run("hold", seq=job.seq).fetchone()
        return None if row is None else as_job(row)

    def cancel(self, job: Job, reason: str) -> bool:
        """Cancel a waiting job at once; request the cancellation of a running one. False if the job has ended."""
        return self.cancel_all([job], reason) > 0

    @insistent
    def cancel_all(self, jobs: Sequence[Job], reason: str) -> int:
        """Cancel the jobs that have not ended; return how many, including dependents that are cancelled with them."""
        counts = no_counts()
        asked_for = 0
        with self.transaction() as moment:
            for job in jobs:
                held = self._hold(job)
                if held is None or held.state.has_ended:
                    continue
                if held.state is State.PROCESSING:
                    self.run("cancel_running", seq=job.seq, reason=reason, now=moment.now)
                    asked_for += 1
                    continue
                self._cancel_waiting(held.seq, held.queue, held.state, reason, moment, counts)
                if held.dependents:
                    self._settle(held.seq, held.id, State.CANCELLED, moment, counts)
            self._count(counts)
        return sum(changes["cancelled"] for changes in counts.values()) + asked_for

    def _cancel_waiting(self, seq: int, queue: str, state: State, reason: str, moment: Moment, counts: Counts) -> None:
        self.run("cancel_waiting", seq=seq, reason=reason, tick=moment.tick, now=moment.now)
        changes = counts[queue]
        changes[state.value] -= 1
        changes["cancelled"] += 1
        changes["event_cancelled"] += 1

    def _settle(self, seq: int, job_id: str, state: State, moment: Moment, counts: Counts) -> None:
        """Pass a job's end on to its dependents: it meets their need or cancels them; cancellations are passed on."""
        ended = deque([(seq, job_id, state)])
        place = dict(moment.aging._asdict(), tick=moment.tick, now=moment.now)
        while ended:
            seq, job_id, state = ended.popleft()
            self.entered += self.change("let_in", needs=seq, after_id=job_id, state=state.value, **place)
            self.run("mark_met", needs=seq, state=state.value)
            reason = f"job {job_id} {is_now(state)}"
            for waiting, waiting_id, queue, dependents in self.run("doomed", needs=seq, state=state.value).fetchall():
                self._cancel_waiting(waiting, queue, State.PENDING, reason, moment, counts)
                if dependents:
                    ended.append((waiting, waiting_id, State.CANCELLED))

    @insistent
    def retry(self, jobs: Sequence[Job], earlier: set[int] | None = None) -> int:
        """Put the jobs back in line as if they were new; skip a job whose state has changed since it was selected.

        A retried job waits again for its needs that have not ended: jobs that are retried in this call, or in an
        earlier one. `earlier` holds the numbers of the jobs retried before, and this call adds its own: if a need among
        them has ended again by now, its new end counts.
        """
        counts = no_counts()
        with self.transaction() as moment:
            values = dict(moment.aging._asdict(), tick=moment.tick, now=moment.now)
            jobs = sorted(jobs, key=attrgetter("seq"))  # one lock order for all transactions, against deadlocks
            # Lock the needs before the jobs: a transaction that ends a need locks in this order, too.
            needs = {job.seq: [Needed(*row) for row in self.run("hold_needs", seq=job.seq).fetchall()] for job in jobs}
            retried = [
                job
                for job in jobs
                if self.change("retry", seq=job.seq, state=job.state.value, queue=self._queue_of(job), **values)
            ]
            begun = {job.seq for job in retried}
            missed: set[Needed] = set()
            for job in retried:
                counts[job.queue][job.state.value] -= 1
                counts[self._queue_of(job)]["pending"] += 1
                ended_again = {need for need in needs[job.seq] if need.seq in (earlier or ()) and need.is_missed}
                missed |= ended_again
                still = [need for need in needs[job.seq] if need.seq in begun or not need.has_ended]
                self._wait_again(job, needs[job.seq], [*still, *ended_again])
            for need in sorted(missed):
                self._settle(need.seq, need.id, State(need.state), moment, counts)
            self._count(counts)
            self.entered += len(retried)
        if earlier is not None:
            earlier |= begun
        return len(retried)

    def _queue_of(self, job: Job | NewJob) -> str:
        """The job's own queue, or the default queue if its own was removed."""
        return job.queue if job.queue in self.known_queues else DEFAULT_QUEUE

    def _wait_again(self, job: Job, needs: Sequence[Needed], left: Collection[Needed]) -> None:
        """Let the job wait for the needs in `left`; its other needs count as met."""
        edges = [dict(seq=job.seq, needs=need.seq, is_met=int(need not in left)) for need in needs]
        self.run_many("wait_again", edges)
        if left:
            self.run("block", seq=job.seq, waits_for=len(left))

    @insistent
    def delete(self, jobs: Sequence[Job]) -> list[Job]:
        """Delete the jobs that are still in the state in which they were selected, with their history."""
        counts = no_counts()
        deleted: list[Job] = []
        needed: list[Job] = []
        with self.transaction() as moment:
            for job in sorted(jobs, key=attrgetter("seq")):
                row = self.run("delete", seq=job.seq, state=job.state.value).fetchone()
                if row is None:
                    continue
                job = as_job(row)  # the deleted row: the job's queue may have been edited since it was selected
                deleted.append(job)
                if job.dependents:
                    needed.append(job)
                counts[job.queue][job.state.value] -= 1
                self.run("delete_runs", seq=job.seq)
                self.run("delete_dependencies", seq=job.seq)
            for job in needed:  # after all deletions: a dependent that was selected, too, is deleted and not cancelled
                if not job.state.has_ended:
                    self._settle(job.seq, job.id, State.CANCELLED, moment, counts)
                self.run("forget_needs", seq=job.seq)
            self._count(counts)
        return deleted

    @insistent
    def edit(self, job: Job, changes: Mapping[str, Any]) -> Job:
        """Change fields of a job that waits; its place in line follows its new priority and time."""
        with self.transaction() as moment:
            held = self._waiting(job)
            edited = placed(held._replace(**changes), moment, is_moved="run_at" in changes)
            if edited.queue not in self.known_queues:
                raise self.no_queue(edited.queue)
            self.run("edit", now=moment.now, **edited._asdict())
            if edited.queue != held.queue:
                counts = no_counts()
                counts[held.queue][held.state.value] -= 1
                counts[edited.queue][held.state.value] += 1
                self._count(counts)
            self.entered += 1
        return edited

    @insistent
    def promote(self, job: Job) -> None:
        """Put a waiting job before all others in line; its next claim uses the promotion up."""
        with self.transaction() as moment:
            held = self._waiting(job)
            if held.waits_for:
                raise WrongState(f"Job {job.id!r} waits for other jobs: it cannot be first. See: queuectl why {job.id}")
            rank = before_all(min((head[0] for head in self._heads(self.known_queues.values())), default=None))
            self.run("promote", seq=job.seq, rank=rank, tick=moment.tick, now=moment.now)
            self.entered += 1

    def _waiting(self, job: Job) -> Job:
        held = self._hold(job)
        if held is None or not held.is_waiting:
            state = "gone" if held is None else held.state
            raise WrongState(f"Job {job.id!r} is {state}: only a job that waits can be changed")
        return held


def placed(job: Job, moment: Moment, is_moved: bool) -> Job:
    """The job with its place in line computed from its priority and, if `is_moved`, from its new run_at."""
    if is_moved and not job.waits_for:
        if job.run_at is not None and job.run_at > moment.now:
            job = job._replace(rank=None, due_at=job.run_at)
            return job if job.state is State.FAILED else job._replace(since_tick=None, since_at=None)
        since_tick, since_at = (moment.tick, moment.now) if job.since_tick is None else (job.since_tick, job.since_at)
        job = job._replace(due_at=None, since_tick=since_tick, since_at=since_at, rank=job.rank or 0)
    if job.rank is None or job.rank <= PROMOTED:
        return job
    assert job.since_tick is not None and job.since_at is not None
    return job._replace(rank=moment.aging.rank(job.priority, job.since_tick, job.since_at))


def is_now(state: State) -> str:
    """The state in the words of a cancel reason."""
    return {State.COMPLETED: "completed", State.DEAD: "is dead", State.CANCELLED: "was cancelled"}[state]
