"""`db`: move the queue to another database, check it, copy it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from queuectl import shapes
from queuectl.backup import back_up
from queuectl.checking import check as check_queue
from queuectl.cli.options import as_json as json_option
from queuectl.cli.worker import manager
from queuectl.database import VARIABLE, checked, masked
from queuectl.moving import has_arrived, move, reopen
from queuectl.queue import Queue

PATIENCE_SECONDS = 5.0  # until the jobs that stopped workers left behind are put back


@click.group()
def db() -> None:
    """Move the queue to another database, check it, copy it.

    \b
    Example:
      queuectl db move --to postgresql://me@server/queue
    """


@db.command("move")
@click.option("--to", "url", required=True, metavar="URL", help="postgresql://user@host/database or sqlite:///path")
@click.option("--wait", is_flag=True, help="Stop all workers first, as `worker stop --all` does.")
def move_queue(url: str, wait: bool) -> None:
    """Move the whole queue to another database, and use it there.

    Jobs, their history and output, environments and settings are moved, and so are the counter of job numbers and the
    order of the line. First the old database is closed: every command that still uses it says where the queue went.
    Then everything is copied and compared, and finally this machine's setting `database` is changed. The old database
    stays where it is, closed.

    If the move is interrupted, the same command continues it. To give it up: queuectl db reopen.

    \b
    Examples:
      queuectl db move --to postgresql://me@server/queue
      queuectl db move --wait --to sqlite:////home/me/.queuectl/queuectl.db
    """
    url = checked(url)
    queue = Queue()
    before = masked(queue.storage.url)
    if wait and queue.storage.workers():
        workers = manager()
        grace = workers.storage.settings().stop_grace
        workers.stop(grace)
        workers.stop_elsewhere(grace)
    with progress("Moving") as show:
        rows = move(queue.home, queue.storage, url, show, PATIENCE_SECONDS if wait else 0)
    if rows:
        click.echo(f"Moved {rows['jobs']:,} jobs and {rows['runs']:,} runs; counts and checksums agree.")
        click.echo(f"What is left in {before} is closed. Remove it when you like.", err=True)
    click.echo(f"The queue is in {masked(url)}.")
    if VARIABLE in os.environ:
        click.echo(f"But {VARIABLE} is set, and takes precedence. Unset it to use the queue there.", err=True)


@db.command("reopen")
@click.option("--yes", is_flag=True, help="Do not ask.")
def reopen_queue(yes: bool) -> None:
    """Open a queue again that `db move` has closed.

    Use it to give up a move, or when the new database is gone. Changes in the new database are not copied back.

    \b
    Example:
      queuectl db reopen
    """
    queue = Queue()
    if has_arrived(queue.storage) and not yes:
        to = queue.storage.meta()["moved_to"]
        click.confirm(
            f"All jobs also exist in {to}, and would run in both places. Open it again?", abort=True, err=True
        )
    click.echo("The queue is open again." if reopen(queue.storage) else "The queue is open.")


@db.command()
@json_option
def check(as_json: bool) -> None:
    """Check the queue for errors: one line for each problem, and exit code 1 if there is any.

    The check reads everything, which takes a while on a long queue, and changes nothing. Workers may go on meanwhile.
    In an SQLite file every page and every index is checked; on PostgreSQL only the contents of queuectl's tables.

    \b
    Example:
      queuectl db check
    """
    queue = Queue()
    found = check_queue(queue.storage)
    if as_json:
        click.echo(shapes.to_json({"database": masked(queue.storage.url), **found._asdict()}))
    else:
        for line in found.problems:
            click.echo(line)
        if not found.problems:
            click.echo(f"All is well: {found.jobs:,} jobs and {found.runs:,} runs.")
    if found.problems:
        sys.exit(1)


@db.command()
@click.argument("path", type=click.Path())
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
def backup(path: str, overwrite: bool) -> None:
    """Copy a live SQLite queue to a file, as it is at one moment, while workers go on.

    The copy is a queue of its own: jobs that run now are pending in it. Use it with QUEUECTL_DB=sqlite:///PATH.

    \b
    Example:
      queuectl db backup queue-monday.db
    """
    queue = Queue()
    with progress("Copying") as show:
        back_up(queue.home, queue.storage, path, overwrite, show)
    click.echo(f"The queue was copied to {path}.")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, if that is a terminal."""
    with ExitStack() as drawn:
        bars: list[Any] = []

        def show(done: int, total: int) -> None:
            if not bars:
                bars.append(drawn.enter_context(click.progressbar(length=total, label=label, file=sys.stderr)))
            bars[0].update(done - bars[0].pos)

        yield show if sys.stderr.isatty() else lambda done, total: None
