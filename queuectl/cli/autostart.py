"""`worker autostart`: workers that start when the user logs on."""

from __future__ import annotations

import os

import click

from queuectl import autostart as at_logon
from queuectl import shapes
from queuectl.cli.options import as_json as json_option
from queuectl.database import VARIABLE
from queuectl.home import open_home
from queuectl.queue import Queue


@click.group()
def autostart() -> None:
    """Start workers when you log on, so that jobs go on after a restart of the machine.

    \b
    Example:
      queuectl worker autostart enable --count 2
    """


@autostart.command()
@click.option("--count", type=click.IntRange(1, 1000), help="How many in all; the setting worker_count if not given.")
def enable(count: int | None) -> None:
    """Start workers at every logon, from the next one on.

    Workers that already run count: only the missing ones are started.

    \b
    Example:
      queuectl worker autostart enable --count 2
    """
    queue = Queue()
    found = at_logon.enable(queue.home, count or queue.settings().worker_count)
    click.echo(f"{workers(found.workers)} will run from your next logon on, by the {found.kind} {found.place}.")
    click.echo("To start some now: queuectl worker start", err=True)
    if found.remark:
        click.echo(found.remark, err=True)
    if VARIABLE in os.environ:
        click.echo(f"{VARIABLE} will not be set at logon. Instead of it: queuectl config set database URL", err=True)


@autostart.command()
def disable() -> None:
    """Stop starting workers at logon; workers that already run go on.

    \b
    Example:
      queuectl worker autostart disable
    """
    place = at_logon.disable(open_home())
    click.echo(f"No worker will start at logon. {place} was removed." if place else "No worker starts at logon.")


@autostart.command()
@json_option
def status(as_json: bool) -> None:
    """Show what starts at logon, and whether it is up to date.

    \b
    Example:
      queuectl worker autostart status
    """
    found = at_logon.status(open_home())
    if as_json:
        click.echo(shapes.to_json(shapes.autostart_json(found)))
    elif found is None:
        click.echo("No worker starts at logon. To have some: queuectl worker autostart enable --count 2")
    else:
        click.echo(f"{workers(found.workers)} at logon, by the {found.kind} {found.place}.")
        again = f"To write it anew: queuectl worker autostart enable --count {found.workers or 1}"
        if not found.is_active:
            click.echo(f"It was switched off by other means. {again}")
        if not found.is_current:
            click.echo(f"It is not what would be written now: it was edited, or Python or queuectl has moved. {again}")


def workers(count: int) -> str:
    return f"{count} worker{'s' * (count != 1)}"
