"""`config`: the settings, which hold for all workers and take effect at once; and where the queue is."""

from __future__ import annotations

import os

import click

from queuectl import render, shapes
from queuectl.cli.options import as_json as json_option
from queuectl.config import DATABASE, MEANINGS, canonical
from queuectl.database import VARIABLE
from queuectl.queue import Queue


@click.group()
def config() -> None:
    """Look at and change the settings.

    They hold for all workers and take effect without restarting them. Dashes and underscores both work.

    \b
    Example:
      queuectl config set max-retries 5
    """


@config.command("list")
@json_option
def list_settings(as_json: bool) -> None:
    """Every setting, its value and what it means.

    \b
    Example:
      queuectl config list
    """
    values = Queue().all_settings()
    if as_json:
        click.echo(shapes.to_json(values))
        return
    rows = [(name, values[name], meaning) for name, meaning in MEANINGS.items()]
    click.echo(render.table(rows, ["setting", "value", "meaning"]))


@config.command("get")
@click.argument("key")
@json_option
def get_setting(key: str, as_json: bool) -> None:
    """The value of one setting.

    \b
    Example:
      queuectl config get aging
    """
    name = canonical(key)
    value = Queue().setting(name)
    click.echo(shapes.to_json({name: value}) if as_json else value)


@config.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key")
@click.argument("value")
def set_setting(key: str, value: str) -> None:
    """Change a setting.

    \b
    Examples:
      queuectl config set max-retries 5
      queuectl config set aging 10m
      queuectl config set database postgresql://me@server/queue
    """
    stored = Queue().set(key, value)
    click.echo(f"{canonical(key)} is now {stored or 'empty'}.")
    if canonical(key) == DATABASE and VARIABLE in os.environ:
        click.echo(f"But {VARIABLE} is set, and takes precedence. Unset it to use the new setting.", err=True)


@config.command("unset")
@click.argument("key")
def unset_setting(key: str) -> None:
    """Go back to a setting's default.

    \b
    Example:
      queuectl config unset max-retries
    """
    queue = Queue()
    queue.unset(key)
    name = canonical(key)
    click.echo(f"{name} is {queue.setting(name) or 'empty'} again.")
