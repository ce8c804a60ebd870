"""One `enqueue` as a whole process, on an empty, a long and a worn queue, against the bare interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Figure, Scale, alternate, at_most, python, queuectl, ratio, time_process, versus
from benchmarks.queues import Shelf

IMPORTS = "import click, sqlite3, json"


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    enqueue = queuectl("enqueue", "true")
    with shelf.queue() as empty, shelf.queue(waiting=scale.large) as long, shelf.queue() as worn:
        # No other process has the queue open, so each process finds the files as the one before left them.
        for _ in range(scale.enqueues):
            time_process(enqueue, worn)
        sides = {
            "pass": (python("pass"), empty),
            "imports": (python(IMPORTS), empty),
            "empty": (enqueue, empty),
            "option": (queuectl("enqueue", "-p", "9", "true"), empty),
            "long": (enqueue, long),
            "worn": (enqueue, worn),
        }
        found = alternate(
            {name: partial(time_process, argv, home) for name, (argv, home) in sides.items()},
            scale.processes,
        )
    jobs, before = f"{scale.large:,} waiting", f"{scale.enqueues:,} without a worker"
    for name, what, one, other, target in (
        ("enqueue", "enqueue : python -c pass", "empty", "pass", at_most(4.5)),
        ("enqueue_imports", f'enqueue : python -c "{IMPORTS}"', "empty", "imports", None),
        ("enqueue_option", "enqueue -p 9 : python -c pass", "option", "pass", None),
        ("enqueue_long", f"enqueue with {jobs} : python -c pass", "long", "pass", at_most(4.5)),
        ("enqueue_long_empty", f"enqueue with {jobs} : with none", "long", "empty", at_most(1.1)),
        ("enqueue_worn", f"enqueue after {before} : after none", "worn", "empty", at_most(1.1)),
    ):
        one_side, other_side = found[one], found[other]
        yield Figure(name, what, ratio(one_side, other_side), "", target, versus(one_side, other_side))
