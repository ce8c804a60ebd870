"""Which jobs a command is about: ids, or what they are; and the question before many are changed at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import click

from queuectl import platforms, render
from queuectl.cli.options import all_of
from queuectl.errors import InvalidInput, QueueError
from queuectl.fields import clean
from queuectl.job import Job, State
from queuectl.queue import Queue
from queuectl.selection import Selection
from queuectl.times import parse_duration

MOST_COUNTED = 10_000
MOST_SHOWN = 20
PAUSE_SECONDS = 0.01  # between two batches, for the workers to come in between
PROGRESS_BATCHES = 20
UNENDED = (State.PENDING, State.FAILED, State.PROCESSING)
ENDED = (State.COMPLETED, State.DEAD, State.CANCELLED)
AT_REST = (*ENDED, State.PENDING, State.FAILED)

job_ids_argument = click.argument("job_ids", metavar="[ID]...", nargs=-1)


# Which jobs are meant.
selectors = all_of(
    click.option(
        "--state",
        type=click.Choice([state.value for state in State], case_sensitive=False),
        help="Only jobs in this state.",
    ),
    click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
    click.option("--label", metavar="TEXT", help="Only jobs with this label."),
    click.option("--match", metavar="TEXT", help="Only jobs with this text in their command."),
    click.option("--older-than", metavar="TIME", help="Only jobs that ended, or came, so long ago: 2h, 7d."),
)

# For what changes many jobs at once.
asking = all_of(
    click.option("--limit", type=click.IntRange(1, 1_000_000_000), help="So many at most."),
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Only show which jobs it would be."),
)


def selection(options: dict[str, Any]) -> Selection:
    older_than = options["older_than"]
    return Selection(
        state=State(options["state"]) if options["state"] else None,
        queue=given(options, "queue"),
        label=given(options, "label"),
        match=given(options, "match"),
        older_than_seconds=None if older_than is None else parse_duration(older_than),
    )


def given(options: dict[str, Any], name: str) -> str | None:
    """Text that a database can be asked for."""
    return None if options[name] is None else clean(f"--{name}", options[name])


def none(wanted: Selection) -> str:
    """What is said where nothing was found."""
    if wanted != Selection(wanted.state):
        return "No such jobs."
    return f"No {wanted.state} jobs." if wanted.state else "No jobs."


class Deed(NamedTuple):
    """What is done to jobs, as a question and as an answer put it."""

    verb: str
    done: str
    one: str
    many: str


CANCEL = Deed("Cancel", "cancelled", "was cancelled", "were cancelled")
RETRY = Deed("Retry", "retried", "is pending again", "are pending again")
DELETE = Deed("Delete", "deleted", "was deleted", "were deleted")


# What does it to all jobs, which come a batch at a time; and says, a batch at a time, to how many it was done.
Change = Callable[[Iterator[Sequence[Job]]], Iterable[int]]


def each(change: Callable[[Sequence[Job]], int]) -> Change:
    """A batch as soon as it is found."""
    return lambda batches: map(change, batches)


def retrying(queue: Queue) -> Change:
    """Once all are found: who needs whom among them decides the order."""
    return lambda batches: queue.retry_each(chain.from_iterable(batches))


class Bulk:
    """All jobs that are wanted and in one of these states, for something to be done to them a batch at a time."""

    def __init__(
        self,
        queue: Queue,
        wanted: Selection,
        states: Sequence[State],
        limit: int | None = None,
        yes: bool = False,
        dry_run: bool = False,
    ) -> None:
        if wanted.state is not None and wanted.state not in states:
            allowed = " or ".join(state.value for state in states)
            raise InvalidInput(f"This cannot be done to {wanted.state} jobs, only where --state is {allowed}")
        self.queue = queue
        self.wanted = wanted
        self.states = states if wanted.state is None else [wanted.state]
        self.limit = limit
        self.yes = yes
        self.dry_run = dry_run

    def batches(self, limit: int | None) -> Iterator[Sequence[Job]]:
        for state in self.states:
            for jobs in self.queue.find_all(self.wanted._replace(state=state), limit):
                limit = None if limit is None else limit - len(jobs)
                if jobs:
                    yield jobs

    def do(self, deed: Deed, change: Change) -> None:
        """Do it to all of them, after asking; or only show them."""
        most = min(self.limit or MOST_COUNTED + 1, MOST_COUNTED + 1)
        found = sum(map(len, self.batches(most)))
        if not found:
            click.echo(none(self.wanted))
        elif self.dry_run:
            self.show(deed, found)
        else:
            if not self.yes:
                ask(f"{deed.verb} {self.how_many(found)}?")
            self.go_through(deed, change)

    def show(self, deed: Deed, found: int) -> None:
        jobs = [job for batch in self.batches(min(found, MOST_SHOWN)) for job in batch]
        click.echo(render.job_table(jobs))
        first = f"; these are the first {len(jobs)}" if found > len(jobs) else ""
        click.echo(f"{self.how_many(found)} would be {deed.done}{first}.", err=True)

    def go_through(self, deed: Deed, change: Change) -> None:
        total = 0
        for number, changed in enumerate(change(self.batches(self.limit)), 1):
            total += changed
            if number % PROGRESS_BATCHES == 0:
                click.echo(f"{total:,} {deed.done} …", err=True)
            time.sleep(PAUSE_SECONDS)
        click.echo(f"1 job {deed.one}." if total == 1 else f"{total:,} jobs {deed.many}.")

    def how_many(self, found: int) -> str:
        count = f"{MOST_COUNTED:,}+" if found > MOST_COUNTED else f"{found:,}"
        state = f" {self.wanted.state}" if self.wanted.state else ""
        return f"{count}{state} {'job' if found == 1 else 'jobs'}"


def deleting(queue: Queue) -> Change:
    """Delete jobs, and say which logs had to stay."""
    return each(
        partial(
            queue.delete_all,
            leave=lambda path: click.echo(
                f"Warning: {path} could not be deleted: somebody has it open. Delete it yourself later.", err=True
            ),
        )
    )


def ask(question: str) -> None:
    if sys.stdin is None or not platforms.is_console(sys.stdin):
        raise QueueError(f"{question} There is nobody to ask. Add --yes to do it, or --dry-run to see them")
    click.confirm(question, abort=True, err=True)


def chosen(queue: Queue, job_ids: Sequence[str], states: Sequence[State], options: dict[str, Any]) -> Bulk | None:
    """What the selectors choose; None where the jobs are named by their ids, and something is to be done to them."""
    wanted = selection(options)
    context = click.get_current_context()
    if bool(job_ids) == (wanted != Selection() or options["limit"] is not None):
        raise InvalidInput(f"Name jobs, or select them with --state and the like. See: {context.command_path} --help")
    if not job_ids:
        return Bulk(queue, wanted, states, options["limit"], options["yes"], options["dry_run"])
    if options["dry_run"]:
        click.echo(render.job_table(queue.named(job_ids)))
        context.exit()
    return None
