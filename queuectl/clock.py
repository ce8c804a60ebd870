"""The clock on the wall, and a steady one beside it that tells when somebody has set the first."""

from __future__ import annotations

import sys
import time

from queuectl.times import Millis

# What the two clocks may drift apart before it counts as somebody setting the clock.
STEP: Millis = 1_000


class Clock:
    def now(self) -> Millis:
        return time.time_ns() // 1_000_000

    def steady(self) -> Millis:
        """Milliseconds since the machine started, asleep or awake; nobody can set it."""
        return steady_ns() // 1_000_000


def steady_ns() -> int:
    if sys.platform == "linux":  # where CLOCK_MONOTONIC stands still while the machine sleeps
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()
