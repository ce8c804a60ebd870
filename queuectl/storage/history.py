"""What has happened lately: which jobs have ended, and how the queue stood minute by minute."""

from itertools import islice
from typing import NamedTuple

from queuectl.job import Job, State
from queuectl.storage.transactions import Transactions
from queuectl.times import Millis

LOOKED_AT = 100  # of the newest runs, for some after which the job was done
MINUTES_KEPT = 25 * 60


class Sample(NamedTuple):
    """A row of `samples`: how often things had happened, and how the queue stood, when that minute began."""

    minute: int  # of the epoch
    completed: int
    failed: int
    dead: int
    waiting: int
    running: int


class History(Transactions):
    _sampled = 0  # the minute that is known to have its sample

    def recently_ended(self, limit: int) -> list[Job]:
        """The newest of those that have ended for good, the newest first; without what they printed."""
        found: dict[int, Job] = {job.seq: job for job in self.jobs(State.CANCELLED, limit)}  # mostly without a run
        runs = self.run("newest_run_jobs", limit=LOOKED_AT).fetchall()
        # One by one: asked for all at once, a server may think it best to go through everything that has ended.
        ended = (job for seq in dict.fromkeys(seq for (seq,) in runs) if (job := self.glance_at(seq)))
        found.update((job.seq, job) for job in islice((job for job in ended if job.state.has_ended), limit))
        newest = sorted(found.values(), key=lambda job: (job.finished_at or 0, job.seq), reverse=True)
        return self.aged(newest[:limit])

    def newest_run(self) -> int:
        """The number of the run that was stored last."""
        return self.one("newest_run") or 0

    def runs_after(self, number: int, limit: int) -> list[tuple[int, str, float, float]]:
        """The runs stored after that one: number, queue, how many seconds it took, and how many its job had waited."""
        found = self.run("runs_after", number=number, limit=limit).fetchall()
        return [(number, queue or "", ran, waited) for number, queue, ran, waited in found]

    def oldest_in_line(self, queue: str, limit: int) -> Millis | None:
        """Since when the oldest of the first in a queue's line has waited."""
        found: Millis | None = self.one("oldest_in_line", queue=queue, limit=limit)
        return found

    def sample(self) -> None:
        """Write down how the queue stands, unless somebody has in this minute."""
        minute = self.clock.now() // 60_000
        if minute == self._sampled:
            return
        if self.one("sampled", minute=minute) is None:
            with self.transaction(durable=False):
                self.run("add_sample", minute=minute)
                self.run("forget_samples", oldest=minute - MINUTES_KEPT, newest=minute)
        self._sampled = minute

    def samples(self, first: int, last: int) -> list[Sample]:
        """Those of these minutes that there are."""
        return [Sample(*row) for row in self.run("samples", first=first, last=last).fetchall()]

    def standing(self, minute: int) -> Sample:
        """How it is now, as a sample would say it."""
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
