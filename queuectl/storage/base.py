"""The storage contract: everything that changes the queue, each in one transaction.

An engine adds only how to connect, how a transaction begins so that a claim is exclusive, and how to hear of changes.
"""

import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from queuectl.clock import STEP
from queuectl.errors import DuplicateJob, LeaseLost
from queuectl.job import HIGHEST_PRIORITY, Job, NewJob, Outcome, State, Verdict, after_loss, after_run, cancelled
from queuectl.ranking import Aging
from queuectl.storage.reading import Reader, Worker, as_job
from queuectl.storage.sql import TOTALS
from queuectl.times import Millis

try:  # hashlib itself would load OpenSSL, which costs an enqueue a tenth of its time
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

# A commit that need not wait for the disk is synced when the last sync is so long ago.
SYNC_SECONDS = 0.1
# Jobs that come due enter the line at most so many at a time, so that a wave of them stalls nobody.
DUE_BATCH = 1_000
NOTHING = dict.fromkeys(TOTALS, 0)

Counts = defaultdict[str, int]


class Added(NamedTuple):
    """A job that was stored: with no rank it waits for its time."""

    seq: int
    id: str
    rank: int | None


class Moment(NamedTuple):
    """When a transaction happens, by both clocks, and the rule that ranks by them."""

    now: Millis
    tick: int
    due: Millis | None  # when the next job's time comes
    aging: Aging


