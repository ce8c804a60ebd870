"""Reading the queue: operations that change nothing. The cost of each does not depend on the number of jobs."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any, ClassVar

from queuectl import config
from queuectl.clock import Clock
from queuectl.config import Settings
from queuectl.errors import JobNotFound, QueueMoved, QueueNotFound
from queuectl.job import DEFAULT_QUEUE, Job, State
from queuectl.storage.rows import COMMAND_LETTERS, RANK, EndedRun, Link, QueueRow, Run, Turn, Worker, as_job
from queuectl.storage.sql import TOTALS, queries
from queuectl.storage.ways import AFTER_ALL_JOBS, LOWEST, cursor_after, place_of, ways_to
from queuectl.times import Millis

# Counting stops here, e.g. of the jobs before a place in line.
MOST_COUNTED = 1_000
CLOSED = ("moved_to", "moving_from")  # names in `meta` that close the queue to all writers


class Reader(ABC):
    DIALECT: ClassVar[Mapping[str, str]]
    is_shared: ClassVar[bool]  # whether many machines may use the database
    url: str

    def __init__(self, clock: Clock, boot_id: str, machine: str = "") -> None:
        self.clock = clock
        self.boot_id = boot_id
        self.machine = machine
        self.sql = queries(self.DIALECT)
        self._settings: Settings | None = None
        self.known_queues: dict[str, QueueRow] = {}  # as of the last look_at_clock()
        self._settings_version = -1
        self._clock_offset: Millis | None = None
        self._queue_id: str | None = None
        self.closed: Mapping[str, str] = {}  # where the queue has moved to, or is being moved from

    @abstractmethod
    def run(self, query: str, **parameters: Any) -> Any:
        """Execute a named query and return its cursor."""

    @abstractmethod
    def changed(self) -> bool:
        """Whether another connection has committed anything since the last call."""

    @abstractmethod
    def version(self) -> str:
        """A text that changes with every commit of another connection."""

    @abstractmethod
    def size_bytes(self) -> int:
        """The size of the database on disk."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Sleep until another connection may have committed something, at most for this long."""

    def connected_seconds(self) -> float:
        """For how long the connection has existed; infinite for a file."""
        return inf

    @abstractmethod
    def columns(self) -> list[tuple[str, str, bool, bool]]:
        """Each column of each table: the table, the column, whether it is part of the key, and whether it is text."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What the engine itself finds wrong with its files."""

    @abstractmethod
    def copy_to(self, path: str, show: Callable[[int, int], None]) -> None:
        """Make a consistent copy of the queue while others write; `show` is told the progress."""

    @abstractmethod
    def is_there(self) -> bool:
        """Whether the opened database is still at its path."""

    @abstractmethod
    def close(self) -> None: ...

    def one(self, query: str, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.run(query, **parameters).fetchone()
        return None if row is None else row[0]

    def meta(self) -> dict[str, str]:
        return dict(self.run("meta").fetchall())

    def queue_id(self) -> str:
        """The id that tells this queue's runs from those of other queues on the machine."""
        if self._queue_id is None:
            self._queue_id = self.meta()["queue_id"]
        return self._queue_id

    def counters(self) -> tuple[int, int]:
        """The newest tick, and the newest job's number."""
        tick, seq = self.run("counters").fetchone()
        return tick, seq

    def totals(self) -> dict[str, int]:
        """How many jobs are in each state, and how often each event has happened."""
        return dict(zip(TOTALS, self.run("totals").fetchone()))

    def totals_by_queue(self) -> dict[str, dict[str, int]]:
        return {queue: dict(zip(TOTALS, counts)) for queue, *counts in self.run("totals_by_queue").fetchall()}

    def must_have_had(self, queue: str) -> None:
        """Raise QueueNotFound for a queue that never existed; jobs of a removed queue may still be listed."""
        self.look_at_clock()
        if queue not in self.known_queues and queue not in self.totals_by_queue():
            raise self.no_queue(queue)

    def no_queue(self, name: str) -> QueueNotFound:
        from difflib import get_close_matches

        near = get_close_matches(name, self.known_queues, 1)
        return QueueNotFound(name, near[0] if near else None)

    def look_at_clock(self) -> tuple[int, Millis | None]:
        """Read the tick and when the next job is due; read settings and queues again if they have changed."""
        tick, version, due, time = self.run("clock").fetchone()
        self.clock.hear(time)
        if self._settings is None or version != self._settings_version:
            stored = dict(self.run("settings").fetchall())
            self._settings = config.settings_from(stored)
            self.known_queues = {row[0]: QueueRow(*row) for row in self.run("queues").fetchall()}
            self._settings_version = version
            self.closed = {name: stored[name] for name in CLOSED if name in stored}
        return tick, due

    def must_be_open(self) -> None:
        """Raise QueueMoved if the queue has moved, or is being moved."""
        self.look_at_clock()
        if self.closed:
            raise QueueMoved(**self.closed)

    def settings(self) -> Settings:
        """The settings that are in force now."""
        self.look_at_clock()
        return self.known_settings

    @property
    def known_settings(self) -> Settings:
        """The settings as of this connection's last look_at_clock(), which every transaction calls."""
        return self._settings or self.settings()

    # --- the line ---

    def ahead(self, rank: int, seq: int, queue: str = DEFAULT_QUEUE) -> int:
        """How many jobs are before this place in line; counting stops at MOST_COUNTED."""
        count = 0
        for name in self._rivals(queue):
            count += int(self.one("ahead", queue=name, rank=rank, seq=seq, most=MOST_COUNTED - count))
        return count

    def before(self, job: Job, limit: int) -> list[Job]:
        """The first `limit` jobs in line, as far as they are before this job."""
        if job.rank is None:
            return []
        rows = self._in_line(self._rivals(job.queue), limit=limit, key=LOWEST, seq=0)
        found = self.aged([as_job(row) for row in rows])
        return [one for one in found if one.rank is not None and (one.rank, one.seq) < (job.rank, job.seq)]

    def _rivals(self, queue: str) -> list[str]:
        """The queues whose jobs may start before a job of this queue: this one, and all that are not paused."""
        self.look_at_clock()
        return [one.name for one in self.known_queues.values() if one.name == queue or not one.is_paused]

    def line(self, limit: int, is_paused: bool = False) -> list[Job]:
        """The first jobs in line of the open queues, or of the paused ones."""
        return self.aged([as_job(row) for row in self._in_line(self._names(is_paused), limit, key=LOWEST, seq=0)])

    def waiting(self) -> dict[str, int]:
        """How many jobs wait, by what they wait for; each count stops at MOST_COUNTED."""
        found = {"line": 0, "held": 0}
        for kind, is_paused in (("line", False), ("held", True)):
            for name in self._names(is_paused):
                last = dict(rank=AFTER_ALL_JOBS, seq=AFTER_ALL_JOBS, most=MOST_COUNTED - found[kind])
                found[kind] += int(self.one("ahead", queue=name, **last))
        later, blocked = self.run("counted_waiting", most=MOST_COUNTED).fetchone()
        return {**found, "later": later, "blocked": blocked}

    def _names(self, is_paused: bool) -> list[str]:
        """The names of the queues that are paused, or of those that are not."""
        self.look_at_clock()
        return [queue.name for queue in self.known_queues.values() if bool(queue.is_paused) is is_paused]

    def last_due(self) -> Millis | None:
        found: Millis | None = self.one("last_due")
        return found

    def front(self, limit: int) -> list[Turn]:
        """The first jobs in line, an equal share of each queue that is not paused."""
        names = self._names(is_paused=False)
        values = dict(limit=self._share(limit), letters=COMMAND_LETTERS)
        turns = [Turn(*row) for name in names for row in self.run("front", queue=name, **values).fetchall()]
        return sorted(turns, key=lambda turn: (turn.rank, turn.seq))

    def cut_off(self, turns: Sequence[Turn], limit: int) -> list[str]:
        """The queues that may have more jobs in line than those in `turns`, which front() returned."""
        numbers = Counter(turn.queue for turn in turns)
        return [queue for queue, number in numbers.items() if number >= self._share(limit)]

    def _share(self, limit: int) -> int:
        return max(1, limit // (sum(not queue.is_paused for queue in self.known_queues.values()) or 1))

    # --- jobs ---

    def job(self, job_id: str) -> Job:
        """The job with its output."""
        return self.aged([self._find("job", job_id)])[0]

    def glance(self, job_id: str) -> Job:
        """The job without its output, for callers that poll."""
        return self._find("glance", job_id)

    def _find(self, query: str, job_id: str) -> Job:
        if not (job_id.isascii() and job_id.isprintable()):  # no id has others, and an engine may reject them
            raise JobNotFound(job_id)
        row = self.run(query, id=job_id).fetchone()
        if row is None:
            raise JobNotFound(job_id, self._nearest(job_id))
        return as_job(row)

    def cancel_reason(self, job: Job) -> str | None:
        """The reason of a requested cancellation; None if none was requested."""
        reason: str | None = self.one("cancel_reason", seq=job.seq)
        return reason

    def printed(self, seq: int, lease: int) -> tuple[str, str]:
        """The stdout and stderr of a run that has ended; the newest run's output is in the job's row."""
        row = self.run("printed", seq=seq, lease=lease).fetchone() or (None, None)
        return row[0] or "", row[1] or ""

    def jobs(self, state: State | None, limit: int, before: int = AFTER_ALL_JOBS) -> list[Job]:
        """The newest jobs, or pending ones in the order in which they will run; without their output."""
        if state is State.PENDING:
            return self._pending(limit)
        if state is None:
            rows = self.run("jobs", before=before, limit=limit)
        else:
            rows = self.run("jobs_in_state", state=state.value, before=before, limit=limit)
        return self.aged([as_job(row) for row in rows.fetchall()])

    def _pending(self, limit: int) -> list[Job]:
        found: list[Job] = []
        cursor: str | None = ""
        while cursor is not None and len(found) < limit:
            jobs, cursor = self.page(limit, State.PENDING, cursor=cursor)
            found += [job for job in jobs if job.state is State.PENDING]
        return found[:limit]

    def page(
        self,
        most: int,
        state: State | None = None,
        label: str | None = None,
        queue: str | None = None,
        cursor: str = "",
    ) -> tuple[list[Job], str | None]:
        """A page of jobs along the index that fits best, and the cursor of the next page; None after the last.

        The newest jobs come first, pending ones in the order in which they will run. A page may contain jobs that do
        not match: the caller filters them out.
        """
        ways = ways_to(state, label, queue)
        number, key, seq = place_of(cursor, ways) if cursor else (0, LOWEST, ways[0].start)
        values: dict[str, Any] = dict(key=key, seq=seq, before=seq, state=str(state), label=label, limit=most)
        if ways[number].query == "in_line":
            self.look_at_clock()
            rows = self._in_line(self.known_queues if queue is None else [queue], **values)
        elif ways[number].query == "jobs_of_queue":
            rows = self._of_queue(queue, State if state is None else [state], seq, most)
        else:
            rows = self.run(ways[number].query, **values).fetchall()
        jobs = [as_job(row) for row in rows]
        if len(jobs) == most:
            return self.aged(jobs), cursor_after(jobs[-1], state, label, queue)
        following = f"{number + 1}:{LOWEST}:{ways[number + 1].start}" if number + 1 < len(ways) else None
        return self.aged(jobs), following

    def _in_line(self, queues: Iterable[str], limit: int, **values: Any) -> list[Any]:
        """The jobs of these queues in the order in which they will run."""
        lines = [self.run("in_line", queue=queue, limit=limit, **values).fetchall() for queue in queues]
        return sorted((row for line in lines for row in line), key=lambda row: (row[RANK], row[0]))[:limit]

    def _of_queue(self, queue: str | None, states: Iterable[State], before: int, limit: int) -> list[Any]:
        """The newest jobs of a named queue, in any of these states."""
        values = dict(queue=queue, before=before, limit=limit)
        found = [row for state in states for row in self.run("jobs_of_queue", state=state.value, **values).fetchall()]
        return sorted(found, key=itemgetter(0), reverse=True)[:limit]

    def newest_id(self) -> str | None:
        found: str | None = self.one("newest")
        return found

    def job_at(self, seq: int) -> Job | None:
        """The job of this number, with its output."""
        row = self.run("job_at", seq=seq).fetchone()
        return None if row is None else self.aged([as_job(row)])[0]

    def glance_at(self, seq: int) -> Job | None:
        row = self.run("glance_at", seq=seq).fetchone()
        return None if row is None else as_job(row)

    def completed_before(self, moment: Millis, looked_at: int, most: int) -> list[Job]:
        """At most `most` jobs that had been completed by `moment`, among the `looked_at` oldest completed ones."""
        rows = self.run("completed_before", before=moment, looked_at=looked_at, most=most).fetchall()
        return [as_job(row) for row in rows]

    def needs_of(self, job: Job, limit: int = MOST_COUNTED) -> list[Link]:
        """The jobs that this job waits for, or has waited for."""
        return [Link(*row) for row in self.run("needs_of", seq=job.seq, limit=limit).fetchall()]

    def dependents_of(self, job: Job, limit: int = MOST_COUNTED) -> list[Link]:
        """The jobs that wait for this job, or have waited for it."""
        return [Link(*row) for row in self.run("dependents_of", seq=job.seq, limit=limit).fetchall()]

    def doomed_with(self, jobs: Mapping[int, int]) -> int:
        """How many other jobs are cancelled if these are; `jobs` gives each job's number and number of dependents."""
        return self._down_the_chain("would_go", jobs)

    def left_cancelled(self, jobs: Mapping[int, int]) -> int:
        """How many cancelled dependents of these jobs stay cancelled when these jobs are retried."""
        return self._down_the_chain("stay_cancelled", jobs)

    def _down_the_chain(self, query: str, jobs: Mapping[int, int]) -> int:
        """How many dependents of these jobs the query finds, directly or through others; at most MOST_COUNTED."""
        known, left = set(jobs), deque(seq for seq, dependents in jobs.items() if dependents)
        while left and len(known) < len(jobs) + MOST_COUNTED:
            for seq, dependents in self.run(query, seq=left.popleft(), limit=MOST_COUNTED).fetchall():
                if seq not in known and dependents:
                    left.append(seq)
                known.add(seq)
        return min(len(known) - len(jobs), MOST_COUNTED)

    def tied_to(self, seq: int) -> list[int]:
        """The numbers of all jobs that wait for this one, or have waited for it."""
        return [row[0] for row in self.run("tied_to", seq=seq).fetchall()]

    def aged(self, jobs: list[Job]) -> list[Job]:
        """The jobs with the waiting_time that each has earned: until now, or until it was started."""
        (tick, _), now = self.look_at_clock(), self.clock.now()
        aging = self.known_settings.aging_rule
        aged = []
        for job in jobs:
            if job.since_tick is not None and job.since_at is not None:
                until_tick = tick if job.started_tick is None else job.started_tick
                until_at = now if job.started_tick is None else job.waited_until
                waited = aging.waiting_time(until_tick - job.since_tick, (until_at or now) - job.since_at)
                job = job._replace(waiting_time=waited)
            aged.append(job)
        return aged

    def ids_near(self, job_id: str) -> list[str]:
        """Some ids that are next to this one in alphabetical order."""
        return [row[0] for row in self.run("ids_near", id=job_id).fetchall()]

    def _nearest(self, job_id: str) -> str | None:
        from difflib import get_close_matches

        newest = [row[0] for row in self.run("newest_ids").fetchall()]
        near = get_close_matches(job_id, self.ids_near(job_id) + newest, 1)
        return near[0] if near else None

    def runs_of(self, job: Job) -> list[Run]:
        return [Run(*row) for row in self.run("runs_of", seq=job.seq).fetchall()]

    def newest_runs(self, limit: int) -> list[EndedRun]:
        return [EndedRun(*row) for row in self.run("newest_runs", limit=limit, letters=COMMAND_LETTERS).fetchall()]

    def long_runs(self, least_seconds: float, looked_at: int, limit: int) -> list[EndedRun]:
        """The runs of at least `least_seconds` among the `looked_at` newest ones."""
        values = dict(least_seconds=least_seconds, looked_at=looked_at, limit=limit, letters=COMMAND_LETTERS)
        return [EndedRun(*row) for row in self.run("long_runs", **values).fetchall()]

    def environment(self, hash: str) -> tuple[str, str]:
        """The stored environment as JSON, and its machine; empty, and of no machine, if it was removed."""
        variables, machine = self.run("environment", hash=hash).fetchone() or ("{}", "nobody's")
        return variables, machine

    # --- workers ---

    def workers(self) -> list[Worker]:
        return [Worker(*row) for row in self.run("workers").fetchall()]

    def stop_grace(self, name: str) -> float | None:
        """How many seconds the worker may go on with its current job; None if it was not asked to stop."""
        grace: float | None = self.one("stop_grace", name=name)
        return grace

    def held_by(self, worker: str) -> list[Job]:
        return [as_job(row) for row in self.run("held_by", worker=worker).fetchall()]

    def orphans(self) -> list[Job]:
        """The running jobs whose worker has no row."""
        return [as_job(row) for row in self.run("orphans").fetchall()]
