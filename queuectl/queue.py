"""The public Python API: what the CLI calls, and what a script can call without it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from queuectl import config
from queuectl.config import DATABASE
from queuectl.database import checked, configure, database_url, masked
from queuectl.errors import QueueError, WrongState
from queuectl.files import remove
from queuectl.home import open_home
from queuectl.job import RUN_VARIABLES, Job, State, clean, parse
from queuectl.storage import AFTER_ALL_JOBS, Added, Run, Storage, open_storage

BATCH = 500


class Place(NamedTuple):
    """Where a new job stands: how many are before it, or when its time comes."""

    ahead: int | None
    run_at: int | None


class Queue:
    def __init__(self, home: str | None = None) -> None:
        self.home = open_home(home)
        self._storage: Storage | None = None

    @property
    def storage(self) -> Storage:
        if self._storage is None:
            self._storage = open_storage(self.home)
        return self._storage

    def close(self) -> None:
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    # --- jobs ---

    def enqueue(self, command: str | list[str], **fields: Any) -> Added:
        """Store one job; the fields are named like the options of `queuectl enqueue`."""
        return self.enqueue_all([dict(fields, command=command)])[0]

    def enqueue_all(self, jobs: Iterable[Mapping[str, Any]], defaults: Mapping[str, Any] | None = None) -> list[Added]:
        """Store many jobs, all or none, as one enqueue. They get this process's directory and environment."""
        settings, now, cwd = self.storage.settings(), self.storage.clock.now(), current_directory()
        common = dict(defaults or {})
        new = [parse(over(common, fields), settings, cwd, now) for fields in jobs]
        return self.storage.add(new, captured_environment())

    def place(self, added: Added) -> Place:
        """Where a job that was just added stands."""
        if added.rank is None:
            return Place(None, self.storage.job(added.id).run_at)
        return Place(self.storage.ahead(added.rank, added.seq), None)

    def get(self, job_id: str) -> Job:
        return self.storage.job(job_id)

    def runs(self, job: Job) -> list[Run]:
        """The tries of a job that have ended."""
        return self.storage.runs_of(job)

    def list(self, state: State | None = None, limit: int = 20) -> list[Job]:
        """The newest jobs, newest first, without what they printed."""
        return self.storage.jobs(state, limit)

    def counts(self) -> dict[str, int]:
        """How many jobs there are in each state."""
        totals = self.storage.totals()
        return {state.value: totals[state.value] for state in State}

    def cancel(self, job_ids: Sequence[str], reason: str = "cancelled by the user") -> Sequence[Job]:
        """Cancel jobs: at once those that wait, and those that run once their run is dead."""
        jobs = [self.storage.glance(job_id) for job_id in dict.fromkeys(job_ids)]
        for job in jobs:
            if job.state.has_ended:
                raise WrongState(f"Job {job.id!r} is {job.state} already: there is nothing to cancel")
        for job in jobs:
            self.storage.cancel(job, reason)
        return [self.storage.glance(job.id) for job in jobs]

    # --- dead letters ---

    def retry(self, job_ids: Sequence[str]) -> None:
        """Put dead jobs back in line, all or none."""
        jobs = [self.storage.glance(job_id) for job_id in dict.fromkeys(job_ids)]
        for job in jobs:
            if job.state is not State.DEAD:
                raise WrongState(
                    f"Job {job.id!r} is {job.state}, not dead: nothing was retried. See: queuectl dlq list"
                )
        self.storage.retry(jobs)

    def retry_all(self) -> Iterator[int]:
        """Put every dead job back in line, a batch at a time; says how many each time."""
        for jobs in self._dead():
            yield self.storage.retry(jobs)

    def purge(self) -> Iterator[int]:
        """Delete every dead job with its history and logs, a batch at a time; says how many each time."""
        for jobs in self._dead():
            yield self.storage.delete(jobs)
            for job in jobs:
                for lease in range(1, job.lease + 1):
                    for path in self.home.kept(job.seq, lease):
                        remove(path)

    def _dead(self) -> Iterator[Sequence[Job]]:
        """The dead jobs in batches, each job once, also if it dies again meanwhile."""
        before = AFTER_ALL_JOBS
        while jobs := self.storage.jobs(State.DEAD, BATCH, before):
            before = jobs[-1].seq
            yield jobs

    # --- settings ---

    def settings(self) -> config.Settings:
        return self.storage.settings()

    def all_settings(self) -> dict[str, Any]:
        """By name; the database, which is this machine's own setting, as it may be shown to anybody."""
        return {**self.storage.settings()._asdict(), DATABASE: masked(database_url(self.home))}

    def set(self, name: str, value: str) -> str:
        """Set a setting for all workers; takes effect without restarting them. Returns the value as it is shown."""
        known = config.canonical(name)
        if known == DATABASE:
            return self._set_database(checked(value))
        text = config.check(known, value)
        self.storage.set_setting(known, text)
        return text

    def _set_database(self, url: str) -> str:
        """Where the queue is, from now on, for this machine; only if it can be used."""
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


def over(defaults: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, and the defaults of those that are not given; null is not given, and delay and run_at are one."""
    if not defaults:
        return dict(fields)
    given = {name for name, value in fields.items() if value is not None}
    if given & {"delay", "run_at"}:
        given |= {"delay", "run_at"}
    return {**fields, **{name: value for name, value in defaults.items() if name not in given}}


def current_directory() -> str:
    try:
        return clean("The name of the current directory", os.getcwd())
    except OSError:
        raise QueueError("The current directory is gone. Change to one that exists and try again") from None


def captured_environment() -> dict[str, str]:
    """This process's environment, without the marks of the run that it may itself be part of."""
    return {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
