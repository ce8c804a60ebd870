"""Two workers on jobs that do nothing, against xargs; on a new queue, and on one that has finished many jobs."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

from benchmarks.harness import PROCESS_SECONDS, Figure, Scale, alternate, at_least, ratio, time_process
from benchmarks.queues import Shelf, workers
from queuectl.home import Home
from queuectl.queue import Queue
from queuectl.storage import EndedRun

WORKERS = 2
POLL_SECONDS = 0.1


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    if shutil.which("xargs") is None:
        return
    names = os.path.join(shelf.root, "names")
    with open(names, "w", encoding="ascii") as file:
        file.writelines(f"{number}\n" for number in range(scale.runs))
    with shelf.queue(passed=scale.large) as old:
        found = alternate(
            {
                "xargs": partial(xargs_rate, old, scale.runs, names),
                "new": partial(new_queue_rate, shelf, scale.runs),
                "old": partial(queue_rate, old, scale.runs),
            },
            scale.rounds,
        )
    what = f"{scale.runs:,} jobs `true`, {WORKERS} workers : xargs -P{WORKERS}"
    for name, side, where in (("throughput", "new", ""), ("throughput_passed", "old", f", {scale.large:,} passed")):
        rates = " : ".join(f"{statistics.median(found[one]):,.0f}" for one in (side, "xargs"))
        yield Figure(
            name, what + where, ratio(found[side], found["xargs"]), "", at_least(0.95), f"{rates} jobs a second"
        )


def xargs_rate(home: Home, jobs: int, names: str) -> float:
    return jobs / time_process(["xargs", f"-P{WORKERS}", "-n1", "sh", "-c", "true"], home, names)


def new_queue_rate(shelf: Shelf, jobs: int) -> float:
    with shelf.queue() as home:
        return queue_rate(home, jobs)


def queue_rate(home: Home, jobs: int) -> float:
    return rate_of(run_all(home, jobs))


def rate_of(runs: Sequence[EndedRun]) -> float:
    """Jobs per second, from the first start to the last end, by the times that the queue has stored."""
    return 1000 * len(runs) / (max(run.finished_at for run in runs) - min(run.started_at for run in runs))


def run_all(home: Home, jobs: int) -> list[EndedRun]:
    """Let WORKERS workers run `jobs` jobs that do nothing."""
    with closing(Queue(home.root)) as queue:
        queue.enqueue_all([{"command": "true"}] * jobs)
        with workers(home, queue.storage, WORKERS):
            give_up = time.monotonic() + PROCESS_SECONDS
            while (counts := queue.counts())["pending"] or counts["processing"]:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"after {PROCESS_SECONDS} s there are still jobs: {counts}")
                time.sleep(POLL_SECONDS)
        runs = queue.storage.newest_runs(jobs)
    assert all(run.outcome == "completed" for run in runs)
    return runs
