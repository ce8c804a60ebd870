"""`wait`: wait until jobs have ended, with a progress bar."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

import click

from queuectl.cli.selecting import UNENDED, job_ids_argument, selection, selectors
from queuectl.errors import InvalidInput
from queuectl.estimates import forecast
from queuectl.job import Job, State
from queuectl.liveness import Condition, conditions
from queuectl.queue import Queue
from queuectl.selection import Selection
from queuectl.times import Millis, roughly
from queuectl.waiting import ForAll, ForJobs, Progress, own_number, wait_until_over

DRAW_SECONDS, ESTIMATE_SECONDS = 0.1, 1.0
MOST_TOLD = 20
BAR = 24


@click.command()
@job_ids_argument
@click.option("--all", "everything", is_flag=True, help="Every job, including jobs that are added meanwhile.")
@selectors(UNENDED)
@click.option("--limit", type=click.IntRange(1, 1_000_000_000), help="At most this many jobs.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Then give up, with exit code 124.")
def wait(job_ids: tuple[str, ...], everything: bool, timeout: float | None, **options: Any) -> None:
    """Wait until jobs have ended: exit code 0 if all are completed, 1 if one is dead, was cancelled or was deleted.

    A job that is purged after it has completed counts as completed. --queue alone waits for every job of that queue,
    including jobs that are added meanwhile; other selectors mean the jobs that wait or run now.

    \b
    Examples:
      queuectl wait job1 job2
      queuectl wait --all --timeout 600
      queuectl wait --queue gpu
    """
    selected = selection(options)
    if bool(job_ids) + everything + (selected != Selection()) != 1:
        raise InvalidInput("Name the jobs to wait for, or use --all, or select them with --label. See: queuectl list")
    queue = Queue()
    storage = queue.storage
    wanted: ForJobs | ForAll
    if everything or (selected == Selection(queue=selected.queue) and options["limit"] is None and not job_ids):
        wanted = ForAll(storage, selected.queue)
    else:
        wanted = ForJobs(storage, queue.named(job_ids) if job_ids else unended(queue, selected, options["limit"]))
    if not wanted.is_over() and all(condition is not Condition.ALIVE for _, condition in conditions(storage)):
        click.echo("No worker is running: nothing will end until one is. Start it: queuectl worker start", err=True)
    name = selected.queue
    if name is not None and not wanted.is_over() and storage.queue(name).is_paused:
        click.echo(f"Queue {name} is paused: nothing starts until it goes on: queuectl queue resume {name}", err=True)
    bar = Bar(queue, wanted)
    try:
        wait_until_over(storage, wanted, timeout, bar.draw)
    finally:
        bar.clear()
    progress = wanted.progress()
    if isinstance(wanted, ForJobs):
        failed = [job for job in wanted.ended if job.state is not State.COMPLETED]
        for job in failed[:MOST_TOLD]:
            click.echo(f"Job {job.id} is {job.state}: {job.error_message}. See: queuectl show {job.id}", err=True)
        for job in wanted.deleted[:MOST_TOLD]:
            click.echo(f"Job {job.id} was deleted before it was seen to end: its result is unknown.", err=True)
    click.echo(summary(progress), err=True)
    sys.exit(0 if progress.all_completed else 1)


def unended(queue: Queue, selected: Selection, limit: int | None) -> list[Job]:
    """The selected jobs that wait or run, except the job that runs this very command."""
    states = UNENDED if selected.state is None else [selected.state]
    pages = (page for state in states for page in queue.find_all(selected._replace(state=state), limit))
    own = own_number(queue.storage)
    return [job for page in pages for job in page if job.seq != own][:limit]


class Bar:
    """A line on stderr that is drawn again and again; on a terminal only."""

    def __init__(self, queue: Queue, wanted: ForJobs | ForAll) -> None:
        self._queue = queue
        self._wanted = wanted
        self._is_shown = sys.stderr.isatty()
        self._drawn_at = self._estimated_at = 0.0
        self._end_at: Millis | None = None
        self._width = 0

    def draw(self) -> None:
        now = time.monotonic()
        if not self._is_shown or now - self._drawn_at < DRAW_SECONDS:
            return
        self._drawn_at = now
        progress = self._wanted.progress()
        if now - self._estimated_at >= ESTIMATE_SECONDS:
            self._estimated_at = now
            self._end_at = self._estimate(progress)
        left = None if self._end_at is None else max(0, self._end_at - self._queue.storage.clock.now()) / 1000
        self._show(line(progress, left)[: shutil.get_terminal_size().columns - 1])

    def _estimate(self, progress: Progress) -> Millis | None:
        expected = forecast(self._queue.storage)
        if isinstance(self._wanted, ForAll):
            return expected.end_of_all(progress.left, self._wanted.queue)
        return expected.end_of([job for job in self._wanted.left if not job.state.has_ended])

    def _show(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))  # no escape codes: a plain Windows console shows them
        sys.stderr.flush()
        self._width = len(text)

    def clear(self) -> None:
        if self._width:
            self._show("")
            sys.stderr.write("\r")


def line(progress: Progress, seconds_left: float | None) -> str:
    """The progress in one line: `[########----------------] 1 of 3 ended, 1 running, 1 waiting, ~12 s left`."""
    total = progress.ended + progress.left
    full = BAR * progress.ended // total if total else BAR
    parts = [f"{progress.ended:,} of {total:,} ended"]
    parts += [f"{count:,} {word}" for word, count in progress._asdict().items() if count and word != "completed"]
    if seconds_left is not None:
        parts.append(f"~{roughly(seconds_left)} left")
    return f"[{'#' * full}{'-' * (BAR - full)}] {', '.join(parts)}"


def summary(progress: Progress) -> str:
    counts = [f"{count:,} {word}" for word, count in progress._asdict().items() if count]
    return ", ".join(counts or ["Nothing to wait for"]) + "."
