"""Every command by its name: a command's module is loaded only when it is called. Also translates Click's errors."""

from __future__ import annotations

import importlib
import os

import click

from queuectl import __version__
from queuectl.errors import InvalidInput, QueueError, sentence

COMMANDS = {
    "enqueue": "queuectl.cli.enqueue:enqueue",
    "run": "queuectl.cli.run:run",
    "status": "queuectl.cli.look:status",
    "list": "queuectl.cli.look:list_jobs",
    "show": "queuectl.cli.look:show",
    "logs": "queuectl.cli.logs:logs",
    "wait": "queuectl.cli.wait:wait",
    "why": "queuectl.cli.why:why",
    "cancel": "queuectl.cli.cancel:cancel",
    "retry": "queuectl.cli.change:retry",
    "edit": "queuectl.cli.change:edit",
    "promote": "queuectl.cli.change:promote",
    "delete": "queuectl.cli.change:delete",
    "purge": "queuectl.cli.change:purge",
    "metrics": "queuectl.cli.look:metrics",
    "worker": "queuectl.cli.worker:worker",
    "dlq": "queuectl.cli.dlq:dlq",
    "config": "queuectl.cli.config:config",
    "queue": "queuectl.cli.queues:queue",
    "schedule": "queuectl.cli.schedule:schedule",
    "web": "queuectl.cli.web:web",
    "db": "queuectl.cli.db:db",
    "completion": "queuectl.cli.completion:completion",
    "demo": "queuectl.cli.demo:demo",
}

# Summaries for the list of commands, where the first sentence of a command's help is too long for one line.
SUMMARIES = {
    "run": "Run a command through the queue, and show its output.",
    "list": "The newest jobs, or those that are selected.",
    "logs": "What a job printed, or prints right now.",
    "wait": "Wait until jobs have ended.",
    "why": "Why a job has not run yet, or ran when it did.",
    "cancel": "Cancel jobs that wait or run.",
    "retry": "Put jobs that have ended back in line.",
    "edit": "Change a job that waits.",
    "purge": "Delete jobs that have ended, with their history and logs.",
    "metrics": "Events counted, run times, waiting times, the latest events.",
    "queue": "Named queues: limits, rates, and pauses.",
    "schedule": "Jobs that recur.",
    "web": "Serve the dashboard, the REST API and the metrics.",
    "completion": "Print the script that makes a shell complete commands.",
    "demo": "Show the queue at work.",
    "worker autostart": "Start workers when you log on.",
    "worker start": "Start workers that outlive this console.",
    "worker stop": "Stop this machine's workers.",
    "dlq purge": "Delete every dead job, or those of a queue.",
    "dlq retry": "Put dead jobs back in line.",
    "db backup": "Copy a live SQLite queue to a file.",
    "db check": "Check the queue for errors.",
}

# Set by a shell's script (see completion.py) when it asks for completions.
COMPLETING = "_QUEUECTL_COMPLETE"

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
        command.short_help = SUMMARIES.get(name, command.short_help)
        for below, found in command.commands.items() if isinstance(command, click.Group) else ():
            found.short_help = SUMMARIES.get(f"{name} {below}", found.short_help)
        if COMPLETING in os.environ:
            from queuectl.cli.completion import make_live

            make_live(command)
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


def call(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    if COMPLETING in os.environ:
        from queuectl.cli.completion import answer

        return answer()
    try:
        return cli.main(arguments, "queuectl", standalone_mode=False, windows_expand_args=False) or 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except NO_ARGUMENTS as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        if arguments[:1] == ["enqueue"]:
            from queuectl.cli.typed_json import refuse_pieces

            refuse_pieces(arguments[1:])
        path = error.ctx.command_path if error.ctx else "queuectl"
        hint = ""
        if isinstance(error, click.NoSuchOption) and error.ctx and takes_program(error.ctx.command):
            hint = " If it is an option of your command, write -- before the command."
        raise InvalidInput(f"{sentence(error.format_message())}{hint} See: {path} --help") from error
    except click.ClickException as error:
        raise QueueError(error.format_message()) from error
    except click.Abort as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise QueueError("Nothing was done") from error


def takes_program(command: click.Command) -> bool:
    """Whether the command takes a program and its arguments."""
    return any(isinstance(found, click.Argument) and found.name == "command" for found in command.params)
