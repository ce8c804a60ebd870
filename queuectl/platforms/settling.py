"""Kill repeatedly until no process of a run is found any more."""

from __future__ import annotations

import time
from collections.abc import Callable

# How long no process of the run must be found: one that is just starting may not carry the mark yet.
SETTLE_SECONDS = 0.05
GIVE_UP_SECONDS = 10.0


def kill_until_quiet(kill: Callable[[], int]) -> int:
    """Call `kill` until it finds nothing for SETTLE_SECONDS; return how many processes it killed."""
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
