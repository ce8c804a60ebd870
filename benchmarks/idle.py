"""The cost of an idle worker: its share of a core, and its memory."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psutil

from benchmarks.harness import Figure, Scale, at_most, python
from benchmarks.queues import Shelf, workers
from queuectl.queue import Queue

SETTLE_SECONDS = 1.0
MEGABYTE = 1_000_000


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    with shelf.queue() as home, closing(Queue(home.root)) as queue, workers(home, queue.storage, 1) as started:
        poll_interval = queue.settings().poll_interval
        with sleeper(poll_interval) as bare:
            time.sleep(SETTLE_SECONDS)
            worker = psutil.Process(started[0].pid)
            family = [worker, *worker.children(recursive=True)]  # with its guardian
            before, began = [cpu_seconds(family), cpu_seconds([bare])], time.monotonic()
            time.sleep(scale.idle_seconds)
            after, passed = [cpu_seconds(family), cpu_seconds([bare])], time.monotonic() - began
        busy, least = (100 * (late - early) / passed for early, late in zip(before, after))
        resident = worker.memory_info().rss / MEGABYTE
        unique = sum(process.memory_full_info().uss for process in family) / MEGABYTE
    aside = f"a bare loop of sleep({poll_interval:g}): {least:.2f} %"
    yield Figure("idle_cpu", "an idle worker's share of a core", busy, "%", at_most(0.3), aside)
    yield Figure("idle_memory", "an idle worker's memory, resident", resident, "MB", at_most(30))
    what = "an idle worker's memory that it shares with nobody"
    yield Figure("idle_unique", what, unique, "MB", None, "with its guardian")


@contextmanager
def sleeper(interval: float) -> Iterator[psutil.Process]:
    """A process that only wakes up at this interval: the least that any polling costs on this machine."""
    process = subprocess.Popen(python(f"import time\nwhile True: time.sleep({interval})"))
    try:
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)
