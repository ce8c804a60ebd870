"""`python -m benchmarks`: measure all subjects, or those named by --only, and print a table or JSON."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import bulk, idle, latency, looking, peers, postgres, startup, storage, throughput, web, web_load
from benchmarks.disk import creation_seconds, sync_seconds
from benchmarks.harness import QUICK, Figure, Scale, seconds
from benchmarks.queues import Shelf
from queuectl import render, shapes

SUBJECTS: dict[str, Callable[[Scale, Shelf], Iterator[Figure]]] = {
    "startup": startup.measure,
    "storage": storage.measure,
    "bulk": bulk.measure,
    "throughput": throughput.measure,
    "latency": latency.measure,
    "idle": idle.measure,
    "looking": looking.measure,
    "web": web.measure,
    "web_load": web_load.measure,
    "postgres": postgres.measure,
}
REACHED = {True: "yes", False: "NO", None: ""}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast queuectl is, as ratios.")
    parser.add_argument("--quick", action="store_true", help="small tables and few rounds, for a trial run")
    parser.add_argument("--only", action="append", choices=SUBJECTS, metavar="NAME", help=", ".join(SUBJECTS))
    parser.add_argument("--peers", action="store_true", help="only compare queuectl with other programs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # to end the workers
    with tempfile.TemporaryDirectory(prefix="queuectl-benchmark-") as root:
        compile_once(root)
        conditions = described(root, options.quick)
        if options.peers:
            print(f"{peers.compare(root, peers.QUICK if options.quick else peers.SCALE)}\n\n{footing(conditions)}")
            return
        figures = list(measure(options.only or list(SUBJECTS), QUICK if options.quick else Scale(), Shelf(root)))
    if options.json:
        print(shapes.to_json({"conditions": conditions, "figures": [figure.as_json() for figure in figures]}))
    else:
        print(as_table(figures, conditions))


def compile_once(root: str) -> None:
    """Let child processes use compiled modules, as they do for users, but keep these out of the checkout."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(root, "pycache")


def measure(names: list[str], scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    for name in names:
        began = time.monotonic()
        print(f"{name} …", end="", file=sys.stderr, flush=True)
        yield from SUBJECTS[name](scale, shelf)
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)


def described(root: str, quick: bool) -> dict[str, Any]:
    """The conditions on which the figures depend."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "directory": os.path.dirname(root),
        "sync_seconds": sync_seconds(root),
        "creation_seconds": creation_seconds(root),
        "quick": quick,
    }


def as_table(figures: list[Figure], conditions: dict[str, Any]) -> str:
    rows = [
        [
            figure.what,
            f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.2f}",
            figure.unit,
            figure.target or "",
            REACHED[figure.is_reached],
            figure.aside,
        ]
        for figure in figures
    ]
    text = render.table(rows, ["measured side by side", "", "", "to reach", "reached", "medians"])
    return f"{text}\n\n{footing(conditions)}"


def footing(conditions: dict[str, Any]) -> str:
    return (
        f"The disk under {conditions['directory']}: {seconds(conditions['sync_seconds'])} to sync, "
        f"{seconds(conditions['creation_seconds'])} to create a file. Python {conditions['python']}, "
        f"SQLite {conditions['sqlite']}, {conditions['cores']} cores, {conditions['platform']}."
    )


if __name__ == "__main__":
    main()
