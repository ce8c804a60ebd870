"""What goes by itself: jobs completed long ago, whole outputs beyond a limit, environments that nobody uses any more.

Any worker does it, a little at a time; two that do it at the same moment do no harm.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from queuectl.files import remove
from queuectl.home import Home
from queuectl.job import Job
from queuectl.storage import Storage

BATCH = 500  # jobs a transaction: so few that nobody waits for it
LOOKED_AT = 5_000  # of the oldest jobs, for some that are old enough


def tidy(storage: Storage, home: Home) -> bool:
    """Remove a batch of what need not be kept; True if there is more to remove."""
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
    """Remove what was kept of a job's runs that printed much; what could not be, because somebody has it open."""
    kept = [path for lease in range(1, job.lease + 1) for path in home.kept(job.seq, lease)]
    return [path for path in kept if not remove(path)]


def remove_oldest_logs(home: Home, most: int) -> None:
    """Remove whole outputs, the oldest first, until the others have no more bytes than that."""
    kept = []
    with suppress(FileNotFoundError), os.scandir(home.logs) as entries:
        for entry in entries:
            if re.fullmatch(home.KEPT, entry.name):
                try:
                    found = entry.stat()
                except OSError:  # somebody else was first
                    continue
                kept.append((found.st_mtime, entry.path, found.st_size))
    total = sum(size for _, _, size in kept)
    for _, path, size in sorted(kept):
        if total <= most:
            break
        remove(path)
        total -= size
