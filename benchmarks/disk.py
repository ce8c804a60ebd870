"""How long the disk takes to sync and to create a file: a durable queue spends much of its time on that."""

from __future__ import annotations

import os
import statistics
import time

PAGE = b"\0" * 4096
SYNCS = 50
FILES = 200


def sync_seconds(directory: str) -> float:
    """The median time of appending a page to a file and syncing it."""
    taken = []
    with open(os.path.join(directory, "sync"), "wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(PAGE)
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    os.remove(file.name)
    return statistics.median(taken)


def creation_seconds(directory: str) -> float:
    """The median time of creating an empty file."""
    taken = []
    paths = [os.path.join(directory, f"file-{number}") for number in range(FILES)]
    for path in paths:
        began = time.perf_counter()
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        taken.append(time.perf_counter() - began)
    for path in paths:
        os.remove(path)
    return statistics.median(taken)
