"""The wall clock, and a steady clock beside it, by which a change of the wall clock is noticed."""

from __future__ import annotations

import sys
import time
from functools import partial

from queuectl.times import Millis

# If the wall clock differs from the steady clock by more than this, it counts as having been set.
STEP: Millis = 1_000


class Clock:
    def now(self) -> Millis:
        return time.time_ns() // 1_000_000

    def steady(self) -> Millis:
        """Milliseconds since the machine started, including the time it was asleep; this clock cannot be set."""
        return steady_ns() // 1_000_000

    def hear(self, time: Millis | None) -> None:
        """Take over the database's time; this class uses the machine's own clock and ignores it."""


class ServerClock(Clock):
    """The database's clock, which all machines use; between two readings of it the steady clock is added."""

    _offset: Millis = 0

    def now(self) -> Millis:
        return self.steady() + self._offset

    def hear(self, time: Millis | None) -> None:
        assert time is not None
        self._offset = time - self.steady()


if sys.platform == "linux":  # Linux stops CLOCK_MONOTONIC while the machine sleeps
    steady_ns = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
else:
    steady_ns = time.monotonic_ns
