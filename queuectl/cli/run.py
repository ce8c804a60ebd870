"""`run`: enqueue a job, and show its output as it comes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from queuectl.cli.hand_in import place_line, tell
from queuectl.cli.options import command_of, job_fields, job_options
from queuectl.cli.typed_json import typed_job
from queuectl.follow import follow
from queuectl.job import TIMED_OUT, Job, State
from queuectl.queue import Place, Queue
from queuectl.storage import Added
from queuectl.why import gates, gather, hands
from queuectl.worker_manager import StartFailed, WorkerManager


@click.command()
@click.argument("command", nargs=-1)
@job_options
def run(command: tuple[str, ...], line: str | None, strict: bool, **options: Any) -> None:
    """Run a command through the queue, show its output as it comes, and exit with its exit code.

    The command is tried once unless --max-retries says otherwise. A worker is started if none is there for the job: if
    no worker is running, or all were told to stop. If the worker dies while the job waits, another one is started; if a
    user stops the worker, none is started, and `run` says so and goes on waiting. Ctrl+C leaves the job running.

    \b
    Example:
      queuectl run "make all"
    """
    queue = Queue()
    fields, wanted, given = job_fields(options), command_of(command, line), typed_job(command)
    job = dict(fields, command=wanted) if given is None else given | fields
    job.setdefault("max_retries", 0)
    [added] = queue.enqueue_all([job], strict=strict, warn=tell)
    attendance = Attendance(queue, added)
    try:
        attendance.begin()
        if not added.is_new or queue.place(added) != Place(0):
            click.echo(place_line(queue, added), err=True)
    except KeyboardInterrupt:
        goes_on(added.id)
    streams = sys.stdout.buffer, sys.stderr.buffer
    leave_with(added.id, lambda: follow(queue, added.id, streams, attendance.look))


class Attendance:
    """Makes sure that there is a worker for the job, and tells the user what the job waits for."""

    def __init__(self, queue: Queue, added: Added) -> None:
        self._storage = queue.storage
        self._added = added
        self._workers = WorkerManager(queue.home, queue.storage)
        self._was_served: bool | None = None  # what the user was told last

    def begin(self) -> None:
        with self._starting():
            if self._workers.must_start_one(self._added.queue):
                self._workers.start(1)

    def look(self) -> None:
        """Called once a second until the job has ended."""
        with self._starting():
            is_served = self._workers.replace_lost(self._added.queue)
        job = self._storage.glance(self._added.id)
        if job.is_waiting and is_served is not self._was_served:
            self._was_served = is_served
            facts = gather(self._storage, job)
            for line in (*gates(facts), *hands(facts)):
                click.echo(f"Job {job.id} waits. {line}", err=True)

    @contextmanager
    def _starting(self) -> Iterator[None]:
        try:
            yield
        except StartFailed as error:
            raise StartFailed(f"{error}. Job {self._added.id} is stored, and waits for a worker") from None


def leave_with(job_id: str, until_end: Callable[[], Job]) -> NoReturn:
    """Follow the job until it has ended, and exit with its exit code."""
    try:
        job = until_end()
    except KeyboardInterrupt:
        goes_on(job_id)
    sys.exit(exit_code(job))


def goes_on(job_id: str) -> NoReturn:
    """Exit after Ctrl+C, which ends this command and not the job."""
    hint = f"To follow it: queuectl logs -f {job_id}. To cancel it: queuectl cancel {job_id}"
    click.echo(f"\nJob {job_id} goes on. {hint}", err=True)
    sys.exit(130)


def exit_code(job: Job) -> int:
    """The command's exit code; without one, 124 for a time limit and 1 otherwise, with the reason on stderr."""
    if job.state is State.COMPLETED:
        return 0
    if job.exit_code is None:
        click.echo(f"Job {job.id}: {job.error_message or job.state}", err=True)
        return 124 if (job.error_message or "").startswith(TIMED_OUT) else 1
    return job.exit_code or 1