class Storage(Reader):
    shard = 0  # of the counters: the one that this connection counts in
    _is_synced = True
    _synced_at = 0.0
    _unsynced_since: float | None = None

    # --- what an engine adds ---

    @abstractmethod
    def change(self, query: str, **parameters: Any) -> int:
        """Execute a named query, and return how many rows it changed."""

    @abstractmethod
    def run_many(self, query: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute a named query once a row, and return how many rows of the table it changed."""

    @abstractmethod
    def begin(self, durable: bool) -> None:
        """Begin a transaction in which this connection alone may write.

        A durable one is on disk when it is committed; the others are within 0.2 s, if `heartbeat` is called when they
        have been unsynced for 0.1 s.
        """

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def new_numbers(self, jobs: int) -> tuple[int, Sequence[int]]:
        """One enqueue of so many jobs happens: its tick, and a number for each job."""

    @abstractmethod
    def next_number(self) -> int: ...

    def wake(self, jobs: int) -> None:
        """Tell sleeping workers that there is work for so many of them; where they notice by themselves, nothing."""

    # --- transactions, the clock, the counters ---

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[Moment]:
        """One transaction, with the moment at which it happens."""
        self.begin(durable)
        try:
            yield self._moment()
            self.commit()
        except BaseException:
            self._settings = self._clock_offset = None  # what was read or written inside is now undone
            self.rollback()
            raise

    def must_sync(self, durable: bool) -> bool:
        """Whether a transaction that begins now is to be on disk when it is committed."""
        self._is_synced = durable or time.monotonic() - self._synced_at >= SYNC_SECONDS
        return self._is_synced

    def has_committed(self) -> None:
        if self._is_synced:
            self._synced_at, self._unsynced_since = time.monotonic(), None
        elif self._unsynced_since is None:
            self._unsynced_since = time.monotonic()

    def unsynced_seconds(self) -> float:
        """For how long commits have been waiting to be brought to the disk; 0 when none is."""
        return 0.0 if self._unsynced_since is None else time.monotonic() - self._unsynced_since

    def _moment(self) -> Moment:
        now = self.clock.now()
        offset = now - self.clock.steady()
        if self._clock_offset is None or abs(offset - self._clock_offset) > STEP:
            self._compare_clocks(offset)
        tick, due = self.look_at_clock()
        return Moment(now, tick, due, self.known_settings.aging_rule)

    def _compare_clocks(self, offset: Millis) -> None:
        """Mend what is stored if the clock was set since anybody last looked, in this start of the machine."""
        seen = self.meta().get("clock", "").rpartition(" ")
        if seen[0] == self.boot_id:
            delta = offset - int(seen[2])
            if abs(delta) > STEP:
                self.run("shift_times", delta=delta, millis=self.settings().aging_rule.millis)
        if seen[0] != self.boot_id or abs(offset - int(seen[2])) > STEP:
            self.run("set_meta", name="clock", value=f"{self.boot_id} {offset}")
        self._clock_offset = offset

    def clock_was_set(self) -> bool:
        """Whether the clock was set since this connection's last transaction; the next one mends what is stored."""
        offset = self.clock.now() - self.clock.steady()
        return self._clock_offset is not None and abs(offset - self._clock_offset) > STEP

    def _count(self, changes: Mapping[str, int]) -> None:
        self.run("count", shard=self.shard, **{**NOTHING, **changes})

    # --- settings ---

    def set_setting(self, name: str, value: str | None) -> None:
        """Set a checked value, or go back to the default; a new aging rule ranks the line anew."""
        with self.transaction() as moment:
            if value is None:
                self.run("unset_setting", name=name)
            else:
                self.run("set_setting", name=name, value=value)
            self.run("settings_changed")
            aging = self.settings().aging_rule
            if aging != moment.aging:
                self.run("rerank", **aging._asdict())

    # --- the line ---

    def add(self, jobs: Sequence[NewJob], environment: Mapping[str, str] | None = None) -> list[Added]:
        """Store jobs, all or none, as one enqueue: they share one tick of the aging clock."""
        if not jobs:
            return []
        with self.transaction() as moment:
            self._admit(moment)
            now, aging = moment.now, moment.aging
            tick, numbers = self.new_numbers(len(jobs))
            common = {"environment": None if environment is None else self._keep(environment), "now": now}
            in_line = [
                {"rank": aging.rank(priority, tick, now), "since_tick": tick, "since_at": now, "due_at": None}
                for priority in range(HIGHEST_PRIORITY + 1)
            ]
            rows: list[dict[str, Any]] = []
            for seq, new in zip(numbers, jobs):
                if new.run_at is None or new.run_at <= now:
                    place = in_line[new.priority]
                else:
                    place = {"rank": None, "since_tick": None, "since_at": None, "due_at": new.run_at}
                rows.append({**new._asdict(), **common, **place, "seq": seq, "id": new.id or str(seq)})
            # Names that users chose come first: a number that we give must not take one of them.
            chosen = [row for new, row in zip(jobs, rows) if new.id is not None]
            numbered = [row for new, row in zip(jobs, rows) if new.id is None]
            if self.run_many("add", chosen) + self.run_many("add", numbered) < len(rows):
                self._renumber(jobs, rows)
            self._count({"pending": len(jobs), "event_enqueued": len(jobs)})
        self.wake(len(jobs))
        return [Added(row["seq"], row["id"], row["rank"]) for row in rows]

    def _keep(self, environment: Mapping[str, str]) -> str:
        """Store an environment unless it is there; its hash, by which a job names it."""
        text = self.machine + ascii(sorted(environment.items()))
        hash = blake2b(text.encode(), digest_size=16).hexdigest()
        if self.one("has_environment", hash=hash) is None:
            from json import dumps

            self.run("add_environment", hash=hash, variables=dumps(environment), machine=self.machine)
        return hash

    def _renumber(self, jobs: Sequence[NewJob], rows: list[dict[str, Any]]) -> None:
        """Some ids were taken. Those that a user chose are refused; the others get the next number that is free."""
        for new, row in zip(jobs, rows):
            while self.one("seq_of", id=row["id"]) != row["seq"]:
                if new.id is not None:
                    raise DuplicateJob(new.id)
                row["seq"] = self.next_number()
                row["id"] = str(row["seq"])
                self.run_many("add", [row])

    def _admit(self, moment: Moment) -> None:
        if moment.due is not None and moment.due <= moment.now:
            self.run("admit", tick=moment.tick, now=moment.now, batch=DUE_BATCH, **moment.aging._asdict())

    def claim(self, worker: str) -> Job | None:
        """Take the job with the smallest rank; nobody else can have it while its lease is current."""
        with self.transaction(durable=False) as moment:
            counts: Counts = defaultdict(int)
            job = self._claim(worker, moment, counts)
            self._count(counts)
        return job

    def _claim(self, worker: str, moment: Moment, counts: Counts) -> Job | None:
        self._admit(moment)
        row = self.run("claim", worker=worker, tick=moment.tick, now=moment.now).fetchone()
        if row is None:
            return None
        job = as_job(row)
        if job.lease > 1:
            self.run("keep_output", seq=job.seq)
            self.run("clear_output", seq=job.seq)
        counts[job.was or ""] -= 1
        counts["processing"] += 1
        counts["event_started"] += 1
        return job

    def finish(self, job: Job, outcome: Outcome, next_for: str | None = None) -> Job | None:
        """Store what came of a run, if its lease is still current, and claim the next job in the same transaction."""
        with self.transaction(durable=False) as moment:
            counts: Counts = defaultdict(int)
            verdict = after_run(job, outcome, moment.now, self.known_settings.max_backoff)
            verdict = self._conclude(job, outcome, verdict, moment, counts)
            following = self._claim(next_for, moment, counts) if next_for else None
            self._count(counts)
        if verdict.state is State.PENDING:
            self.wake(1)
        return following

    def lose(self, job: Job, rebooted: bool) -> Verdict:
        """The job's worker died: put the job back, or make it dead if it takes its workers down with it."""
        with self.transaction() as moment:
            counts: Counts = defaultdict(int)
            outcome = Outcome(None, max(0, moment.now - (job.started_at or moment.now)) / 1000)
            verdict = self._conclude(job, outcome, after_loss(job, rebooted), moment, counts)
            self._count(counts)
        self.wake(1)
        return verdict

    def _conclude(self, job: Job, outcome: Outcome, verdict: Verdict, moment: Moment, counts: Counts) -> Verdict:
        """Move the job to where the verdict says and write the run's row; refused where the lease is not current."""
        if not verdict.state.has_ended and (reason := self.one("cancel_asked", seq=job.seq)) is not None:
            verdict = cancelled(reason)
        facts: dict[str, Any] = dict(
            seq=job.seq,
            lease=job.lease,
            now=moment.now,
            duration_seconds=outcome.duration_seconds,
            exit_code=outcome.exit_code,
            error_message=verdict.error_message,
        )
        change = dict(facts, output=outcome.output, stderr=outcome.stderr, lost=verdict.lost)
        if verdict.state.has_ended:
            done = self.change("finish", state=verdict.state.value, **change)
        else:
            change.update(tick=moment.tick, ran_millis=round(outcome.duration_seconds * 1000))
            if verdict.state is State.FAILED:
                done = self.change("back_off", run_at=verdict.run_at, **change)
            else:
                done = self.change("put_back", **moment.aging._asdict(), **change)
        if not done:
            raise LeaseLost(job.id, job.lease)
        assert job.started_at is not None and job.since_at is not None
        self.run(
            "add_run",
            attempt=job.attempts,
            worker=job.worker,
            waited_seconds=max(0, job.started_at - job.since_at) / 1000,
            started_at=job.started_at,
            outcome=verdict.outcome,
            **facts,
        )
        counts["processing"] -= 1
        counts[verdict.state.value] += 1
        if verdict.state is not State.PENDING:
            counts[f"event_{verdict.state.value}"] += 1
        return verdict

    def cancel(self, job: Job, reason: str) -> bool:
        """Cancel a job that waits; ask for it where the job runs. False if it has ended."""
        with self.transaction() as moment:
            state = self.one("state_of", seq=job.seq)
            if state in (State.PENDING, State.FAILED):
                self.run("cancel_waiting", seq=job.seq, reason=reason, tick=moment.tick, now=moment.now)
                self._count({state: -1, "cancelled": 1, "event_cancelled": 1})
            elif state == State.PROCESSING:
                self.run("cancel_running", seq=job.seq, reason=reason, now=moment.now)
            else:
                return False
        return True

    def retry(self, jobs: Sequence[Job]) -> int:
        """Put those of the jobs that are still dead back in line, as if they were new."""
        with self.transaction() as moment:
            values = dict(moment.aging._asdict(), tick=moment.tick, now=moment.now)
            retried = self.run_many("retry", [dict(values, seq=job.seq) for job in jobs])
            self._count({"dead": -retried, "pending": retried})
        self.wake(retried)
        return retried

    def delete(self, jobs: Sequence[Job]) -> int:
        """Delete those of the jobs that are still in the state in which they were chosen, with their history."""
        counts: Counts = defaultdict(int)
        with self.transaction():
            for job in jobs:
                if self.change("delete", seq=job.seq, state=job.state.value):
                    self.run("delete_runs", seq=job.seq)
                    counts[job.state.value] -= 1
            self._count(counts)
        return -sum(counts.values())

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
