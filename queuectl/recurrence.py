"""When a recurring job comes next: by a cron line in a time zone, or every so often."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from queuectl.errors import InvalidInput, brief
from queuectl.times import Millis, parse_duration

SHORTEST_SECONDS = 1.0
CRON_FIELDS = 5
# A fixed cron time that has come does not come again when the clock is set back by less, as with Debian's cron.
LEEWAY: Millis = 3 * 3600 * 1000


class Rule(NamedTuple):
    """Either a cron line, read in a time zone, or a number of seconds, counted from when the schedule was made."""

    cron: str | None
    every_seconds: float | None
    tz: str

    def next_after(self, moment: Millis, anchor: Millis) -> Millis:
        """The first occurrence later than this moment; the anchor is any occurrence there was or will be."""
        if self.every_seconds is not None:
            step = round(self.every_seconds * 1000)
            return anchor + ((moment - anchor) // step + 1) * step
        return self._next_by_cron(moment)

    def _next_by_cron(self, moment: Millis) -> Millis:
        from cronsim import CronSim, CronSimError

        # As Debian's cron does it: what falls into the hour that is skipped comes right after it, and what falls into
        # the hour that comes twice comes once, unless it comes every hour anyway.
        local = datetime.fromtimestamp(moment / 1000, known_zone(self.tz))
        try:
            for found in CronSim(self.cron or "", local):
                at = round(found.timestamp() * 1000)
                # Asked in the second of the two hours that have the same name, it begins with those of the first.
                if at > moment:
                    return at
        except CronSimError as error:
            raise InvalidInput(
                f"{brief(self.cron)} is not a cron line: {str(error).lower()}. "
                "It takes minute, hour, day, month and weekday"
            ) from None
        raise InvalidInput(f"{brief(self.cron)} never comes to pass. Look at its day and month")

    def is_astray(self, next_at: Millis, now: Millis) -> bool:
        """Whether an occurrence would come before the one that is taken for the next: the clock was set back."""
        comes_often = self.cron is None or any(field.startswith("*") for field in self.cron.split()[:2])
        leeway = 0 if comes_often else LEEWAY
        return next_at > self.next_after(now + leeway, next_at)


def parse_rule(cron: str | None, every: str | None, tz: str | None, now: Millis) -> Rule:
    """The rule that these words give, if it ever comes to pass."""
    if (cron is None) == (every is None):
        raise InvalidInput('Say when: either --cron "0 2 * * *" or --every 15m')
    if every is not None:
        if tz is not None:
            raise InvalidInput("--tz goes with --cron: --every counts by no clock on the wall. Leave it out")
        seconds = parse_duration(every)
        if seconds < SHORTEST_SECONDS:
            raise InvalidInput(f"--every cannot be {brief(every)}. It takes a duration from 1 s, e.g. 15m")
        return Rule(None, seconds, "")
    words = (cron or "").split()
    if len(words) != CRON_FIELDS:
        raise InvalidInput(f"{brief(cron)} is not a cron line. It takes minute, hour, day, month and weekday")
    rule = Rule(" ".join(words), None, local_zone() if tz is None else known_zone(tz).key)
    rule.next_after(now, now)
    return rule


def known_zone(name: str) -> ZoneInfo:
    zone = zone_named(name)
    if zone is None:
        from difflib import get_close_matches

        known = {one.lower(): one for one in available_timezones()}
        near = get_close_matches(name.lower(), known, 1)
        hint = f"Did you mean {known[near[0]]!r}?" if near else "Write it like Europe/Berlin"
        raise InvalidInput(f"No time zone {brief(name)}. {hint}")
    return zone


def zone_named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # it may look like a path, or be a directory of zones
        return None


def local_zone() -> str:
    """The name of the user's own time zone, by which a cron line knows when the clocks will change."""
    wanted = os.environ.get("TZ", "").removeprefix(":").rpartition("zoneinfo/")[2]
    if wanted and not wanted.startswith("/"):  # a file such as /etc/localtime has no name
        name: str | None = wanted
    else:
        from tzlocal import get_localzone_name

        try:
            name = get_localzone_name()
        except (ZoneInfoNotFoundError, LookupError, ValueError):  # its files contradict each other
            name = None
        if name is None and time.timezone == 0 and not time.daylight:  # a small system that knows of no zones at all
            name = "UTC"
    if name is None or zone_named(name) is None:
        raise InvalidInput("The name of your time zone cannot be told. Give it: --tz Europe/Berlin")
    return name
