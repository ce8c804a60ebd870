"""When a recurring job comes next: by a cron line in a time zone, or every so often."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from queuectl.errors import InvalidInput, brief
from queuectl.times import Millis, parse_duration

SHORTEST_SECONDS = 1.0


class Rule(NamedTuple):
    """Either a cron line, read in a time zone, or a number of seconds, counted from when the schedule was made."""

    cron: str | None
    every_seconds: float | None
    tz: str

    def next_after(self, moment: Millis, anchor: Millis) -> Millis:
        """The first occurrence later than this moment."""
        if self.every_seconds is not None:
            step = round(self.every_seconds * 1000)
            return anchor + ((moment - anchor) // step + 1) * step
        from cronsim import CronSim

        # As Debian's cron does it: what falls into the hour that is skipped comes right after it, and what falls into
        # the hour that comes twice comes once, unless it comes every hour anyway.
        local = datetime.fromtimestamp(moment / 1000, ZoneInfo(self.tz))
        return round(next(CronSim(self.cron or "", local)).timestamp() * 1000)

    def __str__(self) -> str:
        return f"every {self.every_seconds:g} s" if self.cron is None else f"{self.cron} ({self.tz})"


def parse_rule(cron: str | None, every: str | None, tz: str | None, now: Millis) -> Rule:
    """The rule that these words give, if it ever comes to pass."""
    if (cron is None) == (every is None):
        raise InvalidInput('Say when: either --cron "0 2 * * *" or --every 15m')
    if every is not None:
        seconds = parse_duration(every)
        if seconds < SHORTEST_SECONDS:
            raise InvalidInput(f"--every cannot be {brief(every)}. It takes a duration from 1 s, e.g. 15m")
        return Rule(None, seconds, "")
    rule = Rule(" ".join((cron or "").split()), None, zone(tz))
    from cronsim import CronSimError

    try:
        rule.next_after(now, now)
    except CronSimError as error:
        raise InvalidInput(
            f"{brief(cron)} is not a cron line: {str(error).lower()}. It takes minute, hour, day, month and weekday"
        ) from None
    except StopIteration:
        raise InvalidInput(f"{brief(cron)} never comes to pass. Look at its day and month") from None
    return rule


def zone(name: str | None) -> str:
    """The time zone of this name, or the user's own."""
    wanted = name or local_zone()
    try:
        return ZoneInfo(wanted).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from difflib import get_close_matches

        near = get_close_matches(wanted, available_timezones(), 1)
        hint = f"Did you mean {near[0]!r}?" if near else "Write it like Europe/Berlin"
        raise InvalidInput(f"No time zone {brief(wanted)}. {hint}") from None


def local_zone() -> str:
    from tzlocal import get_localzone_name

    try:
        return get_localzone_name() or "UTC"
    except (ZoneInfoNotFoundError, LookupError, ValueError):  # a system that does not say
        return "UTC"
