"""`cancel`: a job that waits at once, a job that runs once its processes are dead."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from queuectl.cli.selecting import CANCEL, UNENDED, asking, chosen, each, job_ids_argument, selectors
from queuectl.job import State
from queuectl.queue import Queue


@click.command()
@job_ids_argument
@click.option("--reason", default="cancelled by the user", help="Kept with the job.")
@selectors
@asking
def cancel(job_ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Cancel jobs: waiting ones at once, running ones by ending all their processes.

    Jobs that wait for a cancelled one are cancelled with it, unless they were to run whatever its end.

    \b
    Examples:
      queuectl cancel job1 last
      queuectl cancel --label nightly --reason "wrong file"
    """
    queue = Queue()
    if bulk := chosen(queue, job_ids, UNENDED, options):
        bulk.do(CANCEL, each(partial(queue.cancel_all, reason=reason)))
        return
    for job in queue.cancel(job_ids, reason):
        click.echo(f"Job {job.id} is {'being ended' if job.state is State.PROCESSING else job.state}.")
