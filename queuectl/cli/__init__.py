"""The command line: parse, call one thing, print. A command's file is loaded only when the command is called."""

from __future__ import annotations

import gc

gc.disable()  # nothing here lives long enough for a collection to pay

import importlib
import os
import sys
from typing import NoReturn

import click

from queuectl import __version__
from queuectl.errors import QueueError, sentence

COMMANDS = {
    "enqueue": "queuectl.cli.enqueue:enqueue",
    "run": "queuectl.cli.run:run",
    "status": "queuectl.cli.look:status",
    "list": "queuectl.cli.look:list_jobs",
    "show": "queuectl.cli.look:show",
    "logs": "queuectl.cli.run:logs",
    "cancel": "queuectl.cli.cancel:cancel",
    "metrics": "queuectl.cli.look:metrics",
    "worker": "queuectl.cli.worker:worker",
    "dlq": "queuectl.cli.dlq:dlq",
    "config": "queuectl.cli.config:config",
}

# What Click raises where a group is called without a command; before 8.2 it printed the help by itself.
NO_ARGUMENTS: tuple[type[click.ClickException], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)


class LazyGroup(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            context.fail(f"No command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(context, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="queuectl %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """A background job queue for shell commands.

    Hand it a command, close the console, and detached workers go on: by priority, without starving anyone, retrying
    what fails, keeping what it printed.

    \b
    Example:
      queuectl run "echo hello"
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


def main() -> NoReturn:
    """Run the command line, and turn every error into one line."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we live
        getattr(sys, name).reconfigure(errors="replace")  # a console that cannot show a letter is no reason to fail
    try:
        code = cli.main(standalone_mode=False, prog_name="queuectl", windows_expand_args=False) or 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except Exception as error:
        if "--debug" in sys.argv[1:2]:
            raise
        code = report(error)
    leave(code)


def report(error: Exception) -> int:
    """One line to stderr, and the exit code: 2 for wrong usage, 1 for the rest."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        return 1
    if isinstance(error, NO_ARGUMENTS):
        click.echo(error.format_message(), err=True)
        return 2
    code = 1
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "queuectl"
        line, code = f"{sentence(error.format_message())} See: {path} --help", 2
    elif isinstance(error, click.ClickException):
        line = error.format_message()
    elif isinstance(error, click.Abort) and isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
        line, code = "Interrupted", 130
    elif isinstance(error, click.Abort):
        line = "Nothing was done"
    elif isinstance(error, QueueError):
        line, code = str(error), error.exit_code
    elif isinstance(error, OSError):
        line = f"{error.filename or 'queuectl'}: {error.strerror or error}"
    else:
        line = f"Something unforeseen: {error!r}. Run it again as queuectl --debug …, and report what it says"
    click.echo("Error: " + " ".join(line.split()), err=True)
    return code


def leave(code: int) -> NoReturn:
    """Exit without taking the interpreter apart, which would be a seventh of an enqueue; all is committed by now."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code if code < 1 << 31 else code - (1 << 32))  # Windows has exit codes that C takes for negative
