"""Parse and format times and durations. Stored times are UTC epoch milliseconds."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from queuectl.errors import InvalidInput, brief

Millis = int

UNIT_SECONDS = {"w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
DURATION = r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?"  # compiled only when it is used
LONGEST_SECONDS = 100 * 365 * 86400
LATEST: Millis = 253_402_214_400_000  # 9999-12-31: a day before datetime's maximum, so valid in any time zone


def parse_duration(text: str) -> float:
    """Seconds in `90`, `1.5s`, `10m`, `2h30m`, `1d` or `2w`."""
    found = re.fullmatch(DURATION, text.strip().lower(), re.ASCII)
    if not found or not any(found.groups()):
        raise InvalidInput(f"{brief(text)} is not a duration. Write it like 90, 10m, 2h30m or 1d")
    seconds = sum(float(number or 0) * unit for number, unit in zip(found.groups(), UNIT_SECONDS.values()))
    if seconds > LONGEST_SECONDS:
        raise InvalidInput(f"{brief(text)} is longer than a hundred years. Write it like 90, 10m, 2h30m or 1d")
    return seconds


def as_typed(seconds: float) -> str:
    """The duration as a user would type it: `1h30m`."""
    text, left = "", seconds
    for unit in "dhm":
        count, left = divmod(left, UNIT_SECONDS[unit])
        text += f"{count:g}{unit}" if count else ""
    return f"{text}{left:g}s" if left or not text else text


def parse_time(text: str) -> Millis:
    """The time given by an ISO 8601 text; without an offset it is local time."""
    iso = text.strip()
    if iso.endswith(("Z", "z")):  # Python 3.10 does not read it
        iso = iso[:-1] + "+00:00"
    try:
        moment = round(datetime.fromisoformat(iso).timestamp() * 1000)
        if not 0 <= moment <= LATEST or not iso.isprintable():  # fromisoformat accepts a NUL at the end
            raise ValueError
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"{brief(text)} is not a time. Write it like 2027-01-31T02:00:00 or 2027-01-31T02:00+01:00"
        ) from None
    return moment


def iso(moment: Millis | None) -> str | None:
    """ISO 8601 with the local offset, for JSON."""
    return None if moment is None else local(moment).isoformat(timespec="milliseconds")


def short(moment: Millis | None) -> str:
    """Local time for a table."""
    return "" if moment is None else local(moment).strftime("%Y-%m-%d %H:%M:%S")


def local(moment: Millis) -> datetime:
    return datetime.fromtimestamp(moment / 1000, timezone.utc).astimezone()


def spoken(seconds: float) -> str:
    """A duration for people: `3 ms`, `0.42 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def roughly(seconds: float) -> str:
    """An estimated or remaining duration for people: like `spoken`, but in whole seconds."""
    return f"{round(seconds)} s" if seconds < 59.5 else spoken(seconds)


def clock_time(moment: Millis, now: Millis) -> str:
    """A time near now, in local time, with the date only if it is on another day."""
    when = local(moment)
    return when.strftime("%H:%M:%S") if when.date() == local(now).date() else short(moment)
