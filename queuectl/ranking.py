"""priority + waiting_time as one number, fixed when a job begins to wait: the smallest rank runs next.

All waiting jobs age at the same speed, so the order of two of them never changes, and no row has to be updated as time
passes.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from queuectl.errors import InvalidInput, brief
from queuectl.times import Millis, parse_duration

ACCEPTED = "'1 enqueue', 'N enqueues', a duration such as '60s' or '10m', or 'off'"
ENQUEUES = r"(\d{1,9})\s*enqueues?"
PROMOTED = -(2**61)  # computed ranks are above it, and the ranks of promoted jobs below


class Aging(NamedTuple):
    """The clock that a job ages by (enqueue ticks, milliseconds, or neither), and how much of it earns one point."""

    ticks: int
    millis: int
    point: int

    def rank(self, priority: int, since_tick: int, since_at: Millis) -> int:
        """The job's rank. queries.sql repeats this formula, to rank many jobs at once."""
        return self.ticks * since_tick + self.millis * since_at - priority * self.point

    def waiting_time(self, ticks: int, millis: Millis) -> int:
        """Whole points earned by waiting this long; only for display: the order is never computed from it."""
        return max(0, self.ticks * ticks + self.millis * millis) // self.point


def before_all(first: int | None) -> int:
    """A rank below that of the first job in line, and below all computed ranks."""
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
    # A number without a unit could be meant as enqueues or as seconds.
    millis = duration_millis(wanted) if wanted[-1:].isalpha() else 0
    if not millis:
        raise InvalidInput(f"aging cannot be {brief(text)}. It takes {ACCEPTED}")
    return Aging(ticks=0, millis=1, point=millis)


def duration_millis(text: str) -> Millis:
    try:
        return round(parse_duration(text) * 1000)
    except InvalidInput:
        return 0
