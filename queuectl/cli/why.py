"""`why`: what a job waits for, in plain sentences."""

from __future__ import annotations

import click

from queuectl import shapes
from queuectl.cli.options import as_json as json_option
from queuectl.queue import Queue
from queuectl.render import state_text
from queuectl.why import gather, reasons


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
def why(job_id: str, as_json: bool) -> None:
    """Why a job has not run yet, or ran when it did: what it waits for, its place in line, when it may start.

    \b
    Example:
      queuectl why job1
    """
    queue = Queue()
    [job] = queue.named([job_id])
    found = reasons(gather(queue.storage, job))
    if as_json:
        click.echo(shapes.to_json(shapes.why_json(job, found)))
        return
    click.echo(f"Job {job.id} is {state_text(job.state)}.")
    for reason in found:
        click.echo(reason)
