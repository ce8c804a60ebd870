"""`worker`: start, stop and look after the processes that run the jobs."""

from __future__ import annotations

import sys
from math import isnan

import click

from queuectl import render, shapes
from queuectl.cli.autostart import autostart
from queuectl.cli.options import as_json as json_option
from queuectl.config import MOST_SECONDS
from queuectl.errors import QueueError
from queuectl.estimates import forecast_of
from queuectl.liveness import Standing
from queuectl.queue import Queue
from queuectl.worker_manager import End, WorkerManager


def manager() -> WorkerManager:
    queue = Queue()
    return WorkerManager(queue.home, queue.storage, tell=lambda line: click.echo(line, err=True))


@click.group()
def worker() -> None:
    """Start, stop and look after workers.

    \b
    Example:
      queuectl worker start --count 3
    """


worker.add_command(autostart)


@worker.command()
@click.option("--count", type=click.IntRange(1, 1000), help="How many; the setting worker_count if not given.")
@click.option("--foreground", is_flag=True, help="One worker, in this console; Ctrl+C stops it gently.")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Serve this queue; repeatable; all if not given."
)
def start(count: int | None, foreground: bool, queues: tuple[str, ...]) -> None:
    """Start workers that outlive this console, and return when they are up.

    \b
    Examples:
      queuectl worker start --count 3
      queuectl worker start --queue gpu --queue default
    """
    workers = manager()
    for name in queues:
        workers.storage.queue(name)
    if foreground:
        sys.exit(workers.run_in_foreground(queues))
    up = workers.start(count or workers.storage.settings().worker_count, queues)
    for one in up:
        click.echo(f"Worker {one.name} is up, pid {one.pid}.")


def number(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Refuse nan, which passes Click's check of the range."""
    if value is not None and isnan(value):
        raise click.BadParameter("nan is no number of seconds.")
    return value


@worker.command()
@click.option(
    "--timeout",
    type=click.FloatRange(0, MOST_SECONDS),
    callback=number,
    help="Seconds for the job in hand; the setting stop_grace if not given.",
)
@click.option("--force", is_flag=True, help="Kill the job in hand at once; it goes back in line with no try lost.")
@click.option("--all", "everywhere", is_flag=True, help="Every machine's workers, where machines share a queue.")
def stop(timeout: float | None, force: bool, everywhere: bool) -> None:
    """Stop this machine's workers when they have finished the job in hand.

    After the grace time a job that still runs is killed and put back in line, with no try lost.

    \b
    Example:
      queuectl worker stop --timeout 10
    """
    workers = manager()
    grace = 0.0 if force else workers.storage.settings().stop_grace if timeout is None else timeout
    stopped = workers.stop(grace)
    for name, end in stopped:
        click.echo(f"Worker {name} {end}.")
    elsewhere = workers.stop_elsewhere(grace) if everywhere else []
    for one, in_time in elsewhere:
        state = "has stopped" if in_time else "was asked to stop, and has not done so yet"
        click.echo(f"Worker {one.name} on {one.host} {state}.")
    if not stopped and not elsewhere:
        click.echo("No worker is running.")
    if any(end is End.NONE for _, end in stopped):
        raise QueueError("Not all workers have stopped. See who they belong to: queuectl worker list")


@worker.command("list")
@json_option
def list_workers(as_json: bool) -> None:
    """The workers, what they do, and since when.

    \b
    Example:
      queuectl worker list
    """
    show_workers(manager(), as_json)


@worker.command()
@json_option
def health(as_json: bool) -> None:
    """Check whether all workers are well: exit code 1 if one is lost. It is no error if no worker is running.

    \b
    Example:
      queuectl worker health && echo "all is well"
    """
    workers = manager()
    if any(standing.is_lost for standing in show_workers(workers, as_json)):
        click.echo("A worker is lost. Its job goes back in line with: queuectl worker start", err=True)
        sys.exit(1)


def show_workers(workers: WorkerManager, as_json: bool) -> list[Standing]:
    standings = workers.standings()
    expected = forecast_of(workers.storage, [standing.job for standing in standings if standing.job])
    if as_json:
        click.echo(shapes.to_json([shapes.worker_json(standing, expected) for standing in standings]))
    elif standings:
        click.echo(render.worker_table(standings, expected))
    else:
        click.echo("No worker is running. Start one with: queuectl worker start")
    return standings
