"""`dlq`: the dead letter queue, jobs that are out of retries."""

from __future__ import annotations

import click

from queuectl import render, shapes
from queuectl.cli.options import as_json as json_option
from queuectl.cli.selecting import DELETE, ENDED, RETRY, Bulk, asking, deleting, retrying
from queuectl.errors import InvalidInput, WrongState
from queuectl.job import State
from queuectl.queue import Queue
from queuectl.selection import Selection


def dead(queue: str | None) -> Selection:
    return Selection(State.DEAD, queue=queue)


@click.group()
def dlq() -> None:
    """The dead letter queue: jobs that are out of retries.

    \b
    Example:
      queuectl dlq list
    """


of_queue = click.option("--queue", "name", metavar="NAME", help="Only jobs of this queue.")


@dlq.command("list")
@of_queue
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@json_option
def list_dead(name: str | None, limit: int, as_json: bool) -> None:
    """The newest dead jobs, and why they died.

    \b
    Example:
      queuectl dlq list
    """
    jobs = [job for page in Queue().find_all(dead(name), limit) for job in page]
    if as_json:
        click.echo(shapes.to_json([shapes.job_json(job) for job in jobs]))
    elif jobs:
        click.echo(render.dead_table(jobs))
    else:
        click.echo("No dead jobs.")


@dlq.command()
@click.argument("job_ids", metavar="ID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every dead job.")
@of_queue
def retry(job_ids: tuple[str, ...], everything: bool, name: str | None) -> None:
    """Put dead jobs back in line, as if they were new; what their tries printed is kept.

    \b
    Examples:
      queuectl dlq retry job1 job2
      queuectl dlq retry --all
      queuectl dlq retry --queue gpu
    """
    if (everything or name is not None) == bool(job_ids):
        raise InvalidInput("Name the jobs to retry, or use --all or --queue. See: queuectl dlq list")
    queue = Queue()
    if not job_ids:
        Bulk(queue, dead(name), ENDED, yes=True).do(RETRY, retrying(queue))
        return
    for job in queue.named(job_ids):
        if job.state is not State.DEAD:
            raise WrongState(f"Job {job.id!r} is {job.state}, not dead: nothing was retried. See: queuectl dlq list")
    for job in queue.retry(job_ids):
        click.echo(f"Job {job.id} is pending again.")


@dlq.command()
@of_queue
@asking
def purge(name: str | None, limit: int | None, yes: bool, dry_run: bool) -> None:
    """Delete every dead job, or those of a queue, with their history and logs.

    \b
    Example:
      queuectl dlq purge --yes
    """
    queue = Queue()
    Bulk(queue, dead(name), ENDED, limit, yes, dry_run).do(DELETE, deleting(queue))
