"""`dlq`: the dead letter queue, jobs that are out of retries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from queuectl import render
from queuectl.cli.options import as_json as json_option
from queuectl.errors import InvalidInput, WrongState
from queuectl.job import State
from queuectl.queue import Queue
from queuectl.selection import Selection

DEAD = Selection(State.DEAD)


@click.group()
def dlq() -> None:
    """The dead letter queue: jobs that are out of retries.

    \b
    Example:
      queuectl dlq list
    """


@dlq.command("list")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@json_option
def list_dead(limit: int, as_json: bool) -> None:
    """The newest dead jobs, and why they died.

    \b
    Example:
      queuectl dlq list
    """
    jobs = Queue().list(State.DEAD, limit)
    if as_json:
        click.echo(render.to_json([render.job_json(job) for job in jobs]))
    elif jobs:
        click.echo(render.dead_table(jobs))
    else:
        click.echo("No dead jobs.")


@dlq.command()
@click.argument("job_ids", metavar="ID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every dead job.")
def retry(job_ids: tuple[str, ...], everything: bool) -> None:
    """Put dead jobs back in line, as if they were new; what their tries printed is kept.

    \b
    Examples:
      queuectl dlq retry job1 job2
      queuectl dlq retry --all
    """
    if everything == bool(job_ids):
        raise InvalidInput("Name the jobs to retry, or use --all. See: queuectl dlq list")
    queue = Queue()
    if everything:
        count = progress(map(queue.retry_all, queue.find_all(DEAD)), "retried")
        click.echo("1 job is pending again." if count == 1 else f"{count:,} jobs are pending again.")
        return
    for job in queue.named(job_ids):
        if job.state is not State.DEAD:
            raise WrongState(f"Job {job.id!r} is {job.state}, not dead: nothing was retried. See: queuectl dlq list")
    for job in queue.retry(job_ids):
        click.echo(f"Job {job.id} is pending again.")


@dlq.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(yes: bool) -> None:
    """Delete every dead job with its history and logs.

    \b
    Example:
      queuectl dlq purge --yes
    """
    queue = Queue()
    count = queue.counts()["dead"]
    if not count:
        click.echo("No dead jobs.")
        return
    if not yes:
        dead = "the dead job with its" if count == 1 else f"{count:,} dead jobs with their"
        click.confirm(f"Delete {dead} history and logs?", abort=True, err=True)
    left: list[str] = []
    delete = partial(queue.delete_all, leave=left.append)
    count = progress(map(delete, queue.find_all(DEAD)), "deleted")
    click.echo("1 job was deleted." if count == 1 else f"{count:,} jobs were deleted.")
    for path in left:
        click.echo(f"Warning: {path} could not be deleted: somebody has it open. Delete it yourself later.", err=True)


def progress(batches: Iterator[int], done: str) -> int:
    """Go through the batches, saying on stderr how far it is when there are many."""
    total = 0
    for number, count in enumerate(batches, 1):
        total += count
        if number % 20 == 0:
            click.echo(f"{total:,} {done} …", err=True)
    return total
