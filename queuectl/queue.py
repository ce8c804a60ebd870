"""The public Python API: what the CLI calls, and what a script can call without it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from queuectl import config
from queuectl.config import DATABASE
from queuectl.database import checked, configure, database_url, masked
from queuectl.errors import InvalidInput, JobNotFound, NoJobs, QueueError, WrongState, brief
from queuectl.fields import changes, checked_delay, clean, over, parse
from queuectl.home import open_home
from queuectl.job import (
    LAST,
    RUN_VARIABLES,
    TRACE_SIGNS,
    Job,
    Need,
    NewJob,
    State,
    refuse_ended,
    refuse_running,
    refuse_unended,
)
from queuectl.preflight import Preflight, existing
from queuectl.selection import Page, Selection, find, find_all, known_state
from queuectl.storage import Added, Link, QueueRow, Run, Storage, open_storage
from queuectl.tidying import remove_logs

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Unpack

    from queuectl.keys import Changes, Fields
    from queuectl.liveness import Standing

    JobId = str | Added | Job  # an id, or what enqueue or get returned
    JobIds = JobId | Sequence[JobId]


class Place(NamedTuple):
    """Where a new job stands: how many jobs are ahead, when it is due, what it waits for, or why it was cancelled."""

    ahead: int | None = None
    run_at: int | None = None
    waits_for: Sequence[str] = ()
    cancelled: str | None = None


class Status(NamedTuple):
    """The number of jobs in each state, and the standing of each worker that the queue knows."""

    jobs: dict[str, int]
    workers: Sequence[Standing]


class Queue:
    """The queue whose home is the given directory, or QUEUECTL_HOME, or ~/.queuectl."""

    def __init__(self, home: str | None = None) -> None:
        self.home = open_home(home)
        self._storage: Storage | None = None

    @property
    def storage(self) -> Storage:
        if self._storage is None:
            self._storage = open_storage(self.home)
        return self._storage

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    # --- jobs ---

    def enqueue(self, command: str | Sequence[str], strict: bool = False, **fields: Unpack[Fields]) -> Added:
        """Store one job; the keyword arguments are the keys of a job."""
        return self.enqueue_all([{**fields, "command": command}], strict=strict)[0]

    def enqueue_all(
        self,
        jobs: Iterable[Mapping[str, Any]],
        defaults: Mapping[str, Any] | None = None,
        strict: bool = False,
        warn: Callable[[str], None] | None = None,
    ) -> list[Added]:
        """Store many jobs, all or none, as one enqueue. They get this process's directory and environment.

        If something may keep a job from running, such as a program that is not found, `warn` is called with a message
        after the jobs are stored; with `strict` the jobs are refused instead.
        """
        warnings: list[str] = []
        new = self.checked(jobs, defaults, strict, warnings.append if warn else None)
        if any(need.id == LAST for job in new for need in job.needs):
            new = [job._replace(needs=self._found(job.needs)) for job in new]
        added = self.storage.add(traced(new), captured_environment())
        if warn:
            for warning in warnings:
                warn(warning)
        return added

    def checked(
        self,
        jobs: Iterable[Mapping[str, Any]],
        defaults: Mapping[str, Any] | None = None,
        strict: bool = False,
        warn: Callable[[str], None] | None = None,
    ) -> Sequence[NewJob]:
        """The new jobs that these fields describe, after all checks; nothing is stored."""
        settings, now, cwd = self.storage.settings(), self.storage.clock.now(), current_directory()
        common = dict(defaults or {})
        preflight = Preflight(captured_environment(), self.storage.is_shared, bool(settings.shell), strict, warn)
        new = [preflight.look_at(parse(over(common, fields), settings, cwd, now), cwd) for fields in jobs]
        if not self.storage.is_shared:
            check_shells(new)
        return new

    def place(self, added: Added) -> Place:
        """Where a newly added job stands."""
        rank = added.rank
        if rank is None:
            job = self.storage.glance(added.id)
            if job.state is State.CANCELLED:
                return Place(cancelled=job.error_message)
            if job.waits_for:
                return Place(waits_for=[need.id for need in self.needs(job) if not need.is_met])
            if job.due_at is not None:
                return Place(run_at=job.due_at)
            rank = job.rank
        return Place(0 if rank is None else self.storage.ahead(rank, added.seq, added.queue))

    def get(self, job_id: JobId) -> Job:
        """One job, with its output; the id `last` means the newest job."""
        return self.storage.job(self._id(job_id))

    def _id(self, job_id: JobId) -> str:
        if isinstance(job_id, (Added, Job)):
            return job_id.id
        if not isinstance(job_id, str):
            raise InvalidInput(f"{brief(job_id)} is not the id of a job. It takes text, or what enqueue returned")
        if job_id != LAST:
            return job_id
        newest = self.storage.newest_id()
        if newest is None:
            raise NoJobs
        return newest

    def _found(self, needs: Sequence[Need]) -> tuple[Need, ...]:
        """The dependencies with `last` replaced by the newest job's id; each job occurs once."""
        return tuple({need.id: need for need in (need._replace(id=self._id(need.id)) for need in needs)}.values())

    def named(self, job_ids: JobIds) -> Sequence[Job]:
        """The jobs with these ids, each once, without their output."""
        wanted = [job_ids] if isinstance(job_ids, (str, Added, Job)) else job_ids
        if not isinstance(wanted, Iterable):
            raise InvalidInput(f"{brief(job_ids)} is not the id of a job, nor a list of ids")
        return [self.storage.glance(job_id) for job_id in dict.fromkeys(map(self._id, wanted))]

    def runs(self, job: Job) -> list[Run]:
        """The tries of a job that have ended."""
        return self.storage.runs_of(job)

    def needs(self, job: Job) -> list[Link]:
        """The jobs that this job waits for or waited for."""
        return self.storage.needs_of(job)

    def dependents(self, job: Job) -> list[Link]:
        """The jobs that wait or waited for this job."""
        return self.storage.dependents_of(job)

    def list(
        self,
        state: State | str | None = None,
        limit: int = 20,
        *,
        queue: str | None = None,
        label: str | None = None,
        match: str | None = None,
        older_than: timedelta | float | str | None = None,
    ) -> list[Job]:
        """The newest jobs, newest first, or pending jobs in the order in which they will run; without their output."""
        if type(limit) is not int or limit < 1:
            raise InvalidInput(f"limit cannot be {brief(limit)}. It takes a whole number from 1")
        seconds = None if older_than is None else checked_delay(older_than)
        wanted = Selection(known_state(state), label, match, seconds, queue)
        return [job for page in self.find_all(wanted, limit) for job in page]

    def find(self, wanted: Selection, limit: int = 20, cursor: str = "") -> Page:
        """One page of the jobs that match the selection."""
        if wanted.queue is not None:
            self.storage.must_have_had(wanted.queue)
        return find(self.storage, wanted, limit, cursor)

    def find_all(self, wanted: Selection, limit: int | None = None) -> Iterator[Sequence[Job]]:
        """All jobs that match the selection, in batches."""
        if wanted.queue is not None:
            self.storage.must_have_had(wanted.queue)
        return find_all(self.storage, wanted, limit)

    def counts(self) -> dict[str, int]:
        """The number of jobs in each state."""
        totals = self.storage.totals()
        return {state.value: totals[state.value] for state in State}

    def status(self) -> Status:
        """The counts, and what each worker does; nothing is changed, even if a worker is lost."""
        from queuectl.worker_manager import WorkerManager

        return Status(self.counts(), WorkerManager(self.home, self.storage).standings())

    def queues(self) -> Sequence[tuple[QueueRow, dict[str, int]]]:
        """Every named queue, with its number of jobs in each state."""
        totals = self.storage.totals_by_queue()
        self.storage.look_at_clock()
        return [(found, totals.get(found.name, {})) for found in self.storage.known_queues.values()]

    # --- waiting ---

    def wait(self, job_ids: JobIds, timeout: float | None = None) -> Sequence[Job]:
        """Wait until these jobs have ended, and return them with their output.

        A job that was purged after its end is returned without its output. Raises WaitedTooLong, a TimeoutError, if
        the jobs have not ended within `timeout` seconds, and JobNotFound if a job was deleted before its end was seen.
        """
        from queuectl.waiting import ForJobs, wait_until_over

        jobs = self.named(job_ids)
        wanted = ForJobs(self.storage, jobs)
        wait_until_over(self.storage, wanted, timeout)
        for job in wanted.deleted:
            raise JobNotFound(job.id)
        ended = {job.seq: job for job in wanted.ended}
        return [self.storage.job_at(job.seq) or ended[job.seq] for job in jobs]

    def wait_all(self, timeout: float | None = None, queue: str | None = None) -> bool:
        """Wait until no job waits or runs, in this queue or, without one, in any.

        Returns whether all jobs that ended meanwhile are completed.
        """
        from queuectl.waiting import ForAll, wait_until_over

        wanted = ForAll(self.storage, queue)
        wait_until_over(self.storage, wanted, timeout)
        return wanted.progress().all_completed

    # --- changing jobs ---

    def cancel(self, job_ids: JobIds, reason: str = "cancelled by the user") -> Sequence[Job]:
        """Cancel jobs: waiting jobs at once, and running jobs once their processes are killed."""
        reason = clean("The reason", reason)
        jobs = self.named(job_ids)
        for job in jobs:
            refuse_ended(job)
        self.cancel_all(jobs, reason)
        return [self.storage.glance(job.id) for job in jobs]

    def cancel_all(self, jobs: Sequence[Job], reason: str = "cancelled by the user") -> int:
        """Cancel the jobs that have not ended; return how many, including the jobs that waited for them.

        A job whose worker is dead has no worker to end its run, so it is first put back in line.
        """
        if any(job.state is State.PROCESSING for job in jobs):
            from queuectl.recovery import recover

            recover(self.storage, self.home)
        return self.storage.cancel_all(jobs, reason)

    def retry(self, job_ids: JobIds) -> Sequence[Job]:
        """Put jobs that have ended back in line, as if they were new; their history and output are kept."""
        jobs = self.named(job_ids)
        for job in jobs:
            refuse_unended(job)
        if self.retry_all(jobs) < len(jobs):
            for job in self.named(job_ids):
                if job.state.has_ended:
                    key = f"another job with its key {job.unique_key!r} waits or runs"
                    raise WrongState(f"Job {job.id!r} was not retried: {key}. See: queuectl list")
        return jobs

    def retry_all(self, jobs: Iterable[Job]) -> int:
        """Put the jobs back in line whose state has not changed since they were read; return how many."""
        return sum(self.retry_each(jobs))

    def retry_each(self, jobs: Iterable[Job]) -> Iterator[int]:
        """Like retry_all, in batches, dependencies before their dependents; yields each batch's number of jobs."""
        from queuectl.retrying import retry_all

        return retry_all(self.storage, jobs)

    def delete(self, job_ids: JobIds) -> Sequence[Job]:
        """Delete jobs that are not running, with their history and logs."""
        jobs = self.named(job_ids)
        for job in jobs:
            refuse_running(job)
        self.delete_all(jobs)
        return jobs

    def delete_all(self, jobs: Sequence[Job], leave: Callable[[str], None] = lambda path: None) -> int:
        """Delete the jobs whose state has not changed since they were read; return how many.

        On Windows a log that is open in another program cannot be removed: `leave` is called with its path.
        """
        deleted = self.storage.delete(jobs)
        for job in deleted:
            for path in remove_logs(self.home, job):
                leave(path)
        return len(deleted)

    def edit(self, job_id: JobId, **fields: Unpack[Changes]) -> Job:
        """Change a waiting job; the keyword arguments are named like the options of `queuectl enqueue`."""
        [job] = self.named([job_id])
        wanted = changes(job, {**fields}, current_directory(), self.storage.clock.now())
        if "cwd" in wanted and not self.storage.is_shared and not job.waits_for:
            existing(wanted["cwd"])
        return self.storage.edit(job, wanted)

    def promote(self, job_id: JobId) -> Job:
        """Put a waiting job before all others."""
        [job] = self.named([job_id])
        self.storage.promote(job)
        return self.storage.glance(job.id)

    # --- settings ---

    def settings(self) -> config.Settings:
        return self.storage.settings()

    def all_settings(self) -> dict[str, Any]:
        """All settings by name; the database URL, which each machine sets itself, has its password masked."""
        return {**self.storage.settings()._asdict(), DATABASE: self.setting(DATABASE)}

    def setting(self, name: str) -> Any:
        """One setting; `database` can be read even if the database cannot be used."""
        known = config.canonical(name)
        return masked(database_url(self.home)) if known == DATABASE else getattr(self.storage.settings(), known)

    def set(self, name: str, value: str) -> str:
        """Change a setting for all workers, without restarting them; return the value as it is shown."""
        known = config.canonical(name)
        if known == DATABASE:
            return self._set_database(checked(value))
        text = config.check(known, value)
        self.storage.set_setting(known, text)
        return text

    def _set_database(self, url: str) -> str:
        """Use another database on this machine from now on, if it can be opened."""
        open_storage(self.home, url).close()
        configure(self.home, url)
        self.close()
        return masked(url)

    def unset(self, name: str) -> None:
        known = config.canonical(name)
        if known == DATABASE:
            configure(self.home, None)
            self.close()
        else:
            self.storage.set_setting(known, None)


def traced(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """The jobs as part of the current trace or, without one, each in a trace of its own if tracing is configured."""
    if not any(name in os.environ for name in TRACE_SIGNS) and "opentelemetry.trace" not in sys.modules:
        return jobs
    from queuectl.tracing import begun, context

    found = context()
    return [job._replace(traceparent=found or begun()) for job in jobs]


def check_shells(jobs: Iterable[NewJob]) -> None:
    """Refuse jobs whose shell is not installed; not for a shared queue, as another machine may have the shell."""
    for shell in {job.shell for job in jobs if job.shell}:
        if not config.is_there(shell):
            raise InvalidInput(f"No {shell} is there to run it. Install it, or choose another with --shell")


def current_directory() -> str:
    try:
        return clean("The name of the current directory", os.getcwd())
    except OSError:
        raise QueueError("The current directory is gone. Change to one that exists and try again") from None


def captured_environment() -> dict[str, str]:
    """This process's environment, without the variables of the run that this process may be part of."""
    return {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
