"""Which jobs a command is about, by ids or by selectors; and the question before many jobs are changed at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import click

from queuectl import platforms, render
from queuectl.cli.options import Function, all_of
from queuectl.errors import InvalidInput, QueueError, sentence
from queuectl.fields import clean
from queuectl.job import Job, State, refuse_ended, refuse_running, refuse_unended
from queuectl.queue import Queue
from queuectl.selection import Selection
from queuectl.storage import MOST_COUNTED as MOST_BEHIND
from queuectl.times import parse_duration

MOST_COUNTED = 10_000
MOST_SHOWN = 20
PAUSE_SECONDS = 0.01  # between two batches, so that workers get the database's lock
PROGRESS_BATCHES = 20
UNENDED = (State.PENDING, State.FAILED, State.PROCESSING)
ENDED = (State.COMPLETED, State.DEAD, State.CANCELLED)
AT_REST = (*ENDED, State.PENDING, State.FAILED)

job_ids_argument = click.argument("job_ids", metavar="[ID]...", nargs=-1)


# The options that select jobs.
without_state = all_of(
    click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
    click.option("--label", metavar="TEXT", help="Only jobs with this label."),
    click.option("--match", metavar="TEXT", help="Only jobs with this text in their command."),
    click.option("--older-than", metavar="TIME", help="Only jobs that ended, or were added, this long ago: 2h, 7d."),
)


def selectors(states: Iterable[State]) -> Callable[[Function], Function]:
    """The options that select jobs, for a command that works on jobs in these states."""
    state = click.option(
        "--state",
        type=click.Choice([state.value for state in states], case_sensitive=False),
        multiple=True,
        callback=only_one,
        help="Only jobs in this state.",
    )
    return all_of(state, without_state)


def only_one(context: click.Context, param: click.Parameter, values: Sequence[str]) -> str | None:
    if len(values) > 1:
        raise InvalidInput("--state is given more than once. Run the command once for each state")
    return values[0] if values else None


# The options of commands that change many jobs at once.
asking = all_of(
    click.option("--limit", type=click.IntRange(1, 1_000_000_000), help="At most this many jobs."),
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Only show which jobs would be changed."),
)


def selection(options: dict[str, Any]) -> Selection:
    older_than, state = options["older_than"], options.get("state")
    return Selection(
        state=State(state) if state else None,
        queue=given(options, "queue"),
        label=given(options, "label"),
        match=given(options, "match"),
        older_than_seconds=None if older_than is None else parse_duration(older_than),
    )


def given(options: dict[str, Any], name: str) -> str | None:
    """The option's checked text; blank text is refused, because it would select all jobs by mistake."""
    if options[name] is None:
        return None
    if not options[name].strip():
        raise InvalidInput(f"--{name} is blank, which would be all jobs. Leave it out, or say which")
    return clean(f"--{name}", options[name])


def ids_or(job_ids: Sequence[str], options: dict[str, Any], needs_one: bool = True) -> Selection:
    """The selection of the options; refuse it together with ids and, if `needs_one`, neither of the two."""
    wanted = selection(options)
    is_selected = wanted != Selection() or options.get("limit") is not None
    if (job_ids and is_selected) or (needs_one and not (job_ids or is_selected)):
        path = click.get_current_context().command_path
        raise InvalidInput(f"Name jobs, or select them with --label and the like. See: {path} --help")
    return wanted


def none(wanted: Selection) -> str:
    """The message if nothing was found."""
    if wanted != Selection(wanted.state):
        return "No such jobs."
    return f"No {wanted.state} jobs." if wanted.state else "No jobs."


class Deed(NamedTuple):
    """An action on jobs: its words in questions and answers, the states that it works on, and the check of a job."""

    verb: str
    done: str
    one: str
    many: str
    states: Sequence[State]
    refuse: Callable[[Job], None]
    takes_along: str | None = None  # the question's words for dependents that are cancelled


CANCEL = Deed("Cancel", "cancelled", "was cancelled", "were cancelled", UNENDED, refuse_ended, "and")
RETRY = Deed("Retry", "retried", "is pending again", "are pending again", ENDED, refuse_unended)
DELETE = Deed("Delete", "deleted", "was deleted", "were deleted", AT_REST, refuse_running, "and cancel")
PURGE = DELETE._replace(states=ENDED, refuse=partial(refuse_unended, done="purged"))

# Changes jobs batch by batch, and yields for each batch how many jobs were changed.
Change = Callable[[Iterator[Sequence[Job]]], Iterable[int]]


def each(change: Callable[[Sequence[Job]], int]) -> Change:
    """Change each batch as soon as it is found."""
    return lambda batches: map(change, batches)


def retrying(queue: Queue) -> Change:
    """Retry the jobs once all are found: the dependencies between them decide the order."""
    return lambda batches: queue.retry_each(chain.from_iterable(batches))


