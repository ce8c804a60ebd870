"""When a recurring job comes: cron lines in time zones, also when the clocks change, and every so often."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from queuectl import recurrence
from queuectl.errors import InvalidInput
from queuectl.recurrence import LEEWAY, Rule, local_zone, parse_rule

from .conftest import ROOT

NOW = 1_790_000_000_000
HOUR, DAY = 3_600_000, 86_400_000
# An hour that is skipped and one that comes twice; half an hour of both; at midnight; and no change at all.
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata", "UTC"]


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


def local(moment: int, zone: str) -> str:
    return datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %Z")


def occurrences(line: str, zone: str, since: int, until: int) -> Iterator[int]:
    rule, moment = Rule(line, None, zone), since
    while (moment := rule.next_after(moment, 0)) <= until:
        yield moment


# --- cron lines ---


def test_a_cron_line_is_read_in_its_time_zone() -> None:
    for zone, expected in [
        ("Europe/Berlin", "2026-06-02 00:00"),
        ("Asia/Kolkata", "2026-06-01 20:30"),
        ("UTC", "2026-06-02 02:00"),
    ]:
        found = Rule("0 2 * * *", None, zone).next_after(at("2026-06-01 12:00"), 0)
        assert local(found, "UTC") == f"{expected} UTC"


def test_what_falls_into_the_hour_that_is_skipped_comes_right_after_it() -> None:
    for zone, since, expected in [
        ("Europe/Berlin", "2026-03-28 12:00", "2026-03-29 03:00 CEST"),
        ("America/New_York", "2026-03-07 12:00", "2026-03-08 03:00 EDT"),
        ("Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-04 02:30 +11"),
    ]:
        assert local(Rule("15 2 * * *", None, zone).next_after(at(since, zone), 0), zone) == expected


def test_what_falls_into_the_hour_that_comes_twice_comes_once_the_first_time() -> None:
    for zone, line, since, expected in [
        ("Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", ["2026-10-25 02:30 CEST", "2026-10-26 02:30 CET"]),
        ("America/New_York", "30 1 * * *", "2026-10-31 12:00", ["2026-11-01 01:30 EDT", "2026-11-02 01:30 EST"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04 12:00", ["2026-04-05 01:45 +11", "2026-04-06 01:45 +1030"]),
    ]:
        start = at(since, zone)
        assert [local(found, zone) for found in occurrences(line, zone, start, start + 2 * DAY)] == expected


def test_who_asks_in_the_second_of_two_hours_of_the_same_name_is_told_of_tomorrow() -> None:
    asked = at("2026-10-25 02:10", "Europe/Berlin", fold=1)
    found = Rule("30 2 * * *", None, "Europe/Berlin").next_after(asked, 0)
    assert local(found, "Europe/Berlin") == "2026-10-26 02:30 CET"


def test_what_comes_every_hour_comes_in_both_hours_of_the_same_name() -> None:
    start = at("2026-10-25 01:30", "Europe/Berlin")
    found = [
        local(one, "Europe/Berlin")[11:] for one in occurrences("0 * * * *", "Europe/Berlin", start, start + 4 * HOUR)
    ]
    assert found == ["02:00 CEST", "02:00 CET", "03:00 CET", "04:00 CET"]


@settings(deadline=None)
@given(
    zone=some.sampled_from(ZONES),
    year=some.integers(2024, 2030),
    hour=some.integers(0, 23),
    minute=some.integers(0, 59),
)
def test_a_daily_job_comes_once_on_every_day_of_a_year(zone: str, year: int, hour: int, minute: int) -> None:
    first, last = date(year, 1, 1), date(year, 12, 31)
    since, until = at(f"{first} 00:00", zone) - 1, at(f"{last} 23:59", zone)
    found = list(occurrences(f"{minute} {hour} * * *", zone, since, until))
    days = Counter(datetime.fromtimestamp(one / 1000, ZoneInfo(zone)).date() for one in found)
    assert days == Counter(first + timedelta(days=number) for number in range((last - first).days + 1))
    assert all(earlier < later for earlier, later in pairwise(found))


CHANGES = ["2026-03-29 01:00", "2026-10-25 01:00", "2026-03-08 07:00", "2026-11-01 06:00", "2026-04-04 15:00"]
FIELDS = [
    some.sampled_from(["*", "*/7", "0", "30", "59", "15,45", "10-20"]),
    some.sampled_from(["*", "*/3", "0", "1", "2", "23", "1-3"]),
    some.sampled_from(["*", "1", "31", "L", "*/10"]),
    some.sampled_from(["*", "3", "10", "11", "JAN-JUN"]),
    some.sampled_from(["*", "0", "MON-FRI", "7", "6L"]),
]


@settings(deadline=None)
@given(
    line=some.tuples(*FIELDS).map(" ".join),
    zone=some.sampled_from(ZONES),
    moment=some.integers(at("2024-01-01 00:00"), at("2030-01-01 00:00"))
    | some.tuples(  # around the changes of the clocks, where it is hard
        some.sampled_from(
            ["2026-03-29 01:00", "2026-10-25 01:00", "2026-03-08 07:00", "2026-11-01 06:00", "2026-04-04 15:00"]
        ),
        some.integers(-2 * HOUR, 2 * HOUR),
    ).map(lambda around: at(around[0]) + around[1]),
)
def test_the_next_occurrence_is_always_later(line: str, zone: str, moment: int) -> None:
    rule = Rule(line, None, zone)
    try:
        found = rule.next_after(moment, 0)
    except InvalidInput:
        return  # the 31st of November
    assert found > moment
    assert rule.next_after(found, 0) > found
    assert rule.next_after(found - 1, 0) == found, "and nothing is between"


@pytest.mark.parametrize(
    "line",
    """
    0 2 * *,0 2 * * * *,0 24 * * *,60 2 * * *,0 2 32 * *,0 2 * 13 *,0 2 * * 8,a b c d e,0 2 31 2 *,0 2 30 FEB *,
    */0 * * * *,@daily,5-1 * * * *,
    """.strip()
    .replace("\n    ", "")
    .split(","),
)
def test_a_line_that_never_comes_to_pass_or_is_none_is_refused_in_one_line(line: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_rule(line, None, "UTC", NOW)
    assert repr(line) in str(refused.value) and "\n" not in str(refused.value)
    assert "minute, hour, day, month and weekday" in str(refused.value) or "day and month" in str(refused.value)


def test_the_29th_of_february_comes_every_four_years() -> None:
    found = list(occurrences("0 0 29 2 *", "UTC", at("2026-01-01 00:00"), at("2037-01-01 00:00")))
    assert [local(one, "UTC")[:10] for one in found] == ["2028-02-29", "2032-02-29", "2036-02-29"]


def test_seconds_are_no_part_of_a_cron_line_because_clock_changes_would_double_it() -> None:
    with pytest.raises(InvalidInput, match="It takes minute, hour"):
        parse_rule("0 30 2 * * *", None, "Europe/Berlin", NOW)


def test_it_is_said_when_exactly_once() -> None:
    for cron, every in ((None, None), ("0 2 * * *", "15m")):
        with pytest.raises(InvalidInput, match="either --cron"):
            parse_rule(cron, every, None, NOW)
    with pytest.raises(InvalidInput, match="--tz goes with --cron"):
        parse_rule(None, "15m", "Europe/Berlin", NOW)


# --- every so often ---


@given(seconds=some.floats(1, 1_000_000), anchor=some.integers(0, 2 * NOW), moment=some.integers(0, 2 * NOW))
def test_every_so_often_never_drifts(seconds: float, anchor: int, moment: int) -> None:
    rule, step = Rule(None, seconds, ""), round(seconds * 1000)
    found = rule.next_after(moment, anchor)
    assert moment < found <= moment + step
    assert (found - anchor) % step == 0, "however late it was looked at"
    assert rule.next_after(found, found) == rule.next_after(found, anchor) == found + step


@pytest.mark.parametrize("every", ["0", "0.5s", "999ms", "", "often", "-5m"])
def test_a_duration_that_is_none_or_too_short_is_refused(every: str) -> None:
    with pytest.raises(InvalidInput):
        parse_rule(None, every, None, NOW)


# --- the clock is set back ---


def test_only_what_would_come_much_too_late_is_astray() -> None:
    daily, often = Rule("0 2 * * *", None, "UTC"), Rule(None, 900, "")
    two = at("2026-06-01 02:00")
    tomorrow = two + DAY
    assert not daily.is_astray(tomorrow, two)
    assert not daily.is_astray(tomorrow, two - HOUR), "set back by an hour: today's has been"
    assert daily.is_astray(tomorrow, two - LEEWAY - 1), "set back by much more: today's is still to come"
    assert daily.is_astray(two + 3 * 365 * DAY, two)
    for line in ("* * * * *", "*/5 * * * *", "0 * * * *"):  # as with Debian's cron, these go by the clock as it is
        frequent = Rule(line, None, "UTC")
        following = frequent.next_after(two, 0)
        assert not frequent.is_astray(following, two) and frequent.is_astray(following + 2 * HOUR, two)
    assert not often.is_astray(two + 900_000, two)
    assert often.is_astray(two + 900_001, two)
    assert not often.is_astray(two - DAY, two), "late is not astray"


# --- time zones ---


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berlim", "Did you mean 'Europe/Berlin'?"),
        ("europe/berln", "Did you mean 'Europe/Berlin'?"),
        ("America/NewYork", "Did you mean 'America/New_York'?"),
        ("Mars", "Write it like Europe/Berlin"),
        ("../../etc/passwd", "Write it like Europe/Berlin"),
        ("", "Write it like Europe/Berlin"),
    ],
)
def test_an_unknown_time_zone_is_named_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_rule("0 2 * * *", None, name, NOW)
    assert str(refused.value) == f"No time zone {name!r}. {hint}"


def test_a_zone_that_is_there_no_more_is_an_error_of_one_line() -> None:
    with pytest.raises(InvalidInput, match="No time zone 'Europe/Atlantis'"):
        Rule("0 2 * * *", None, "Europe/Atlantis").next_after(NOW, NOW)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("Asia/Tokyo", "Asia/Tokyo"),
        (":America/New_York", "America/New_York"),
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("UTC", "UTC"),
    ],
)
def test_the_users_zone_is_what_the_variable_tz_names(
    variable: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", variable)
    assert local_zone() == name
    assert parse_rule("0 2 * * *", None, None, NOW).tz == name


def test_a_variable_tz_that_names_no_zone_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of CET-1CEST change, and no one knows when: another zone than the user's would be a lie."""
    monkeypatch.setenv("TZ", "CET-1CEST")
    with pytest.raises(InvalidInput, match="--tz"):
        local_zone()
    assert parse_rule("0 2 * * *", None, "Europe/Berlin", NOW).tz == "Europe/Berlin"


