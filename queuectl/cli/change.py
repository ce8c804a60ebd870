"""`retry`, `delete`, `purge`, `edit` and `promote`: change stored jobs."""

from __future__ import annotations

from typing import Any

import click

from queuectl.cli.hand_in import place_line, tell
from queuectl.cli.options import command_of, describing, job_fields, timing
from queuectl.cli.selecting import (
    AT_REST,
    DELETE,
    ENDED,
    PURGE,
    RETRY,
    Bulk,
    asking,
    chosen,
    delete_named,
    deleting,
    job_ids_argument,
    retry_named,
    retrying,
    selection,
    selectors,
)
from queuectl.cli.typed_json import typed_job
from queuectl.errors import InvalidInput
from queuectl.job import State
from queuectl.queue import Queue
from queuectl.selection import Selection
from queuectl.storage import Added


@click.command()
@job_ids_argument
@click.option("--all-failed", is_flag=True, help="Every job that is dead, without asking.")
@selectors(ENDED)
@asking
def retry(job_ids: tuple[str, ...], all_failed: bool, **options: Any) -> None:
    """Put jobs that have ended back in line, as if they were new; what their tries printed is kept.

    A job that once waited for other jobs waits again for those that have not ended or are retried with it.

    \b
    Examples:
      queuectl retry job1 job2
      queuectl retry --all-failed
      queuectl retry --state cancelled --older-than 1h
    """
    queue = Queue()
    if all_failed:
        if job_ids or selection(options) != Selection():
            raise InvalidInput("--all-failed is every dead job. Leave out the ids and the other selectors")
        bulk = Bulk(queue, Selection(State.DEAD), RETRY, options["limit"], True, options["dry_run"])
        bulk.do(retrying(queue))
    elif found := chosen(queue, job_ids, RETRY, options):
        found.do(retrying(queue))
    else:
        retry_named(queue, job_ids)


@click.command()
@job_ids_argument
@selectors(AT_REST)
@asking
def delete(job_ids: tuple[str, ...], **options: Any) -> None:
    """Delete jobs that do not run, with their history and logs.

    If a deleted job had not ended, jobs that wait for it are cancelled, unless they were added with --after-any.

    \b
    Examples:
      queuectl delete job1 job2
      queuectl delete --match "rm -rf" --dry-run
    """
    queue = Queue()
    if bulk := chosen(queue, job_ids, DELETE, options):
        bulk.do(deleting(queue))
    else:
        delete_named(queue, job_ids, DELETE)


@click.command()
@job_ids_argument
@selectors(ENDED)
@asking
def purge(job_ids: tuple[str, ...], **options: Any) -> None:
    """Delete jobs that have ended, with their history and logs: all of them, or those that are selected.

    Workers go on meanwhile. To purge automatically: queuectl config set keep-completed 30d

    \b
    Examples:
      queuectl purge --older-than 7d
      queuectl purge --state completed --yes
    """
    queue = Queue()
    if bulk := chosen(queue, job_ids, PURGE, options, needs_one=False):
        bulk.do(deleting(queue))
    else:
        delete_named(queue, job_ids, PURGE)


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("command", nargs=-1)
@describing
@timing
@click.option("--unset-env", multiple=True, metavar="KEY", help="Remove a variable that --env set; repeatable.")
def edit(job_id: str, command: tuple[str, ...], line: str | None, unset_env: tuple[str, ...], **options: Any) -> None:
    """Change a job that waits: its command, priority, times and limits.

    Everything else stays as it is, including variables that --env does not name. --delay 0 lets the job run now.

    \b
    Examples:
      queuectl edit job1 --priority 9 --timeout 600
      queuectl edit job1 "make all"
      queuectl edit last --delay 2h
    """
    queue = Queue()
    fields = job_fields(options)
    wanted, given = command_of(command, line), typed_job(command)
    if given is not None:
        fields = {**given, **fields}
    elif wanted is not None:
        fields["command"] = wanted
    if unset_env and isinstance(fields.get("env", {}), dict):
        fields["env"] = {**fields.get("env", {}), **dict.fromkeys(unset_env)}
    job = queue.edit(job_id, **fields)
    click.echo(f"Job {job.id} is changed.")
    tell(place_line(queue, Added(job.seq, job.id, job.rank, queue=job.queue)))


@click.command()
@click.argument("job_id", metavar="ID")
def promote(job_id: str) -> None:
    """Put a job that waits first in line, whatever its rank.

    \b
    Example:
      queuectl promote job1
    """
    job = Queue().promote(job_id)
    click.echo(f"Job {job.id} is first in line.")
