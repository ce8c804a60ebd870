"""The storage contract: every operation that changes the queue is one transaction. Here: claim, finish, workers.

An engine adds only how to connect, how to begin a transaction that makes a claim exclusive, and how to notice changes.
"""

from typing import Any

from queuectl.errors import LeaseLost
from queuectl.job import Job, Outcome, State, Verdict, after_loss, after_run, cancelled
from queuectl.storage.handing_in import HandingIn
from queuectl.storage.history import History
from queuectl.storage.rows import Worker, as_job
from queuectl.storage.transactions import Counts, Moment, insistent, no_counts


class Storage(HandingIn, History):
    # --- a job's runs ---

    @insistent
    def claim(self, worker: str) -> Job | None:
        """Claim the job with the smallest rank; no other worker can claim it while its lease is current."""
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
        """Store the outcome of a run if its lease is still current, and claim the next job in the same transaction."""
        with self.transaction(durable=False) as moment:
            counts = no_counts()
            verdict = after_run(job, outcome, moment.now, self.known_settings.max_backoff, chance_for(job))
            self._conclude(job, outcome, verdict, moment, counts)
            following = self._claim(next_for, moment, counts) if next_for else None
            self._count(counts)
        return following

    @insistent
    def lose(self, job: Job, rebooted: bool, worker: Worker | None = None) -> Verdict:
        """Handle a job whose worker died: put the job back in line, or make it dead if it has lost too many workers.

        Raises LeaseLost if the worker has sent a heartbeat since `worker` was read; None means that it has no row.
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
        """Move the job to the verdict's state and write the run's row; raise LeaseLost if the lease is not current."""
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
            if not done:  # the job has got new dependents since it was claimed, or the lease is lost
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
            self.entered += 1  # a place under the queue's limit is free
        if verdict.state.has_ended and dependents:
            self._settle(job.seq, job.id, verdict.state, moment, counts)
        return verdict

    # --- workers ---

    def add_worker(self, worker: Worker) -> None:
        with self.transaction():
            self.run("add_worker", **worker._asdict())

    def heartbeat(self, name: str, processed: int) -> bool:
        """Record that the worker is alive; False if its row was removed. Durable, so all earlier commits are, too."""
        with self.transaction() as moment:
            return bool(self.change("heartbeat", name=name, processed=processed, now=moment.now))

    def ask_to_stop(self, name: str, grace_seconds: float) -> None:
        with self.transaction():
            self.run("ask_to_stop", name=name, stop_grace=grace_seconds)

    def remove_worker(self, name: str) -> None:
        with self.transaction():
            self.run("remove_worker", name=name)

    def remove_dead(self, worker: Worker) -> bool:
        """Remove a dead worker's row, unless it has sent a heartbeat since `worker` was read, or the row is gone."""
        with self.transaction():
            return self.change("remove_dead", name=worker.name, heartbeat_at=worker.heartbeat_at) > 0


def chance_for(job: Job) -> float:
    if not job.jitter:
        return 0.0
    from random import random

    return random()
