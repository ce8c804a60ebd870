"""The same work on queuectl and on those of its alternatives that are installed here, measured in turn.

A figure is the time of whole commands, as a user types them, including the start of each side's program.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.harness import PROCESS_SECONDS, Scale, seconds
from benchmarks.rivals import PEERS, SLOTS, TRUE, Peer
from queuectl import render

IDLE_SECONDS = 0.25
FILL_SECONDS = 900
SCALE = Scale(small=10_000, processes=21, rounds=3, samples=10)  # small: how many wait
QUICK = Scale(small=300, runs=200, processes=5, rounds=2, samples=5)


class Row(NamedTuple):
    """One measurement: its title, the peers that it applies to, and how a value is shown. Smaller values are better."""

    what: str
    measure: Callable[[type[Peer], str, Scale], float]
    is_for: Callable[[type[Peer]], bool]
    shown: Callable[[float], str] = seconds


def timed(peer: Peer, argv: Sequence[str], limit: float = PROCESS_SECONDS) -> float:
    began = time.perf_counter()
    peer.do(argv, limit)
    return time.perf_counter() - began


@contextmanager
def opened(kind: type[Peer], root: str) -> Iterator[Peer]:
    """A peer that is ready to run jobs, in a directory of its own; at the end its processes are killed."""
    peer = kind(root)
    try:
        peer.open()
        yield peer
    finally:
        peer.close()


def enqueue_one(kind: type[Peer], root: str, scale: Scale) -> float:
    with opened(kind, root) as peer:
        if peer.keeps_jobs:
            peer.hold()
        return statistics.median(timed(peer, peer.hand_in(*TRUE)) for _ in range(scale.processes))


def enqueue_many(kind: type[Peer], root: str, scale: Scale) -> float:
    with opened(kind, root) as peer:
        peer.hold()
        return timed(peer, peer.hand_in_many([TRUE] * min(scale.runs // 2, peer.most_waiting)))


def run_many(kind: type[Peer], root: str, scale: Scale) -> float:
    """Seconds from the first hand-in to the end of the last job; the last SLOTS jobs write down when they end."""
    with opened(kind, root) as peer:
        ends = [os.path.join(peer.root, f"end-{number}") for number in range(SLOTS)]
        jobs = min(scale.runs, kind.most_running)
        last = [["sh", "-c", f"date +%s%N >{end}.new; mv {end}.new {end}"] for end in ends]
        began = time.time_ns()
        peer.do(peer.hand_in_many([*[TRUE] * jobs, *last]))
        return (max(map(content_of, ends)) - began) / 1e9 * scale.runs / jobs


def pick_up(kind: type[Peer], root: str, scale: Scale) -> float:
    """Seconds from the return of the enqueue to the start of the command; negative if the command started first."""
    return statistics.median(started - returned for _, returned, started in pick_ups(kind, root, scale))


def hand_in_and_start(kind: type[Peer], root: str, scale: Scale) -> float:
    return statistics.median(started - called for called, _, started in pick_ups(kind, root, scale))


def pick_ups(kind: type[Peer], root: str, scale: Scale) -> list[tuple[float, float, float]]:
    """For each sample, when the enqueue was called, when it returned, and when the command started."""
    found = []
    with opened(kind, root) as peer:
        for number in range(scale.samples + 1):
            time.sleep(IDLE_SECONDS)
            path = os.path.join(peer.root, f"started-{number}")
            argv = peer.hand_in("sh", "-c", f"date +%s%N >{path}.new; mv {path}.new {path}")
            called = time.time_ns()
            peer.do(argv)
            returned = time.time_ns()
            found.append((called / 1e9, returned / 1e9, content_of(path) / 1e9))
    return found[1:]


def enqueue_behind(kind: type[Peer], root: str, scale: Scale) -> float:
    with filled(kind, root, scale.small) as peer:
        return statistics.median(timed(peer, peer.hand_in(*TRUE)) for _ in range(scale.processes))


def look_at_many(kind: type[Peer], root: str, scale: Scale) -> float:
    with filled(kind, root, scale.small) as peer:
        return statistics.median(timed(peer, peer.look()) for _ in range(scale.processes))


@contextmanager
def filled(kind: type[Peer], root: str, jobs: int) -> Iterator[Peer]:
    with opened(kind, root) as peer:
        peer.hold()
        peer.do(peer.hand_in_many([TRUE] * min(jobs, peer.most_waiting)), FILL_SECONDS)
        yield peer


def memory(kind: type[Peer], root: str, scale: Scale) -> float:
    """The memory of the peer's processes after they have run some jobs; shared memory counts once."""
    with opened(kind, root) as peer:
        end = os.path.join(peer.root, "end")
        peer.do(peer.hand_in_many([*[TRUE] * 100, ["touch", end]]))
        wait_for(end)
        time.sleep(IDLE_SECONDS)
        found = [process.memory_full_info() for process in peer.processes()]
        return float(sum(getattr(one, "pss", one.rss) for one in found))


