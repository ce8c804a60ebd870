"""priority + waiting_time as one number, fixed when a job begins to wait: the smallest rank runs next.

All waiting jobs age at the same speed, so the order between two of them never changes, and none is ever rewritten
because time passes.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from queuectl.errors import InvalidInput, brief
from queuectl.times import Millis, parse_duration

ACCEPTED = "'1 enqueue', 'N enqueues', a duration such as '60s' or '10m', or 'off'"
ENQUEUES = r"(\d{1,9})\s*enqueues?"
PROMOTED = -(2**61)  # no rank that is computed is as low; who was promoted stands below


class Aging(NamedTuple):
    """Which clock a job ages by (ticks of enqueueing, milliseconds, or neither), and how much of it earns a point."""

    ticks: int
    millis: int
    point: int

    def rank(self, priority: int, since_tick: int, since_at: Millis) -> int:
        """The same sum stands in queries.sql, where many jobs are ranked at once."""
        return self.ticks * since_tick + self.millis * since_at - priority * self.point

    def waiting_time(self, ticks: int, millis: Millis) -> int:
        """Whole points earned by having waited so long; for people to look at, never for the order."""
        return max(0, self.ticks * ticks + self.millis * millis) // self.point


def before_all(first: int | None) -> int:
    """A rank below the first in line, and below all that are computed."""
    return min(first or 0, PROMOTED) - 1


OFF = Aging(ticks=0, millis=0, point=1)


@lru_cache(maxsize=8)
def parse_aging(text: str) -> Aging:
    wanted = text.strip().lower()
    if wanted == "off":
        return OFF
    enqueues = re.fullmatch(ENQUEUES, wanted, re.ASCII)
    if enqueues and int(enqueues[1]) > 0:
        return Aging(ticks=1, millis=0, point=int(enqueues[1]))
    # A bare number could be meant either way.
    millis = duration_millis(wanted) if wanted[-1:].isalpha() else 0
    if not millis:
        raise InvalidInput(f"aging cannot be {brief(text)}. It takes {ACCEPTED}")
    return Aging(ticks=0, millis=1, point=millis)


def duration_millis(text: str) -> Millis:
    try:
        return round(parse_duration(text) * 1000)
    except InvalidInput:
        return 0
