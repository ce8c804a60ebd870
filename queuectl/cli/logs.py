"""`logs`: what a job has printed, try by try, and what it prints from now on."""

from __future__ import annotations

import os
import sys

import click

from queuectl.cli.run import leave_with
from queuectl.follow import elsewhere, follow, lease_of, show_try
from queuectl.queue import Queue


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Go on until the job has ended, and exit with its exit code."
)
@click.option("--stderr", "only_stderr", is_flag=True, help="Only what went to stderr, on stdout.")
@click.option("--attempt", type=click.IntRange(min=1), help="This try; with -f from this try on.")
@click.option("--tail", "lines", type=click.IntRange(min=0), metavar="N", help="The last N lines, and what comes.")
def logs(job_id: str, following: bool, only_stderr: bool, attempt: int | None, lines: int | None) -> None:
    """What a job printed in its newest try, or prints right now; with -f in all its tries, until it has ended.

    What it wrote to stdout goes to stdout, and the rest to stderr. What every try printed is kept until the job is
    deleted.

    \b
    Examples:
      queuectl logs -f job1
      queuectl logs --attempt 1 --stderr job1
      queuectl logs -f --tail 10 last
    """
    queue = Queue()
    [job] = queue.named([job_id])
    newest = job.lease if attempt is None else lease_of(queue, job, attempt)
    streams = sys.stdout.buffer, sys.stderr.buffer
    if only_stderr:
        streams = open(os.devnull, "wb"), sys.stdout.buffer  # noqa: SIM115 - for as long as we live
    if host := elsewhere(queue, job):
        click.echo(f"Job {job.id} runs on {host}: what it prints can be seen from here once it has ended.", err=True)
    if following:
        first = max(1, newest) if attempt is not None or lines is not None else 1
        leave_with(job.id, lambda: follow(queue, job.id, streams, lambda: None, first, lines))
    if not newest:
        click.echo(f"Job {job.id} has not run yet. See why: queuectl why {job.id}", err=True)
    show_try(queue, job, newest, streams, lines)