def content_of(path: str) -> int:
    wait_for(path)
    with open(path, encoding="ascii") as file:
        return int(file.read())


def wait_for(path: str) -> None:
    give_up = time.monotonic() + PROCESS_SECONDS
    while not os.path.exists(path):
        if time.monotonic() > give_up:
            raise TimeoutError(f"{path} has not come")
        time.sleep(0.005)


def megabytes(value: float) -> str:
    return f"{value / 1e6:.0f} MB"


ROWS = [
    Row("hand in one job", enqueue_one, lambda kind: kind.keeps_jobs or not kind.runs_many),
    Row("hand in {half:,} jobs", enqueue_many, lambda kind: kind.keeps_jobs),
    Row("hand in and run {runs:,} jobs", run_many, lambda kind: kind.runs_many),
    Row("from its return to the start", pick_up, lambda kind: kind.keeps_jobs or not kind.runs_many),
    Row("from its call to the start", hand_in_and_start, lambda kind: kind.keeps_jobs or not kind.runs_many),
    Row("hand in with {waiting:,} waiting", enqueue_behind, lambda kind: kind.keeps_jobs),
    Row("status with {waiting:,} waiting", look_at_many, lambda kind: kind.keeps_jobs),
    Row("memory, idle", memory, lambda kind: kind.keeps_jobs and kind.runs_many, megabytes),
]


def compare(root: str, scale: Scale) -> str:
    """A table of all rows for all installed peers, and notes, also on the peers that are missing."""
    there = [kind for kind in PEERS if kind.missing() is None]
    lines: list[list[str]] = []
    for row in ROWS:
        what = row.what.format(half=scale.runs // 2, runs=scale.runs, waiting=scale.small)
        lines.append([what, *shown(row, there, measured(row, there, root, scale))])
        print(*lines[-1], sep="  ", file=sys.stderr, flush=True)
    notes = [f"{kind.name}: {kind.how}." for kind in there]
    fewer = [kind for kind in there if kind.keeps_jobs and kind.most_waiting < scale.small]
    notes += [f"{kind.name}: with {kind.most_waiting:,} waiting." for kind in fewer]
    slow = [kind for kind in there if kind.most_running < scale.runs]
    notes += [f"{kind.name}: {kind.most_running:,} jobs run, and their time is multiplied." for kind in slow]
    notes += [f"{kind.name} was not measured: there is no {kind.missing()}." for kind in PEERS if kind not in there]
    return "\n".join([render.table(lines, ["", *(kind.name for kind in there)]), "", *notes])


def measured(row: Row, there: Sequence[type[Peer]], root: str, scale: Scale) -> dict[type[Peer], list[float]]:
    """Each peer's values, one per round, with the order reversed in every second round; a peer that fails has none."""
    found: dict[type[Peer], list[float]] = {kind: [] for kind in there if row.is_for(kind)}
    for number in range(scale.rounds):
        for kind in list(found) if number % 2 == 0 else list(reversed(list(found))):
            try:
                found[kind].append(row.measure(kind, os.path.join(root, f"{kind.__name__}-{time.time_ns()}"), scale))
            except (subprocess.SubprocessError, TimeoutError) as error:
                print(f"{kind.name}: {error}", file=sys.stderr)
                del found[kind]
    return found


def shown(row: Row, there: Sequence[type[Peer]], found: dict[type[Peer], list[float]]) -> Iterator[str]:
    """For each peer, the factor by which its value exceeds queuectl's, and its median."""
    ours = found[there[0]]
    for kind in there:
        theirs = found.get(kind)
        if not theirs:
            yield "–"
            continue
        value = row.shown(statistics.median(theirs))
        factors = [other / own for other, own in zip(theirs, ours) if own > 0 and other > 0]
        is_ours = kind is there[0] or len(factors) < len(theirs)
        yield value if is_ours else f"{statistics.median(factors):.2g} × ({value})"
