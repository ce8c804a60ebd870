"""The clock on the wall, and a steady one beside it that tells when somebody has set the first."""

from __future__ import annotations

import sys
import time
from functools import partial

from queuectl.times import Millis

# What the two clocks may drift apart before it counts as somebody setting the clock.
STEP: Millis = 1_000


class Clock:
    def now(self) -> Millis:
        return time.time_ns() // 1_000_000

    def steady(self) -> Millis:
        """Milliseconds since the machine started, asleep or awake; nobody can set it."""
        return steady_ns() // 1_000_000

    def hear(self, time: Millis | None) -> None:
        """What time the database says it is; who goes by this machine's own clock does not listen."""


class ServerClock(Clock):
    """The database's clock, by which all machines go; from one look at it to the next our steady clock carries on."""

    _offset: Millis = 0

    def now(self) -> Millis:
        return self.steady() + self._offset

    def hear(self, time: Millis | None) -> None:
        assert time is not None
        self._offset = time - self.steady()


if sys.platform == "linux":  # where CLOCK_MONOTONIC stands still while the machine sleeps
    steady_ns = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
else:
    steady_ns = time.monotonic_ns
