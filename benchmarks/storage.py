"""`enqueue` and `claim` within one process, on short and long queues, and after many jobs have passed through.

Each is measured twice: unchanged, and without syncs, which take so long that they would hide other differences.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from benchmarks.harness import Figure, Scale, alternate, at_most, ratio, versus
from benchmarks.queues import Shelf
from queuectl.clock import Clock
from queuectl.fields import parse
from queuectl.home import Home
from queuectl.job import NewJob, Outcome
from queuectl.platforms import boot_id
from queuectl.storage import Storage
from queuectl.storage.sqlite import SQLiteStorage

WORKER = "w-benchmark"
# Operations per batch: enough that each batch includes its share of WAL checkpoints, which only few operations cause.
SYNCED, UNSYNCED = 200, 1_000


class Unsynced(SQLiteStorage):
    def begin(self, durable: bool) -> None:
        if self._full is None:
            self._execute("PRAGMA synchronous = OFF")
            self._full = False
        self._execute("BEGIN IMMEDIATE")


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    lines = {
        "small": (scale.small, 0, ""),
        "middle": (scale.middle, 0, f"{scale.middle:,} waiting"),
        "large": (scale.large, 0, f"{scale.large:,} waiting"),
        "passed": (scale.small, scale.large, f"{scale.large:,} passed through"),
    }
    for engine, operations, suffix, manner in (
        (SQLiteStorage, SYNCED, "", ""),
        (Unsynced, UNSYNCED, "_unsynced", " without syncs"),
    ):
        with ExitStack() as stack:
            batches = {}
            for line, (waiting, passed, _) in lines.items():
                home = stack.enter_context(shelf.queue(waiting, passed))
                batches[line] = Batch(stack.enter_context(closing(connect(engine, home))), operations)
            alternate({line: batch.measure for line, batch in batches.items()}, scale.rounds)
        base = batches.pop("small")
        for line, batch in batches.items():
            for verb, some, few in (("enqueue", batch.adds, base.adds), ("claim", batch.claims, base.claims)):
                yield Figure(
                    f"{verb}_{line}{suffix}",
                    f"{verb}{manner}, {lines[line][2]} : {scale.small:,} waiting",
                    ratio(some, few),
                    "",
                    at_most(1.5),
                    versus(some, few),
                )


def connect(engine: type[SQLiteStorage], home: Home) -> Storage:
    return engine(home.database, Clock(), boot_id())


class Batch:
    """Adds, claims and finishes jobs one by one, so that the length of the line does not change."""

    def __init__(self, storage: Storage, operations: int) -> None:
        self.storage = storage
        self.operations = operations
        self.adds: list[float] = []
        self.claims: list[float] = []
        self._new = parse({"command": "true"}, storage.settings(), "/", storage.clock.now())

    def measure(self) -> float:
        taken = [self._pass_one(self._new) for _ in range(self.operations)]
        self.adds.append(statistics.fmean(add for add, _ in taken))
        self.claims.append(statistics.fmean(claim for _, claim in taken))
        return self.adds[-1] + self.claims[-1]

    def _pass_one(self, new: NewJob) -> tuple[float, float]:
        began = time.perf_counter()
        self.storage.add([new])
        added = time.perf_counter()
        job = self.storage.claim(WORKER)
        claimed = time.perf_counter()
        assert job is not None
        self.storage.finish(job, Outcome(0, 0.0))
        return added - began, claimed - added
