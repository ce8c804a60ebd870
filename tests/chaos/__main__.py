"""`python -m tests.chaos --seconds 60 --seed 1 [--postgres]`: let it happen, and account for every job."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Lock
from typing import NamedTuple, TextIO

from postgres import Server, place

from queuectl.job import State

from . import faults
from .accounting import Books, Row, Run, discrepancies, record
from .load import Load
from .stage import Stage

WORKERS = 4  # on each machine; who is killed is replaced
AT_ONCE, PAUSE_SECONDS = 3, (0.1, 1.0)  # faults, and between two
END_SECONDS = 600  # for all that waits to end once the faults are over
FILES = 25  # a worker that has just started has fewer open


class Cue(NamedTuple):
    fault: str
    seed: int
    pause_seconds: float  # after it


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--postgres", action="store_true", help="on a server of its own, with two machines")
    names = ", ".join(faults.FAULTS)
    parser.add_argument("--only", action="append", choices=faults.FAULTS, metavar="FAULT", help=names)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    root = Path(tempfile.mkdtemp(prefix="queuectl-chaos-"))
    again = f"python -m tests.chaos --seconds {options.seconds:g} --seed {seed}" + " --postgres" * options.postgres
    print(again, flush=True)
    with server(options.postgres) as found:
        stage = Stage(root, found)
        is_well = False
        try:
            problems = play(stage, seed, options.seconds, options.only)
            is_well = not problems
        finally:
            stage.remove(keep=not is_well)
    for problem in problems[:50]:
        print(f"WRONG: {problem}")
    if problems:
        print(f"{len(problems)} things are wrong. All there is to see is in {root}. Again: {again}")
        return 1
    print("Everything is accounted for.")
    return 0


@contextmanager
def server(wanted: bool) -> Iterator[Server | None]:
    if not wanted:
        yield None
        return
    with place() as root:
        made = Server(root)
        try:
            yield made
        finally:
            made.remove()


def possible(stage: Stage) -> list[str]:
    """The faults that there can be with this engine."""
    other = faults.OF_SQLITE if stage.server else faults.OF_POSTGRES
    return [name for name in faults.FAULTS if name not in other]


def script(random: Random, names: Sequence[str]) -> Iterator[Cue]:
    """What happens: everything once in some order, and then anything."""
    while True:
        for name in random.sample(names, len(names)):
            yield Cue(name, random.randrange(1_000_000), random.uniform(*PAUSE_SECONDS))


class Players:
    """They play the script together, each one fault at a time, until the time is over and each fault has happened."""

    def __init__(self, stage: Stage, load: Load, random: Random, names: Sequence[str]) -> None:
        self.stage = stage
        self.load = load
        self.happened: Counter[str] = Counter()  # by what each said that it did
        self.missing = set(names)
        self._cues = script(random, names)
        self._to_be_played = len(names)
        self._next = Lock()

    def play(self, seconds: float) -> None:
        began = time.monotonic()
        with open(self.stage.root / "chaos.log", "w", buffering=1) as log:
            threads = [
                self.stage.thread("a player of faults", lambda: self._play(began, began + seconds, log))
                for _ in range(AT_ONCE)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _next_cue(self, ends: float) -> Cue | None:
        with self._next:
            if self._to_be_played <= 0 and time.monotonic() >= ends:
                return None
            self._to_be_played -= 1
            return next(self._cues)

    def _play(self, began: float, ends: float, log: TextIO) -> None:
        while cue := self._next_cue(ends):
            log.write(f"{time.monotonic() - began:.2f} {cue.fault} begins\n")
            try:
                scene = faults.Scene(self.stage, self.load, Random(cue.seed))
                self.happened[faults.FAULTS[cue.fault](scene)] += 1
                self.missing.discard(cue.fault)
            except Exception as error:  # the rest goes on: what it leaves behind is part of the chaos
                self.stage.findings.append(f"{cue.fault} could not be done: {error!r}")
            log.write(f"{time.monotonic() - began:.2f} {cue.fault} is over\n")
            time.sleep(cue.pause_seconds)


def play(stage: Stage, seed: int, seconds: float, only: list[str] | None) -> list[str]:
    random = Random(seed)
    load = Load(stage, Random(seed))
    players = Players(stage, load, random, only or possible(stage))
    is_over = Event()
    keeper = stage.thread("whoever keeps workers", lambda: keep_workers(stage, is_over))
    for machine in stage.machines:
        stage.call("worker", "start", "--count", str(WORKERS), machine=machine)
    load.start()
    keeper.start()
    players.play(seconds)
    load.stop()
    is_over.set()
    keeper.join()
    unsettled = list(settle(stage))
    problems = [*audit(stage, load, only), *unsettled, *stage.findings]
    problems += [f"{name} did not happen" for name in sorted(players.missing)]
    for what, count in sorted(players.happened.items()):
        print(f"{count:6} × {what}")
    return problems


def keep_workers(stage: Stage, is_over: Event) -> None:
    """There are some at all times, or nothing could go wrong."""
    while not is_over.wait(0.5):
        if len(stage.workers()) < WORKERS * len(stage.machines):
            for machine in stage.machines:
                stage.call("worker", "start", machine=machine)


def settle(stage: Stage) -> Iterator[str]:
    """Let all that waits come to its end, and stop."""
    stage.set_clock(stage.most_ahead + 10)  # what was to run at a time when the clock was ahead
    for name in ("rate", "keep-completed", "max-backoff"):
        stage.call("config", "unset", name)
    stage.call("queue", "resume", "slow")  # whoever paused it may have failed to
    stage.call("config", "set", "max-backoff", "1")
    for machine in stage.machines:
        stage.call("worker", "start", "--count", str(WORKERS), machine=machine)
    left, counts = -1, {}
    deadline = time.monotonic() + END_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        with stage.storage() as storage:
            counts = storage.totals()
            left = counts["pending"] + counts["processing"] + counts["failed"]
    if left:
        yield f"{left} jobs did not come to an end within {END_SECONDS} s: {counts}"
    for worker in stage.workers():
        files = len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))
        if files > FILES:
            yield f"worker {worker.pid} has {files} files open"
    for machine in stage.machines:
        done = stage.call("worker", "stop", machine=machine)
        if done.returncode:
            yield f"worker stop failed: {done.stderr}"


def audit(stage: Stage, load: Load, only: list[str] | None) -> list[str]:
    problems = []
    lines = (stage.work / "records").read_text().splitlines()
    with stage.storage() as storage:
        found = storage.statement("SELECT seq, id, state, lease, label FROM jobs", {}).fetchall()
        rows = [Row(seq, job_id, State(state), lease, label) for seq, job_id, state, lease, label in found]
        found = storage.statement("SELECT seq, lease, outcome, exit_code FROM runs", {}).fetchall()
        runs = [*map(Run._make, found)]
        enqueued = storage.totals()["event_enqueued"]
    books = Books(load.account, [*map(record, lines)], rows, runs, enqueued)
    problems += discrepancies(books)
    checked = stage.call("db", "check")
    if checked.returncode:
        problems.append(f"db check: {checked.stdout}{checked.stderr}")
    problems += [f"process {process.pid} is left: {process.command}" for process in stage.processes()]
    problems += open_files(stage)
    problems += broken_workers(stage)
    states = Counter(row.state for row in rows)
    said = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    begun = sum(one.what == "begin" for one in books.records)
    ended = sum(one.what == "end" for one in books.records)
    print(
        f"{len(load.account.accepted):,} jobs were accepted, {len(load.account.doubtful)} enqueues were broken off; "
        f"{enqueued:,} were stored, {said}, {enqueued - len(rows):,} deleted; {begun:,} runs began, and "
        f"{begun - ended:,} of them were broken off"
    )
    problems += harmless(only, len(load.account.doubtful), begun - ended)
    for complaint, count in Counter(load.account.refused.values()).most_common():
        print(f"{count:6} × refused: {complaint.strip()}")
    return problems


def harmless(only: Sequence[str] | None, enqueues: int, runs: int) -> Iterator[str]:
    """Chaos that broke nothing off has shown nothing; faults that were chosen need not break off either."""
    if not enqueues and (not only or "kill_enqueuer" in only):
        yield "no enqueue was broken off"
    if not runs and (not only or {"kill_worker", "kill_job"} & {*only}):
        yield "no run was broken off"


def open_files(stage: Stage) -> Iterator[str]:
    """Whoever still has a file of the queue open; nobody should."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            to = str(link.readlink())
        except OSError:
            continue
        if any(to.startswith(str(machine.home)) for machine in stage.machines):
            yield f"{to} is still open: {link}"


def broken_workers(stage: Stage) -> Iterator[str]:
    """A worker that failed by itself: whatever happens, it is to go on, or to say in one line why it cannot."""
    for machine in stage.machines:
        for log in (machine.home / "logs").glob("worker-*.log*"):
            if "Traceback" in (text := log.read_text(errors="replace")):
                yield f"{log.name}: {text[text.index('Traceback') :][:3000]}"


if __name__ == "__main__":
    sys.exit(main())
