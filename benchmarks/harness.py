"""Timing: as machines are noisy, the sides of a ratio are measured in turn, and the median of the rounds counts."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from queuectl.home import Home

CHECKOUT = Path(__file__).resolve().parent.parent
SCRIPT = str(CHECKOUT / "queuectl.py")
PROCESS_SECONDS = 300  # a process that takes longer is killed


class Scale(NamedTuple):
    """How much is measured: numbers of jobs and of rounds."""

    small: int = 1_000
    middle: int = 100_000
    large: int = 1_000_000
    bulk: int = 100_000
    runs: int = 2_000
    processes: int = 41  # rounds in which whole processes are measured
    enqueues: int = 500  # enqueue processes that wear the queue, one after another
    rounds: int = 7
    samples: int = 100
    idle_seconds: float = 30.0


QUICK = Scale(
    middle=5_000,
    large=20_000,
    bulk=10_000,
    runs=500,
    processes=11,
    enqueues=50,
    rounds=3,
    samples=20,
    idle_seconds=10.0,
)


class Target(NamedTuple):
    """The value that a figure must reach: a maximum if `is_ceiling`, else a minimum."""

    is_ceiling: bool
    value: float

    def is_reached(self, measured: float) -> bool:
        return measured <= self.value if self.is_ceiling else measured >= self.value

    def __str__(self) -> str:
        return f"{'at most' if self.is_ceiling else 'at least'} {self.value:,g}"


def at_most(value: float) -> Target:
    return Target(True, value)


def at_least(value: float) -> Target:
    return Target(False, value)


class Figure(NamedTuple):
    """One line of the report; a figure without a unit is a ratio."""

    name: str
    what: str
    value: float
    unit: str = ""
    target: Target | None = None
    aside: str = ""

    @property
    def is_reached(self) -> bool | None:
        return None if self.target is None else self.target.is_reached(self.value)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "value": self.value,
            "unit": self.unit or "ratio",
            "target": None if self.target is None else str(self.target),
            "reached": self.is_reached,
            "aside": self.aside,
        }


Measure = Callable[[], float]


def alternate(sides: Mapping[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Measure every side once per round, with the order reversed in every second round, after one warm-up round."""
    for measure in sides.values():
        measure()
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 == 0 else list(reversed(list(sides))):
            found[name].append(sides[name]())
    return found


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of the rounds' ratios: a disturbance during a round affects both of its sides."""
    return statistics.median(a / b for a, b in zip(one, other))


def versus(one: Sequence[float], other: Sequence[float]) -> str:
    """The medians of both sides, as text, in seconds."""
    return f"{seconds(statistics.median(one))} : {seconds(statistics.median(other))}"


def rates(operations: int, one: Sequence[float], other: Sequence[float]) -> str:
    """The medians of both sides, as text, in operations per second."""
    return " : ".join(f"{operations / statistics.median(side):,.0f}" for side in (one, other))


def seconds(value: float) -> str:
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def time_process(argv: Sequence[str], home: Home, stdin: str = os.devnull) -> float:
    """How long a process takes from its start to its end, with this home as its directory; it must succeed."""
    env = {**os.environ, "QUEUECTL_HOME": home.root}
    with open(stdin, "rb") as given:
        began = time.perf_counter()
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=home.root,  # `python -c` imports from its directory, and this one has no modules
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Not wait(timeout), which polls in steps of up to 50 ms and would round the measured time up to them.
        watchdog = threading.Timer(PROCESS_SECONDS, process.kill)
        watchdog.start()
        try:
            code = process.wait()
            taken = time.perf_counter() - began
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            watchdog.cancel()
    if code:
        raise subprocess.CalledProcessError(code, argv)
    return taken


def queuectl(*arguments: str) -> list[str]:
    """The command line of a queuectl from this checkout, on this interpreter."""
    return [sys.executable, SCRIPT, *arguments]


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]
