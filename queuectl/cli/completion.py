"""`completion`: the script with which a shell completes queuectl's commands, and the answers that the script gets.

The user is about to type: an answer must be quick and silent, and it creates nothing, not even a home directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, get_completion_class

from queuectl.cli.commands import COMPLETING, cli
from queuectl.config import MEANINGS, Settings, canonical
from queuectl.config import SHELLS as COMMAND_SHELLS
from queuectl.database import database_url, is_postgres, sqlite_path
from queuectl.home import find_home
from queuectl.job import LAST, Job, State
from queuectl.queue import Queue
from queuectl.render import one_line

SHELLS = ("bash", "zsh", "fish", "powershell")
MOST_OFFERED, MOST_LOOKED_AT = 50, 500
LONGEST_HELP = 60

WAITING = (State.PENDING, State.FAILED)
OPEN = (State.PROCESSING, *WAITING)
ENDED = tuple(state for state in State if state.has_ended)
# The states of the jobs that a command can change; all other commands take jobs in any state.
STATES: dict[str, tuple[State, ...]] = {
    "cancel": OPEN,
    "wait": OPEN,
    "edit": WAITING,
    "promote": WAITING,
    "retry": ENDED,
    "delete": (*ENDED, *WAITING),
    "purge": ENDED,
    **dict.fromkeys(("dlq list", "dlq retry", "dlq purge"), (State.DEAD,)),
}
USUAL = {"aging": ("off", "60s", "10m"), "log_format": ("text", "json"), "shell": COMMAND_SHELLS}

POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($word, $line, $cursor)
    $before = @($line.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursor } | ForEach-Object { "$_" })
    $env:COMP_WORDS = $before -join "`n"
    $env:COMP_WORD = $word
    $env:%(complete_var)s = "powershell_complete"
    try {
        & %(prog_name)s | ForEach-Object {
            $value, $help = $_ -split "`t", 2
            if (-not $help) { $help = $value }
            $typed = if ($value -match "\\s") { "'$value'" } else { $value }
            [System.Management.Automation.CompletionResult]::new($typed, $value, "ParameterValue", $help)
        }
    } finally {
        Remove-Item Env:COMP_WORDS, Env:COMP_WORD, Env:%(complete_var)s -ErrorAction SilentlyContinue
    }
}
"""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete queuectl's commands, options, job ids, states, queues and settings.

    Run it from your shell's startup file.

    \b
    Examples:
      queuectl completion fish | source
      source <(queuectl completion bash)
      queuectl completion powershell | Out-String | Invoke-Expression
    """
    # Not the subclass's own source(): the one for bash looks for a bash, and complains if there is none.
    click.echo(ShellComplete.source(of(shell)))


class PowerShellComplete(ShellComplete):
    """PowerShell, which Click does not support. It completes file names by itself if it gets no answer."""

    name = "powershell"
    source_template = POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        return os.environ.get("COMP_WORDS", "").split("\n")[1:], os.environ.get("COMP_WORD", "")

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.value}\t{item.help or ''}"

    def complete(self) -> str:
        items = self.get_completions(*self.get_completion_args())
        return "\n".join(self.format_completion(item) for item in items if item.type == "plain")


add_completion_class(PowerShellComplete)


def of(shell: str) -> ShellComplete:
    found = get_completion_class(shell)
    assert found is not None
    return found(cli, {}, "queuectl", COMPLETING)


def answer() -> int:
    """Print the completions for the shell that asks."""
    shell = os.environ[COMPLETING].partition("_")[0]
    if shell not in SHELLS:
        return 1
    with suppress(Exception):  # an error message would appear in the line that the user types
        click.echo(of(shell).complete())
    return 0


# --- values from the queue ---

Offer = Callable[[click.Context, str], Iterable[CompletionItem]]


class Live(click.types.StringParamType):
    """A parameter whose values are looked up when the shell asks."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(Exception):
            return [item for item in self._offer(ctx, incomplete) if item.value.startswith(incomplete)]
        return []


def queue_that_is_there() -> Queue | None:
    home = find_home()
    url = database_url(home)
    is_there = os.path.isdir(home.logs) and (is_postgres(url) or os.path.exists(sqlite_path(url) or home.database))
    return Queue(home.root) if is_there else None


