"""`schedule`: jobs that recur, by a cron line or at an interval."""

from __future__ import annotations

from typing import Any

import click

from queuectl import recurring, render, shapes
from queuectl.cli.hand_in import tell
from queuectl.cli.options import adding, command_of, describing, job_fields
from queuectl.cli.options import as_json as json_option
from queuectl.queue import Queue, captured_environment
from queuectl.recurrence import parse_rule
from queuectl.times import iso, short

NEXT_SHOWN = 5


@click.group()
def schedule() -> None:
    """Jobs that recur: any worker that is up enqueues them when their time comes.

    \b
    Example:
      queuectl schedule add backup --cron "0 2 * * *" -- backup.sh
    """


@schedule.command()
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--cron", metavar="LINE", help="When: minute, hour, day, month, weekday.")
@click.option("--every", metavar="DURATION", help="The interval, instead of --cron, e.g. 15m.")
@click.option("--tz", metavar="ZONE", help="The time zone of --cron, e.g. Europe/Berlin; yours if not given.")
@click.option(
    "--missed",
    type=click.Choice([recurring.RUN_ONCE, recurring.SKIP]),
    default=recurring.RUN_ONCE,
    show_default=True,
    help="What to do about occurrences while no worker was up.",
)
@click.option("--overlap", is_flag=True, help="Enqueue the job even if the last occurrence's job has not ended.")
@describing
@adding
def add(
    name: str,
    command: tuple[str, ...],
    cron: str | None,
    every: str | None,
    tz: str | None,
    missed: str,
    overlap: bool,
    line: str | None,
    strict: bool,
    **options: Any,
) -> None:
    """Add a recurring job.

    A daily job is enqueued once a day, also when daylight saving time begins or ends.

    \b
    Examples:
      queuectl schedule add backup --cron "0 2 * * *" -- backup.sh
      queuectl schedule add poll --every 15m "curl -s https://example.org/feed"
    """
    queue = Queue()
    rule = parse_rule(cron, every, tz, queue.storage.clock.now())
    fields = dict(job_fields(options), command=command_of(command, line))
    warnings: list[str] = []
    job = queue.checked([fields], strict=strict, warn=warnings.append)[0]
    made = recurring.add(queue.storage, name, rule, fields, job, captured_environment(), missed, overlap)
    for warning in warnings:
        tell(warning)
    click.echo(f"Schedule {made.name} comes next at {short(made.next_at)}.")


@schedule.command("list")
@json_option
def list_schedules(as_json: bool) -> None:
    """All schedules, and when each comes next.

    \b
    Example:
      queuectl schedule list
    """
    found = Queue().storage.schedules()
    if as_json:
        click.echo(shapes.to_json([shapes.schedule_json(one) for one in found]))
    elif found:
        click.echo(render.schedule_table(found))
    else:
        click.echo("There are no schedules. Add one: queuectl schedule add --help")


@schedule.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """All about one schedule, and its next occurrences.

    \b
    Example:
      queuectl schedule show backup
    """
    queue = Queue()
    found = queue.storage.schedule(name)
    last = recurring.last_job(queue.storage, found)
    times = recurring.next_times(found, queue.storage.clock.now(), NEXT_SHOWN)
    if as_json:
        shape = shapes.schedule_json(found)
        shape.update(
            fields=recurring.told_fields(found),
            last_job=last.id if last else None,
            next_times=[iso(at) for at in times],
        )
        click.echo(shapes.to_json(shape))
        return
    facts = [
        ("schedule", found.name + (" (paused)" if found.is_paused else "")),
        ("when", render.rule_text(found)),
        ("command", found.command),
        ("directory", found.cwd),
        *((key.replace("_", " "), str(value)) for key, value in recurring.told_fields(found).items()),
        ("missed", found.missed),
        ("overlap", "yes" if found.may_overlap else "no"),
        ("last", short(found.last_at) + (f", job {last.id}: {last.state}" if last else "")),
        ("no job", found.note or ""),
        *(("next" if number == 0 else "", short(at)) for number, at in enumerate(times)),
    ]
    click.echo(render.facts_text(facts))


@schedule.command()
@click.argument("name")
def pause(name: str) -> None:
    """Pause a schedule until it is resumed.

    \b
    Example:
      queuectl schedule pause backup
    """
    Queue().storage.pause_schedule(name)
    click.echo(f"Schedule {name} is paused.")


@schedule.command()
@click.argument("name")
def resume(name: str) -> None:
    """Resume a paused schedule.

    \b
    Example:
      queuectl schedule resume backup
    """
    click.echo(f"Schedule {name} comes next at {short(recurring.resume(Queue().storage, name).next_at)}.")


@schedule.command()
@click.argument("name")
def run(name: str) -> None:
    """Enqueue a schedule's job once, now, and print its id.

    \b
    Example:
      queuectl schedule run backup
    """
    click.echo(recurring.run_now(Queue().storage, name).id)


@schedule.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a schedule; the jobs that it enqueued stay.

    \b
    Example:
      queuectl schedule remove backup
    """
    Queue().storage.remove_schedule(name)
    click.echo(f"Schedule {name} is removed.")
