"""`status` and `list`, as whole processes, with many finished jobs against few."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Figure, Scale, alternate, at_most, queuectl, ratio, time_process, versus
from benchmarks.queues import Shelf


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    with shelf.queue(passed=scale.large) as long, shelf.queue(passed=scale.small) as short:
        for command in ("status", "list"):
            found = alternate(
                {
                    size: partial(time_process, queuectl(command), home)
                    for size, home in (("long", long), ("short", short))
                },
                scale.processes,
            )
            yield Figure(
                command,
                f"{command}, {scale.large:,} finished : {scale.small:,} finished",
                ratio(found["long"], found["short"]),
                "",
                at_most(1.5),
                versus(found["long"], found["short"]),
            )
