"""`queue`: named lines with limits, rates and pauses of their own."""

from __future__ import annotations

from typing import Any

import click

from queuectl import config, render, shapes
from queuectl.cli.options import all_of
from queuectl.cli.options import as_json as json_option
from queuectl.errors import InvalidInput, brief
from queuectl.fields import checked_id
from queuectl.queue import Queue
from queuectl.storage import QueueRow

HIGHEST_LIMIT = 100_000


@click.group()
def queue() -> None:
    """Named queues: how many of a queue's jobs run at once, how many start per time, and pauses.

    \b
    Example:
      queuectl queue add gpu --limit 1
    """


limits = all_of(
    click.option("--limit", metavar="N", help="How many may run at once, over all machines; none: any number."),
    click.option("--rate", help="How many may start per time, e.g. 10/s, 100/m, 5/h; none: any number."),
)


@queue.command()
@click.argument("name")
@limits
def add(name: str, limit: str | None, rate: str | None) -> None:
    """Make a queue.

    \b
    Examples:
      queuectl queue add gpu --limit 1
      queuectl queue add mail --rate 10/m
    """
    Queue().storage.add_queue(QueueRow(checked_id(name, "queue"), **limits_of(limit, rate)))
    click.echo(f"Queue {name} is there. Hand in a job with: queuectl enqueue --queue {name}")


@queue.command("set")
@click.argument("name")
@limits
def set_queue(name: str, limit: str | None, rate: str | None) -> None:
    """Change a queue's limits; what already runs goes on.

    \b
    Example:
      queuectl queue set gpu --limit 2 --rate none
    """
    changes = limits_of(limit, rate)
    if not changes:
        raise InvalidInput("Nothing to change. Name what is to be different: --limit 2, --rate 10/m, or none for any")
    click.echo(f"Queue {name}: {described(Queue().storage.set_queue(name, **changes))}.")


@queue.command("list")
@json_option
def list_queues(as_json: bool) -> None:
    """All queues, their limits, and how many jobs wait and run in each.

    \b
    Example:
      queuectl queue list
    """
    found = [shapes.queue_json(*one) for one in Queue().queues()]
    click.echo(shapes.to_json(found) if as_json else render.queue_table(found))


@queue.command()
@click.argument("name")
def pause(name: str) -> None:
    """Start no more jobs of a queue; those that run go on.

    \b
    Example:
      queuectl queue pause gpu
    """
    Queue().storage.set_queue(name, is_paused=1)
    click.echo(f"Queue {name} is paused.")


@queue.command()
@click.argument("name")
def resume(name: str) -> None:
    """Let a paused queue go on.

    \b
    Example:
      queuectl queue resume gpu
    """
    Queue().storage.set_queue(name, is_paused=0)
    click.echo(f"Queue {name} is open.")


@queue.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a queue in which no job waits or runs.

    \b
    Example:
      queuectl queue remove gpu
    """
    Queue().storage.remove_queue(name)
    click.echo(f"Queue {name} is removed.")


def limits_of(limit: str | None, rate: str | None) -> dict[str, Any]:
    """The columns that the options change; what is not given stays."""
    changes: dict[str, Any] = {}
    if limit is not None:
        changes["run_limit"] = None if limit.lower() == config.NONE else checked_limit(limit)
    if rate is not None:
        changes["rate_text"] = config.rate(rate) or None
    return changes


def checked_limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= HIGHEST_LIMIT):
        raise InvalidInput(
            f"--limit cannot be {brief(text)}. It takes a whole number from 1 to {HIGHEST_LIMIT}, or none"
        )
    return int(text)


def described(found: QueueRow) -> str:
    limit = "any number at once" if found.run_limit is None else f"at most {found.run_limit} at once"
    return f"{limit}, {found.rate_text or 'at any rate'}{', paused' if found.is_paused else ''}"
