"""What several commands share: the options that describe a job, and --json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from queuectl.errors import InvalidInput

Function = Callable[..., Any]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on stdout.")


def all_of(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


# The options of every job, recurring ones included. JSON has the same names as keys, and the same checks.
describing = all_of(
    click.option("--command", "line", help="The command line, as an option instead of an argument."),
    click.option("-p", "--priority", type=int, help="1 to 10; higher is sooner."),
    click.option("--max-retries", type=int, help="Tries after the first."),
    click.option("--timeout", type=int, help="Seconds for one run; 0 is no limit."),
    click.option("--backoff-base", type=float, help="After failure n the job waits BASE ** n seconds."),
    click.option("--jitter", type=float, help="Add a random part of the wait to it, up to this share; 0 to 1."),
    click.option("--no-retry-on", metavar="CODES", help="Exit codes that are not retried, e.g. 2,64."),
    click.option("--no-rerun", is_flag=True, default=None, help="Never start the job twice, however its run ends."),
    click.option("--cwd", help="The directory to run in, instead of this one."),
    click.option("--shell", help="What runs the line: cmd, powershell, pwsh, bash; or none: it runs directly."),
    click.option("--env", multiple=True, metavar="KEY=VALUE", help="Set a variable; repeatable."),
    click.option("--queue", metavar="NAME", help="The queue for the job, instead of the default one."),
    click.option("--label", metavar="TEXT", help="A word to select it by."),
)

timing = all_of(
    click.option("--run-at", help="Not before this time, e.g. 2027-01-31T02:00 (local unless it has an offset)."),
    click.option("--delay", help="Not before this much time has passed, e.g. 90, 10m, 2h30m, 1d."),
)

adding = all_of(
    click.option("--unique", metavar="KEY", help="Add the job only if no other job with this key waits or runs."),
    click.option("--strict", is_flag=True, help="Treat warnings as errors, and store nothing."),
)

# The options of `enqueue` and `run`.
job_options = all_of(
    click.option("--id", help="A name of your own instead of a number."),
    describing,
    timing,
    click.option("--after", "depends_on", multiple=True, metavar="ID", help="Once this job is completed."),
    click.option("--after-any", multiple=True, metavar="ID", help="Once this job has ended, however it did."),
    click.option("--after-failed", multiple=True, metavar="ID", help="Once this job is dead."),
    adding,
)


def job_fields(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job that the options give."""
    fields = {name: value for name, value in options.items() if value not in (None, ()) and name != "env"}
    if options["env"]:
        fields["env"] = dict(key_value(text) for text in options["env"])
    return fields


def key_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"--env cannot be {text!r}. Write it like --env KEY=VALUE")
    return name, value


def command_of(arguments: tuple[str, ...], line: str | None) -> str | list[str] | None:
    """One argument is a line for the shell; several are a program and its arguments."""
    if line is not None:
        if arguments:
            raise InvalidInput("The command is given twice: as an argument and with --command. Keep one of them")
        return line
    if len(arguments) > 1:
        return list(arguments)
    return arguments[0] if arguments else None