class Bulk:
    """An action on all selected jobs that are in a state it works on, batch by batch."""

    def __init__(
        self,
        queue: Queue,
        wanted: Selection,
        deed: Deed,
        limit: int | None = None,
        yes: bool = False,
        dry_run: bool = False,
    ) -> None:
        self.queue = queue
        self.wanted = wanted
        self.deed = deed
        self.states = deed.states if wanted.state is None else [wanted.state]
        self.limit = limit
        self.yes = yes
        self.dry_run = dry_run

    def batches(self, limit: int | None) -> Iterator[Sequence[Job]]:
        for state in self.states:
            for jobs in self.queue.find_all(self.wanted._replace(state=state), limit):
                limit = None if limit is None else limit - len(jobs)
                if jobs:
                    yield jobs

    def do(self, change: Change, report: Callable[[int], str] | None = None) -> None:
        """Change all of them, after asking; with --dry-run only show them."""
        most = min(self.limit or MOST_COUNTED + 1, MOST_COUNTED + 1)
        found = {job.seq: job.dependents for batch in self.batches(most) for job in batch}
        others = self.queue.storage.doomed_with(found) if self.deed.takes_along else 0
        if not found:
            click.echo(none(self.wanted))
        elif self.dry_run:
            first = [job for batch in self.batches(min(len(found), MOST_SHOWN)) for job in batch]
            show(self.deed, first, self.how_many(len(found)), len(found), others)
        else:
            if not self.yes:
                ask(question(self.deed, self.how_many(len(found)), len(found), others))
            total = self.go_through(change)
            click.echo(report(total) if report else sentence(said(self.deed, total) + also(others, total)))

    def go_through(self, change: Change) -> int:
        total = 0
        for number, changed in enumerate(change(self.batches(self.limit)), 1):
            total += changed
            if number % PROGRESS_BATCHES == 0:
                click.echo(f"{total:,} {self.deed.done} …", err=True)
            time.sleep(PAUSE_SECONDS)
        return total

    def how_many(self, found: int) -> str:
        count = f"{MOST_COUNTED:,}+" if found > MOST_COUNTED else f"{found:,}"
        state = f" {self.wanted.state}" if self.wanted.state else ""
        return f"{count}{state} {'job' if found == 1 else 'jobs'}"


def said(deed: Deed, total: int) -> str:
    return f"1 job {deed.one}" if total == 1 else f"{total:,} jobs {deed.many}"


def also(behind: int, total: int) -> str:
    return f", and {waiting(behind, total)} {'was' if behind == 1 else 'were'} cancelled" if behind else ""


def question(deed: Deed, count: str, found: int, behind: int) -> str:
    return f"{deed.verb} {count}{f' {deed.takes_along} {waiting(behind, found)}' if behind else ''}?"


def show(deed: Deed, jobs: Sequence[Job], count: str, found: int, behind: int) -> None:
    """Show which jobs would be changed, and how many dependents would be cancelled."""
    click.echo(render.job_table(jobs))
    first = f"; these are the first {len(jobs)}" if found > len(jobs) else ""
    along = f", and {waiting(behind, found)} would be cancelled" if behind else ""
    click.echo(f"{count} would be {deed.done}{along}{first}.", err=True)


def waiting(behind: int, found: int) -> str:
    """The words for the jobs that wait for those that were found."""
    many = f"{behind:,}{'+' * (behind >= MOST_BEHIND)} {'job that waits' if behind == 1 else 'jobs that wait'}"
    return f"{many} for {'it' if found == 1 else 'them'}"


def deleting(queue: Queue) -> Change:
    """Delete jobs, and warn of log files that could not be deleted."""
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


def chosen(
    queue: Queue, job_ids: Sequence[str], deed: Deed, options: dict[str, Any], needs_one: bool = True
) -> Bulk | None:
    """The action on the selected jobs; None if jobs are named by ids. With --dry-run, named jobs are shown here."""
    wanted = ids_or(job_ids, options, needs_one)
    if len(deed.states) == 1:
        wanted = wanted._replace(state=deed.states[0])
    if not job_ids:
        return Bulk(queue, wanted, deed, options["limit"], options["yes"], options["dry_run"])
    if options["dry_run"]:
        jobs = named(queue, job_ids, deed)
        show(deed, jobs, "1 job" if len(jobs) == 1 else f"{len(jobs):,} jobs", len(jobs), behind(queue, jobs))
        click.get_current_context().exit()
    return None


def named(queue: Queue, job_ids: Sequence[str], deed: Deed) -> Sequence[Job]:
    """The jobs with these ids; refused unless the action works on all of them."""
    jobs = queue.named(job_ids)
    for job in jobs:
        deed.refuse(job)
    return jobs


def behind(queue: Queue, jobs: Sequence[Job]) -> int:
    """How many other jobs wait for these, and are cancelled if these are cancelled or deleted."""
    return queue.storage.doomed_with({job.seq: job.dependents for job in jobs if not job.state.has_ended})


def tell_also(others: int, jobs: Sequence[Job]) -> None:
    if others:
        click.echo(sentence(waiting(others, len(jobs)) + (" was" if others == 1 else " were") + " cancelled, too"))


# --- jobs that are named by ids ---


def retry_named(queue: Queue, job_ids: Sequence[str]) -> None:
    jobs = queue.retry(job_ids)
    for job in jobs:
        click.echo(f"Job {job.id} is pending again.")
    others = queue.storage.left_cancelled({job.seq: job.dependents for job in jobs})
    if others:
        stay = "1 job that waited" if others == 1 else f"{others:,}{'+' * (others >= MOST_BEHIND)} jobs that waited"
        again = "It stays so. To retry it" if others == 1 else "They stay so. To retry them"
        click.echo(
            f"{stay} for {'it' if len(jobs) == 1 else 'them'} {'was' if others == 1 else 'were'} cancelled. "
            f"{again}, too: queuectl retry --state cancelled",
            err=True,
        )


def delete_named(queue: Queue, job_ids: Sequence[str], deed: Deed) -> None:
    jobs = named(queue, job_ids, deed)
    others = behind(queue, jobs)
    for job in queue.delete([job.id for job in jobs]):
        click.echo(f"Job {job.id} was deleted.")
    tell_also(others, jobs)
