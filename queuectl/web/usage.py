"""The processor use of each worker, with all processes that it has started."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

import psutil

SOONEST_SECONDS = 2.0  # between two scans of all processes, which take milliseconds

Spent = Mapping[int, Mapping[tuple[int, float], float]]


class Usage:
    """The processor use between the last two scans; nothing after the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._spent: Spent = {}
        self._percent: dict[int, float] = {}

    def percent(self, pids: Iterable[int]) -> dict[int, float]:
        """By the worker's pid; 100 is one core."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at >= SOONEST_SECONDS:
                before, passed = self._spent, now - self._looked_at
                self._spent, self._looked_at = spent_by(set(pids)), now
                self._percent = {
                    pid: round(100 * increase(before[pid], spent) / passed, 1)
                    for pid, spent in self._spent.items()
                    if pid in before
                }
            return self._percent


def spent_by(pids: set[int]) -> Spent:
    """The processor time of each of these processes and of each descendant so far, from one scan of all processes."""
    seconds: dict[int, tuple[float, float]] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    if pids:
        for process in psutil.process_iter(["ppid", "create_time", "cpu_times"]):
            found = process.info
            if found["cpu_times"] is not None:
                seconds[process.pid] = found["create_time"], found["cpu_times"].user + found["cpu_times"].system
                children[found["ppid"]].append(process.pid)
    return {
        pid: {(one, seconds[one][0]): seconds[one][1] for one in tree(pid, children)} for pid in pids & set(seconds)
    }


def tree(pid: int, children: Mapping[int, list[int]]) -> list[int]:
    found = [pid]
    for one in found:
        found += [child for child in children.get(one, ()) if child not in found]
    return found


def increase(before: Mapping[tuple[int, float], float], now: Mapping[tuple[int, float], float]) -> float:
    """The time that current processes have used since the scan before; a process that is new had used nothing then."""
    return sum(max(0.0, seconds - before.get(process, 0.0)) for process, seconds in now.items())
