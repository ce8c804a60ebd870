"""`cancel`: a job that waits at once, a job that runs once its processes are dead."""

from __future__ import annotations

import click

from queuectl.job import State
from queuectl.queue import Queue


@click.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", default="cancelled by the user", help="Kept with the job.")
def cancel(job_ids: tuple[str, ...], reason: str) -> None:
    """Cancel jobs: waiting ones at once, running ones by ending all their processes.

    \b
    Example:
      queuectl cancel job1
    """
    for job in Queue().cancel(job_ids, reason):
        click.echo(f"Job {job.id} is cancelled." if job.state is State.CANCELLED else f"Job {job.id} is being ended.")
