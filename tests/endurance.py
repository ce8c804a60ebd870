"""`python -m tests.endurance --hours 24 --rate 120`: days of small jobs while the clocks run fast; nothing may grow.

Only what the clocks say is fast: workers beat, tidy up, rotate and forget as often as they would, between so many jobs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from pretend import pretend  # noqa: E402

if TYPE_CHECKING:
    from queuectl.storage import Storage

WORKERS = ("w-one", "w-two")
# Of twenty jobs one is tried twice, and one prints more than its row keeps.
COMMANDS = [
    *["true"] * 18,
    "case $QUEUECTL_RUN in *.1) exit 1;; esac",
    "yes x | head -c 30000",
]
STATES = ("pending", "processing", "completed", "failed", "dead", "cancelled")
SETTINGS = {"max_output": "10000", "max_log_bytes": "1000000", "backoff_base": "30"}
MEGABYTE = 1_000_000


class Sample(NamedTuple):
    hours: float
    memory: int  # of the worker that has most
    files: int  # that a worker has open, at most
    database: int  # bytes, with its log
    outputs: int  # bytes of whole outputs
    worker_logs: int
    jobs: int  # that are in the database
    waiting: int
    workers: int  # that live
    enqueued: int  # from the beginning on
    completed: int


# How much more each may be in the last quarter than in the second: the database's log is written anew from 4 MB on, a
# worker's own is rotated at 1 MB, whole outputs may be a megabyte, and on a busy machine some jobs wait.
SLACK = Sample(0, MEGABYTE, 0, 5 * MEGABYTE, MEGABYTE, 2 * MEGABYTE, 0, 500, 0, 0, 0)
WATCHED = ("memory", "files", "database", "outputs", "worker_logs", "waiting")
LAST_SECONDS = 300  # real ones, for what still waits in the end


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.endurance", description=__doc__)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--rate", type=int, default=120, help="how many times as fast as real ones the clocks run")
    parser.add_argument("--jobs", type=int, default=20, help="enqueued each minute of those")
    parser.add_argument("--keep", default="1h", help="how long completed jobs are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="queuectl-endurance-") as root:
        samples = list(endure(Path(root), options.hours, options.rate, options.jobs, options.keep))
    problems = wrong(samples)
    for problem in problems:
        print(f"WRONG: {problem}")
    if not problems:
        print(f"Nothing has grown, and {samples[-1].completed:,} of {samples[-1].enqueued:,} jobs are completed.")
    return 1 if problems else 0


def endure(root: Path, hours: float, rate: int, jobs: int, keep: str) -> Iterator[Sample]:
    belief, home = root / "belief", root / "home"
    belief.mkdir()
    os.environ.update(pretend(belief, rate=rate), QUEUECTL_HOME=str(home))
    os.environ.pop("QUEUECTL_DB", None)
    exec((belief / "sitecustomize.py").read_text(), {})  # here, too: all must agree on the time
    from queuectl.errors import StorageError
    from queuectl.queue import Queue

    with Queue(str(home)) as queue:
        for name, value in {**SETTINGS, "keep_completed": keep}.items():
            queue.set(name, value)
        worker = [sys.executable, "-X", "utf8", str(ROOT / "queuectl" / "worker.py"), "--name"]
        workers = [subprocess.Popen([*worker, name], cwd=root) for name in WORKERS]
        try:
            began, minute, sampled = time.monotonic(), 0, 0.0
            print(" hours  memory  files  database  outputs  worker logs    jobs  waiting")
            while (passed := time.monotonic() - began) < hours * 3600:
                while minute <= passed // 60:
                    wave = [COMMANDS[(minute * jobs + number) % len(COMMANDS)] for number in range(jobs)]
                    with suppress(StorageError):  # a minute of waiting for a lock is soon over here
                        queue.enqueue_all([{"command": command} for command in wave])
                        minute += 1
                if passed >= sampled:
                    sampled += hours * 3600 / 48
                    sample = take(passed / 3600, home, workers, queue.storage)
                    print(as_line(sample), flush=True)
                    yield sample
                    if sample.workers < len(WORKERS):
                        return
                time.sleep(0.01)
            give_up = time.monotonic() + LAST_SECONDS * rate
            while sample.completed < sample.enqueued and sample.workers and time.monotonic() < give_up:
                time.sleep(0.2)
                sample = take((time.monotonic() - began) / 3600, home, workers, queue.storage)
            print(as_line(sample))
            yield sample
        finally:
            for one in workers:
                one.terminate()
            for one in workers:
                one.wait()


def take(hours: float, home: Path, workers: Sequence[subprocess.Popen[bytes]], storage: Storage) -> Sample:
    page = os.sysconf("SC_PAGE_SIZE")
    counts = storage.totals()
    pids = [one.pid for one in workers if one.poll() is None]
    return Sample(
        hours,
        max((int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page for pid in pids), default=0),
        max((len(os.listdir(f"/proc/{pid}/fd")) for pid in pids), default=0),
        size(home, "queuectl.db*"),
        size(home / "logs", "job-*"),
        size(home / "logs", "worker-*.log*"),
        sum(counts[state] for state in STATES),
        counts["pending"] + counts["failed"],
        len(pids),
        counts["event_enqueued"],
        counts["event_completed"],
    )


def size(directory: Path, pattern: str) -> int:
    total = 0
    for path in directory.glob(pattern):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # tidied up at this moment
            continue
    return total


def as_line(sample: Sample) -> str:
    megabytes = [f"{getattr(sample, name) / MEGABYTE:.1f}" for name in ("memory", "database", "outputs", "worker_logs")]
    memory, database, outputs, logs = megabytes
    return (
        f"{sample.hours:6.1f} {memory:>7} {sample.files:>6} {database:>9} {outputs:>8} {logs:>12} "
        f"{sample.jobs:>7,} {sample.waiting:>8,}"
    )


def wrong(samples: Sequence[Sample]) -> list[str]:
    last = samples[-1]
    if last.workers < len(WORKERS):
        return [f"only {last.workers} of {len(WORKERS)} workers live after {last.hours:.1f} hours"]
    problems = grown(samples)
    if last.completed < last.enqueued:
        problems.append(f"only {last.completed:,} of {last.enqueued:,} jobs are completed in the end")
    return problems


def grown(samples: Sequence[Sample]) -> list[str]:
    """What is more in the last quarter than it was in the second; in the first everything fills up."""
    quarter = len(samples) // 4
    problems = []
    for name in WATCHED:
        before = median(getattr(sample, name) for sample in samples[quarter : 2 * quarter])
        after = median(getattr(sample, name) for sample in samples[-quarter:])
        if after > before + getattr(SLACK, name):
            problems.append(f"{name} has grown from {before:,.0f} to {after:,.0f}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
