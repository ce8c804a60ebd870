"""Killing again and again until nothing of a run is found any more."""

from __future__ import annotations

import time
from collections.abc import Callable

# How long a dying run is looked for: its last process may be only just starting, not yet to be recognised.
SETTLE_SECONDS = 0.05
GIVE_UP_SECONDS = 10.0


def kill_until_quiet(kill: Callable[[], int]) -> int:
    """Returns how many kills it took."""
    killed = 0
    give_up = time.monotonic() + GIVE_UP_SECONDS
    quiet_since: float | None = None
    while time.monotonic() < give_up:
        found = kill()
        killed += found
        if found:
            quiet_since = None
        elif quiet_since is None:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= SETTLE_SECONDS:
            break
        time.sleep(0.01)
    return killed
