"""Automatic cleanup: old completed jobs, the oldest kept outputs beyond a limit, and unused environments.

Every worker does it, in small batches; several may safely do it at the same time.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from queuectl.files import remove
from queuectl.home import Home
from queuectl.job import Job
from queuectl.storage import Storage

BATCH = 500  # jobs per transaction: few enough that other transactions hardly wait
LOOKED_AT = 5_000  # how many of the oldest jobs are read to find completed ones that are old enough


def tidy(storage: Storage, home: Home) -> bool:
    """Remove one batch of data that need not be kept; True if there is probably more."""
    settings = storage.settings()
    if settings.max_log_bytes:
        remove_oldest_logs(home, settings.max_log_bytes)
    storage.forget_environments()
    if settings.keep_completed_seconds is None:
        return False
    before = storage.clock.now() - round(settings.keep_completed_seconds * 1000)
    old = storage.completed_before(before, LOOKED_AT, BATCH)
    if old:
        for job in storage.delete(old):
            remove_logs(home, job)
    return len(old) == BATCH


def remove_logs(home: Home, job: Job) -> list[str]:
    """Remove the kept output files of a job; return those that could not be, because another program has them open."""
    kept = [path for lease in range(1, job.lease + 1) for path in home.kept(job.seq, lease)]
    return [path for path in kept if not remove(path)]


def remove_oldest_logs(home: Home, most: int) -> None:
    """Remove kept output files, the oldest first, until the rest takes at most `most` bytes."""
    kept = []
    with suppress(FileNotFoundError), os.scandir(home.logs) as entries:
        for entry in entries:
            if re.fullmatch(home.KEPT, entry.name):
                try:
                    found = entry.stat()
                except OSError:  # another process has removed it
                    continue
                kept.append((found.st_mtime, entry.path, found.st_size))
    total = sum(size for _, _, size in kept)
    for _, path, size in sorted(kept):
        if total <= most:
            break
        remove(path)
        total -= size
