"""`dlq`: the dead letter queue, jobs that are out of retries."""

from __future__ import annotations

from typing import Any

import click

from queuectl import render, shapes
from queuectl.cli.options import as_json as json_option
from queuectl.cli.selecting import (
    PURGE,
    RETRY,
    Bulk,
    Deed,
    asking,
    chosen,
    delete_named,
    deleting,
    ids_or,
    job_ids_argument,
    named,
    none,
    retry_named,
    retrying,
    selection,
    without_state,
)
from queuectl.errors import InvalidInput, WrongState
from queuectl.job import Job, State
from queuectl.queue import Queue
from queuectl.selection import Selection

DEAD = Selection(State.DEAD)


def refuse_others(job: Job) -> None:
    if job.state is not State.DEAD:
        raise WrongState(f"Job {job.id!r} is {job.state}, not dead: nothing was done. See: queuectl dlq list")


def of_dead(deed: Deed) -> Deed:
    return deed._replace(states=(State.DEAD,), refuse=refuse_others)


@click.group()
def dlq() -> None:
    """The dead letter queue: jobs that are out of retries.

    \b
    Example:
      queuectl dlq list
    """


@dlq.command("list")
@job_ids_argument
@without_state
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@json_option
def list_dead(job_ids: tuple[str, ...], limit: int, as_json: bool, **options: Any) -> None:
    """The newest dead jobs, and why they died.

    \b
    Example:
      queuectl dlq list
    """
    queue = Queue()
    wanted = ids_or(job_ids, options, needs_one=False)._replace(state=State.DEAD)
    if job_ids:
        jobs = named(queue, job_ids, of_dead(RETRY))
    else:
        jobs = [job for page in queue.find_all(wanted, limit) for job in page]
    if as_json:
        click.echo(shapes.to_json([shapes.job_json(job) for job in jobs]))
    else:
        click.echo(render.dead_table(jobs) if jobs else none(wanted))


@dlq.command()
@job_ids_argument
@click.option("--all", "everything", is_flag=True, help="Every dead job, without asking.")
@without_state
@asking
def retry(job_ids: tuple[str, ...], everything: bool, **options: Any) -> None:
    """Put dead jobs back in line, as if they were new; what their tries printed is kept.

    \b
    Examples:
      queuectl dlq retry job1 job2
      queuectl dlq retry --all
      queuectl dlq retry --queue gpu
    """
    queue = Queue()
    if everything:
        if job_ids or selection(options) != Selection():
            raise InvalidInput("--all is every dead job. Leave out the ids and the other selectors")
        Bulk(queue, DEAD, of_dead(RETRY), options["limit"], True, options["dry_run"]).do(retrying(queue))
    elif bulk := chosen(queue, job_ids, of_dead(RETRY), options):
        bulk.do(retrying(queue))
    else:
        named(queue, job_ids, of_dead(RETRY))
        retry_named(queue, job_ids)


@dlq.command()
@job_ids_argument
@without_state
@asking
def purge(job_ids: tuple[str, ...], **options: Any) -> None:
    """Delete every dead job, or those that are selected, with their history and logs.

    \b
    Example:
      queuectl dlq purge --yes
    """
    queue = Queue()
    if bulk := chosen(queue, job_ids, of_dead(PURGE), options, needs_one=False):
        bulk.do(deleting(queue))
    else:
        delete_named(queue, job_ids, of_dead(PURGE))
