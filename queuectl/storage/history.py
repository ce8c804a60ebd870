"""Recent history: which jobs have ended, and a sample of the counters for each minute."""

from itertools import islice
from typing import NamedTuple

from queuectl.job import Job, State
from queuectl.storage.transactions import Transactions
from queuectl.times import Millis

LOOKED_AT = 100  # newest runs, searched for jobs that have ended
MINUTES_KEPT = 25 * 60


class Sample(NamedTuple):
    """A row of `samples`: the counts of events, and the numbers of waiting and running jobs, when the minute began."""

    minute: int  # since the epoch
    completed: int
    failed: int
    dead: int
    waiting: int
    running: int


class History(Transactions):
    _sampled = 0  # the latest minute that is known to have a sample

    def recently_ended(self, limit: int) -> list[Job]:
        """The jobs that ended last, the newest first; without their output."""
        found: dict[int, Job] = {job.seq: job for job in self.jobs(State.CANCELLED, limit)}  # most have no run
        runs = self.run("newest_run_jobs", limit=LOOKED_AT).fetchall()
        # One query per job: for a single query PostgreSQL may choose to scan all jobs that have ended.
        ended = (job for seq in dict.fromkeys(seq for (seq,) in runs) if (job := self.glance_at(seq)))
        found.update((job.seq, job) for job in islice((job for job in ended if job.state.has_ended), limit))
        newest = sorted(found.values(), key=lambda job: (job.finished_at or 0, job.seq), reverse=True)
        return self.aged(newest[:limit])

    def newest_run(self) -> int:
        """The number of the run that was stored last."""
        return self.one("newest_run") or 0

    def runs_after(self, number: int, limit: int) -> list[tuple[int, str, float, float]]:
        """The runs stored after run `number`: number, queue, duration, and how long the job had waited, in seconds."""
        found = self.run("runs_after", number=number, limit=limit).fetchall()
        return [(number, queue or "", ran, waited) for number, queue, ran, waited in found]

    def oldest_in_line(self, queue: str, limit: int) -> Millis | None:
        """The earliest since_at among the first `limit` jobs in a queue's line."""
        found: Millis | None = self.one("oldest_in_line", queue=queue, limit=limit)
        return found

    def sample(self) -> None:
        """Store this minute's sample, unless another process has stored it already."""
        minute = self.clock.now() // 60_000
        if minute == self._sampled:
            return
        if self.one("sampled", minute=minute) is None:
            with self.transaction(durable=False):
                self.run("add_sample", minute=minute)
                self.run("forget_samples", oldest=minute - MINUTES_KEPT, newest=minute)
        self._sampled = minute

    def samples(self, first: int, last: int) -> list[Sample]:
        """The stored samples of these minutes."""
        return [Sample(*row) for row in self.run("samples", first=first, last=last).fetchall()]

    def standing(self, minute: int) -> Sample:
        """The current counters in the form of a sample."""
        totals = self.totals()
        waiting = totals["pending"] + totals["failed"]
        return Sample(
            minute,
            completed=totals["event_completed"],
            failed=totals["event_failed"],
            dead=totals["event_dead"],
            waiting=waiting,
            running=totals["processing"],
        )
