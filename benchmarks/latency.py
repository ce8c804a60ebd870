"""How soon an idle worker starts a new job: from the return of `enqueue` to the time that the job itself prints."""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import closing

from benchmarks.harness import PROCESS_SECONDS, Figure, Scale, at_most, percentile
from benchmarks.queues import Shelf, workers
from queuectl.job import State
from queuectl.queue import Queue

POLL_SECONDS = 0.05
IDLE_SECONDS = 0.25  # long enough for the worker to have synced and gone idle again


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    if shutil.which("date") is None:
        return
    with shelf.queue() as home, closing(Queue(home.root)) as queue, workers(home, queue.storage, 1):
        taken = [pick_up_millis(queue) for _ in range(scale.samples + 1)][1:]
    aside = f"{min(taken):.1f} to {max(taken):.1f} ms, {len(taken)} samples"
    yield Figure("pick_up", "pick-up by an idle worker, median", statistics.median(taken), "ms", at_most(50), aside)
    yield Figure("pick_up_95", "pick-up by an idle worker, 95th percentile", percentile(taken, 95), "ms")


def pick_up_millis(queue: Queue) -> float:
    # A random pause, so that the time since the worker's last poll varies.
    time.sleep(IDLE_SECONDS + random.random() / 10)
    added = queue.enqueue("date +%s%N")
    returned_at = time.time_ns()
    give_up = time.monotonic() + PROCESS_SECONDS
    while not (job := queue.get(added.id)).state.has_ended:
        if time.monotonic() > give_up:
            raise TimeoutError(f"after {PROCESS_SECONDS} s job {job.id} is still {job.state}")
        time.sleep(POLL_SECONDS)
    assert job.state is State.COMPLETED and job.output
    return (int(job.output) - returned_at) / 1e6
