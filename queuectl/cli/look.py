"""`status`, `list`, `show` and `metrics`: they only read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from queuectl import render, shapes
from queuectl.cli.options import as_json as json_option
from queuectl.cli.selecting import ids_or, job_ids_argument, none, selectors
from queuectl.errors import InvalidInput, QueueMoved
from queuectl.estimates import forecast, forecast_of
from queuectl.job import State
from queuectl.metrics import measure
from queuectl.queue import Queue
from queuectl.selection import Selection
from queuectl.storage import Schedule
from queuectl.times import Millis, clock_time, iso

COMING_SHOWN = 5  # schedules

MOST_LISTED = 100_000

counting = click.IntRange(min=1, max=MOST_LISTED)


def open_queue() -> Queue:
    """Open the queue for reading; if it has moved, say so on stderr and go on."""
    queue = Queue()
    try:
        queue.storage.must_be_open()
    except QueueMoved as moved:
        click.echo(f"{moved}.", err=True)
    return queue


def tell_coming(coming: Sequence[Schedule], now: Millis) -> None:
    if coming:
        click.echo(f"\n{render.coming_text(coming, now)}")


@click.command()
@click.option("--watch", "watching", is_flag=True, help="Go on showing it, with the line and what has ended lately.")
@json_option
def status(watching: bool, as_json: bool) -> None:
    """How many jobs are in each state, and what the workers do.

    \b
    Examples:
      queuectl status
      queuectl status --watch
    """
    queue = open_queue()
    if watching:
        if as_json:
            raise InvalidInput("--watch is for people and --json for programs. Keep one of them")
        from queuectl.cli.watch import watch

        with suppress(KeyboardInterrupt):  # Ctrl+C ends the view
            watch(queue)
        return
    counts, standings = queue.status()
    expected = forecast(queue.storage)
    end_at = expected.end_of_all(counts["pending"] + counts["processing"] + counts["failed"])
    queues = [shapes.queue_json(*found) for found in queue.queues()]
    coming = queue.storage.next_schedules(COMING_SHOWN)
    if as_json:
        found = {
            "jobs": counts,
            "queues": queues,
            "workers": [shapes.worker_json(standing, expected) for standing in standings],
            "expected_end_at": iso(end_at),
            "next": [shapes.schedule_json(schedule) for schedule in coming],
        }
        click.echo(shapes.to_json(found))
        return
    click.echo(
        render.table([[f"{count:,}" for count in counts.values()]], [render.state_text(State(name)) for name in counts])
    )
    if end_at is not None:
        click.echo(f"\nAll will have ended ~{clock_time(end_at, expected.now)}.")
    if len(queues) > 1:
        click.echo(f"\n{render.queue_table(queues)}")
    click.echo()
    click.echo(
        render.worker_table(standings, expected)
        if standings
        else "No worker is running. Start one with: queuectl worker start"
    )
    tell_coming(coming, expected.now)


@click.command("list")
@job_ids_argument
@selectors(State)
@click.option("--limit", type=counting, default=20, show_default=True, help="How many.")
@json_option
def list_jobs(job_ids: tuple[str, ...], limit: int, as_json: bool, **options: Any) -> None:
    """List jobs, newest first; with --state pending in the order in which they will run; or the named jobs only.

    \b
    Examples:
      queuectl list --state pending --limit 50
      queuectl list --label nightly --older-than 1d
    """
    queue = open_queue()
    wanted = ids_or(job_ids, options, needs_one=False)
    if job_ids:
        jobs = queue.storage.aged([*queue.named(job_ids)])
    else:  # one more than is shown, to know whether there are more
        jobs = [job for page in queue.find_all(wanted, limit + 1) for job in page]
    has_more, jobs = not job_ids and len(jobs) > limit, jobs if job_ids else jobs[:limit]
    expected = forecast_of(queue.storage, jobs)
    if as_json:
        click.echo(shapes.to_json([shapes.job_json(job, expected=expected.of(job)) for job in jobs]))
    elif jobs:
        click.echo(render.job_table(jobs, expected))
    else:
        click.echo(none(wanted))
    if not (as_json or job_ids) and wanted in (Selection(), Selection(State.PENDING)):
        tell_coming(queue.storage.next_schedules(COMING_SHOWN), expected.now)
    if not as_json and has_more:
        click.echo(
            f"There are more than these {limit:,}. To see more: --limit {min(10 * limit, MOST_LISTED)}", err=True
        )


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
def show(job_id: str, as_json: bool) -> None:
    """All about one job, with what it printed.

    \b
    Example:
      queuectl show job1
    """
    queue = open_queue()
    job = queue.get(job_id)
    past = shapes.Past(queue.runs(job), queue.needs(job), queue.dependents(job))
    expected = forecast_of(queue.storage, [job]).of(job)
    click.echo(shapes.to_json(shapes.job_json(job, past, expected)) if as_json else render.job_details(job, past))


@click.command()
@click.option("--recent", type=click.IntRange(min=0, max=1000), default=10, show_default=True, help="How many events.")
@json_option
def metrics(recent: int, as_json: bool) -> None:
    """Events counted, run times and waiting times, jobs a minute, the latest events.

    \b
    Example:
      queuectl metrics --recent 20
    """
    found = measure(open_queue().storage, recent)
    click.echo(shapes.to_json(shapes.metrics_json(found)) if as_json else render.metrics_text(found))
