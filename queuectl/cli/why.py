"""`why`: what a job waits for, in plain sentences."""

from __future__ import annotations

import click

from queuectl.queue import Queue
from queuectl.render import state_text
from queuectl.why import gather, reasons


@click.command()
@click.argument("job_id", metavar="ID")
def why(job_id: str) -> None:
    """Why a job has not run yet, or ran when it did: what it waits for, its place in line, when it may start.

    \b
    Example:
      queuectl why job1
    """
    queue = Queue()
    [job] = queue.named([job_id])
    click.echo(f"Job {job.id} is {state_text(job.state)}.")
    for reason in reasons(gather(queue.storage, job)):
        click.echo(reason)