def test_without_the_variable_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import tzlocal

    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(tzlocal, "get_localzone_name", lambda: "Pacific/Auckland")
    assert local_zone() == "Pacific/Auckland"


def test_a_system_that_knows_no_zones_is_in_utc_only_if_its_clock_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import tzlocal

    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(tzlocal, "get_localzone_name", lambda: None)
    monkeypatch.setattr(recurrence.time, "timezone", 0)
    monkeypatch.setattr(recurrence.time, "daylight", 0)
    assert local_zone() == "UTC"
    monkeypatch.setattr(recurrence.time, "timezone", -3600)
    with pytest.raises(InvalidInput, match="--tz"):
        local_zone()


def test_without_zone_files_as_on_windows_the_package_tzdata_has_the_zones() -> None:
    code = (
        "from queuectl.recurrence import Rule; "
        f"print(Rule('15 2 * * *', None, 'Europe/Berlin').next_after({at('2026-03-28 12:00')}, 0))"
    )
    environment = {**os.environ, "PYTHONTZPATH": "" if os.name == "nt" else str(Path(os.sep) / "nowhere")}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == str(at("2026-03-29 03:00", "Europe/Berlin")), done.stderr


def test_moments_are_utc_whatever_the_zone() -> None:
    found = Rule("0 0 * * *", None, "Asia/Kolkata").next_after(at("2026-06-01 12:00"), 0)
    assert datetime.fromtimestamp(found / 1000, timezone.utc).isoformat() == "2026-06-01T18:30:00+00:00"
