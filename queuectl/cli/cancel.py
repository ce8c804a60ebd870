"""`cancel`: a waiting job is cancelled at once, a running job once its processes are dead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from queuectl.cli.selecting import (
    CANCEL,
    UNENDED,
    asking,
    behind,
    chosen,
    each,
    job_ids_argument,
    said,
    selectors,
    tell_also,
)
from queuectl.errors import sentence
from queuectl.job import Job, State
from queuectl.queue import Queue


@click.command()
@job_ids_argument
@click.option("--reason", default="cancelled by the user", help="Kept with the job.")
@selectors(UNENDED)
@asking
def cancel(job_ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Cancel jobs: waiting ones at once, running ones by ending all their processes.

    Jobs that wait for a cancelled one are cancelled with it, unless they were added with --after-any.

    \b
    Examples:
      queuectl cancel job1 last
      queuectl cancel --label nightly --reason "wrong file"
    """
    queue = Queue()
    if bulk := chosen(queue, job_ids, CANCEL, options):
        ending = Ending(queue, reason)
        bulk.do(each(ending.cancel), ending.report)
        return
    others = behind(queue, [job for job in queue.named(job_ids) if job.is_waiting])
    jobs = queue.cancel(job_ids, reason)
    for job in jobs:
        click.echo(f"Job {job.id} is {'being ended' if job.state is State.PROCESSING else job.state}.")
    tell_also(others, jobs)


class Ending:
    """Cancels jobs, and counts running ones separately: they are cancelled only once their processes are dead."""

    def __init__(self, queue: Queue, reason: str) -> None:
        self._queue = queue
        self._reason = reason
        self._ending = 0

    def cancel(self, jobs: Sequence[Job]) -> int:
        changed = self._queue.cancel_all(jobs, self._reason)
        running = [self._queue.storage.glance_at(job.seq) for job in jobs if job.state is State.PROCESSING]
        self._ending += sum(job is not None and job.state is State.PROCESSING for job in running)
        return changed

    def report(self, total: int) -> str:
        """The closing line; `total` includes dependents that were cancelled, too."""
        ended = total - self._ending
        being = f"{self._ending:,} {'is' if self._ending == 1 else 'are'} being ended"
        if not self._ending:
            return sentence(said(CANCEL, ended))
        if not ended:
            return sentence(being.replace(" ", " job " if self._ending == 1 else " jobs ", 1))
        return sentence(f"{said(CANCEL, ended)}, and {being}")
