"""`logs`: what a job has printed, try by try, and what it prints from now on."""

from __future__ import annotations

import os
import sys

import click

from queuectl.cli.hand_in import place_line
from queuectl.cli.run import leave_with
from queuectl.follow import elsewhere, follow, lease_of, show_try
from queuectl.job import Job, State
from queuectl.liveness import Condition, conditions
from queuectl.queue import Queue
from queuectl.storage import Added

SOON_MILLIS = 1_000


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Go on until the job has ended, and exit with its exit code."
)
@click.option("--stderr", "only_stderr", is_flag=True, help="Only what went to stderr, on stdout.")
@click.option(
    "--attempt", type=click.IntRange(min=1), help="This try, as `show` numbers them; with -f from this one on."
)
@click.option("--tail", "lines", type=click.IntRange(min=0), metavar="N", help="The last N lines, and what comes.")
def logs(job_id: str, following: bool, only_stderr: bool, attempt: int | None, lines: int | None) -> None:
    """What a job printed in its newest try, or prints right now; with -f in all its tries, until it has ended.

    If the job was retried by hand, -f begins with the first try after that. The job's stdout goes to stdout, and its
    stderr to stderr. The output of every try is kept until the job is deleted.

    \b
    Examples:
      queuectl logs -f job1
      queuectl logs --attempt 1 --stderr job1
      queuectl logs -f --tail 10 last
    """
    queue = Queue()
    [job] = queue.named([job_id])
    newest = job.lease if attempt is None else lease_of(job, attempt)
    streams = sys.stdout.buffer, sys.stderr.buffer
    if only_stderr:
        streams = open(os.devnull, "wb"), sys.stdout.buffer  # noqa: SIM115 - open until the process exits
    if host := elsewhere(queue, job):
        click.echo(f"Job {job.id} runs on {host}: what it prints can be seen from here once it has ended.", err=True)
    if following:
        first = job.begun_after + 1
        if attempt is not None or lines is not None:
            first = newest if attempt is not None else max(first, newest)
        tell_holdup = Holdups(queue, job.id)
        tell_holdup()
        leave_with(job.id, lambda: follow(queue, job.id, streams, tell_holdup, first, lines))
    if not newest:
        click.echo(f"Job {job.id} has not run yet. See why: queuectl why {job.id}", err=True)
    show_try(queue, job, newest, streams, lines)


class Holdups:
    """Tells the user what holds a job up, each time the reason changes."""

    def __init__(self, queue: Queue, job_id: str) -> None:
        self._queue = queue
        self._job_id = job_id
        self._told: str | None = None

    def __call__(self) -> None:
        found = holdup(self._queue, self._queue.storage.glance(self._job_id))
        if found is not None and found != self._told:
            click.echo(found, err=True)
        self._told = found or self._told


def holdup(queue: Queue, job: Job) -> str | None:
    """What holds a job up, if it is more than its place in line."""
    if not job.is_waiting and job.state is not State.PROCESSING:
        return None
    storage = queue.storage
    found = conditions(storage)
    alive = [worker for worker, condition in found if condition is Condition.ALIVE]
    if job.state is State.PROCESSING:
        if job.worker not in [worker.name for worker, condition in found if condition is not Condition.ALIVE]:
            return None
        then = "another one puts it back in line within seconds" if alive else "start another: queuectl worker start"
        return f"Job {job.id} is in the hands of worker {job.worker}, which is lost: {then}"
    if job.waits_for or (job.due_at is not None and job.due_at > storage.clock.now() + SOON_MILLIS):
        return place_line(queue, Added(job.seq, job.id, job.rank, queue=job.queue))
    if storage.queue(job.queue).is_paused:
        return f"Queue {job.queue} is paused. To let it go on: queuectl queue resume {job.queue}"
    if not alive:
        return "No worker is running. Start one with: queuectl worker start"
    if not any(worker.serves(job.queue) for worker in alive):
        return f"No worker serves queue {job.queue}. Start one with: queuectl worker start --queue {job.queue}"
    return None