def jobs(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """The newest jobs that the command can be used on, and some older ones by the beginning of their ids."""
    queue = queue_that_is_there()
    if queue is None:
        return
    states = STATES.get(context.command_path.partition(" ")[2])
    offered = 0
    newest = queue.list(limit=1)
    if states is None or (newest and newest[0].state in states):
        yield CompletionItem(LAST, help="the newest job")
    for job in candidates(queue, incomplete, states):
        if job.id.startswith(incomplete) and offered < MOST_OFFERED:
            offered += 1
            yield CompletionItem(job.id, help=f"{job.state} {' '.join(job.command.split())}"[:LONGEST_HELP])


def candidates(queue: Queue, incomplete: str, states: tuple[State, ...] | None) -> Iterator[Job]:
    seen: set[str] = set()
    newest = [job for state in states or (None,) for job in queue.list(state, MOST_LOOKED_AT)]
    for job in sorted(newest, key=lambda job: -job.seq):
        seen.add(job.id)
        yield job
    older = queue.storage.ids_near(incomplete) if incomplete.isascii() and incomplete else []
    for job_id in older:
        if job_id not in seen and job_id.startswith(incomplete):
            job = queue.storage.glance(job_id)
            if states is None or job.state in states:
                yield job


def shells(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    return map(CompletionItem, COMMAND_SHELLS)


def labels(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    queue = queue_that_is_there()
    newest = queue.list(limit=MOST_LOOKED_AT) if queue else []
    return (CompletionItem(label) for label in dict.fromkeys(job.label for job in newest) if label)


def queues(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    queue = queue_that_is_there()
    for found, totals in queue.queues() if queue else ():
        waiting = totals.get("pending", 0) + totals.get("failed", 0)
        paused = "paused, " if found.is_paused else ""
        yield CompletionItem(found.name, help=f"{paused}{waiting:,} waiting, {totals.get('processing', 0):,} running")


def schedules(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    queue = queue_that_is_there()
    for schedule in queue.storage.schedules() if queue else ():
        yield CompletionItem(schedule.name, help=one_line(schedule.command)[:LONGEST_HELP])


def names(context: click.Context, incomplete: str) -> Iterable[CompletionItem]:
    """The names of queues or schedules, by the command's group; `add` takes a new name, so it gets none."""
    group, _, command = context.command_path.partition(" ")[2].partition(" ")
    offer = NAMES.get(group)
    return () if offer is None or command == "add" else offer(context, incomplete)


def settings(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """The names of the settings, with dashes if the user has typed a dash."""
    dashed = "-" in incomplete
    for name, meaning in MEANINGS.items():
        yield CompletionItem(name.replace("_", "-") if dashed else name, help=meaning)


def values(context: click.Context, incomplete: str) -> Iterator[CompletionItem]:
    """The setting's current value, its default, and common values."""
    name = canonical(context.params["key"])
    queue = queue_that_is_there()
    now = [str(queue.all_settings()[name])] if queue else []
    usual = [str(getattr(Settings(), name, ""))]
    offered = dict.fromkeys([*now, *usual, *USUAL.get(name, ())])
    return (CompletionItem(value) for value in offered if value and " " not in value)


NAMES: dict[str, Offer] = {"queue": queues, "schedule": schedules}
# By the name of the parameter, so that a new command is completed without further code.
TYPES: dict[str, Any] = {
    **dict.fromkeys(("job_id", "job_ids", "depends_on", "after_any", "after_failed"), Live(jobs)),
    "label": Live(labels),
    "shell": Live(shells),
    "queue": Live(queues),
    "queues": Live(queues),
    "name": Live(names),
    "key": Live(settings),
    "value": Live(values),
    "path": click.Path(),
    "cwd": click.Path(file_okay=False),
    "command": click.Path(),
}


def make_live(command: click.Command) -> None:
    """Complete the parameters of a command and its subcommands with values from the queue."""
    for param in command.params:
        if param.name in TYPES and isinstance(param.type, click.types.StringParamType):
            param.type = TYPES[param.name]
    if isinstance(command, click.Group):
        for below in command.commands.values():
            make_live(below)
