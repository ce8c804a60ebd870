"""When a recurring job is next due: by a cron line in a time zone, or at a fixed interval."""

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
# As with Debian's cron, if the clock is set back by less than this, a fixed cron time that has passed is not repeated.
LEEWAY: Millis = 3 * 3600 * 1000


class Rule(NamedTuple):
    """Either a cron line in a time zone, or an interval in seconds, counted from when the schedule was made."""

    cron: str | None
    every_seconds: float | None
    tz: str

    def next_after(self, moment: Millis, anchor: Millis) -> Millis:
        """The first occurrence after this moment; `anchor` is any past or future occurrence."""
        if self.every_seconds is not None:
            step = round(self.every_seconds * 1000)
            return anchor + ((moment - anchor) // step + 1) * step
        return self._next_by_cron(moment)

    def _next_by_cron(self, moment: Millis) -> Millis:
        from cronsim import CronSim, CronSimError

        # As in Debian's cron: a time in the hour that is skipped occurs right after it, and a time in the hour that
        # is repeated occurs once, unless the schedule is due every hour anyway.
        local = datetime.fromtimestamp(moment / 1000, known_zone(self.tz))
        try:
            for found in CronSim(self.cron or "", local):
                at = round(found.timestamp() * 1000)
                # Within the second of two repeated hours, CronSim begins with the occurrences of the first.
                if at > moment:
                    return at
        except CronSimError as error:
            raise InvalidInput(
                f"{brief(self.cron)} is not a cron line: {str(error).lower()}. "
                "It takes minute, hour, day, month and weekday"
            ) from None
        raise InvalidInput(f"{brief(self.cron)} never occurs. Check its day and month")

    def is_astray(self, next_at: Millis, now: Millis) -> bool:
        """Whether the clock was set back: then an occurrence is due before `next_at`, the stored next one."""
        comes_often = self.cron is None or any(field.startswith("*") for field in self.cron.split()[:2])
        leeway = 0 if comes_often else LEEWAY
        return next_at > self.next_after(now + leeway, next_at)


def parse_rule(cron: str | None, every: str | None, tz: str | None, now: Millis) -> Rule:
    """The rule that these options describe; refused if it never occurs."""
    if (cron is None) == (every is None):
        raise InvalidInput('Say when: either --cron "0 2 * * *" or --every 15m')
    if every is not None:
        if tz is not None:
            raise InvalidInput("--tz goes with --cron: --every does not depend on a time zone. Leave it out")
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
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the name may look like a path, or be a directory of zones
        return None


def local_zone() -> str:
    """The name of the user's time zone: from an offset alone, changes to and from summer time are unknown."""
    wanted = os.environ.get("TZ", "").removeprefix(":").rpartition("zoneinfo/")[2]
    if wanted and not wanted.startswith("/"):  # a path such as /etc/localtime is not the name of a zone
        name: str | None = wanted
    else:
        from tzlocal import get_localzone_name

        try:
            name = get_localzone_name()
        except (ZoneInfoNotFoundError, LookupError, ValueError):  # the system's files contradict each other
            name = None
        if name is None and time.timezone == 0 and not time.daylight:  # a small system without any time zones
            name = "UTC"
    if name is None or zone_named(name) is None:
        raise InvalidInput("The name of your time zone cannot be determined. Give it: --tz Europe/Berlin")
    return name
