"""Times and durations, in zones with and without daylight saving."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import pytest

from queuectl.errors import InvalidInput
from queuectl.times import iso, local, parse_duration, parse_time, short, spoken

# For machines without the database of time zones.
RULES = {
    "Europe/Berlin": "CET-1CEST,M3.5.0,M10.5.0/3",
    "America/New_York": "EST5EDT,M3.2.0,M11.1.0",
    "Asia/Kolkata": "IST-5:30",
    "UTC": "UTC0",
}
HOUR = 3_600_000


@pytest.fixture
def live_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    if not hasattr(time, "tzset"):
        pytest.skip("this platform cannot change a process's time zone")

    def move(zone: str) -> None:
        known = os.path.exists(f"/usr/share/zoneinfo/{zone}")
        monkeypatch.setenv("TZ", zone if known else RULES[zone])
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def utc(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


# --- times ---


@pytest.mark.parametrize(
    ("zone", "written", "meant"),
    [
        pytest.param("Europe/Berlin", "2027-01-31T02:00:00", "2027-01-31T01:00", id="Berlin in winter"),
        pytest.param("Europe/Berlin", "2027-07-31T02:00:00", "2027-07-31T00:00", id="Berlin in summer"),
        pytest.param(
            "Europe/Berlin", "2027-03-28T01:59:59", "2027-03-28T00:59:59", id="Berlin before the spring change"
        ),
        pytest.param("Europe/Berlin", "2027-03-28T03:00:00", "2027-03-28T01:00", id="Berlin after the spring change"),
        pytest.param(
            "Europe/Berlin", "2027-03-28T02:30:00", "2027-03-28T01:30", id="Berlin in the hour that is left out"
        ),
        pytest.param(
            "Europe/Berlin", "2027-10-31T02:30:00", "2027-10-31T00:30", id="Berlin in the hour that comes twice"
        ),
        pytest.param("Europe/Berlin", "2027-10-31T03:00:00", "2027-10-31T02:00", id="Berlin after the autumn change"),
        pytest.param("America/New_York", "2027-01-31T02:00:00", "2027-01-31T07:00", id="New York in winter"),
        pytest.param("America/New_York", "2027-07-31T22:00:00", "2027-08-01T02:00", id="New York in summer"),
        pytest.param("America/New_York", "2027-03-14T02:30:00", "2027-03-14T07:30", id="New York in the missing hour"),
        pytest.param("America/New_York", "2027-11-07T01:30:00", "2027-11-07T05:30", id="New York in the double hour"),
        pytest.param("Asia/Kolkata", "2027-01-31T02:00:00", "2027-01-30T20:30", id="Kolkata in winter"),
        pytest.param("Asia/Kolkata", "2027-07-31T02:00:00", "2027-07-30T20:30", id="Kolkata in summer"),
    ],
)
def test_a_time_without_an_offset_is_local_time_on_that_day(
    live_in: Callable[[str], None], zone: str, written: str, meant: str
) -> None:
    live_in(zone)
    assert parse_time(written) == utc(meant)


@pytest.mark.parametrize("zone", RULES)
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2027-01-31T02:00:00+01:00", "2027-01-31T01:00"),
        ("2027-07-31T02:00:00-05:00", "2027-07-31T07:00"),
        ("2027-01-31T02:00+05:30", "2027-01-30T20:30"),
        ("2027-03-28T02:30:00Z", "2027-03-28T02:30"),
        ("2027-03-28T02:30:00z", "2027-03-28T02:30"),
        ("2027-03-28 02:30:00+00:00", "2027-03-28T02:30"),
        ("  2027-03-28T02:30:00+00:00\n", "2027-03-28T02:30"),
    ],
)
def test_a_time_with_an_offset_means_the_same_everywhere(
    live_in: Callable[[str], None], zone: str, written: str, meant: str
) -> None:
    live_in(zone)
    assert parse_time(written) == utc(meant)


def test_a_date_alone_is_its_midnight_and_fractions_are_kept_to_the_millisecond(
    live_in: Callable[[str], None],
) -> None:
    live_in("Europe/Berlin")
    assert parse_time("2027-01-31") == utc("2027-01-30T23:00")
    assert parse_time("2027-01-31T02:00:00.123+00:00") == utc("2027-01-31T02:00") + 123
    assert parse_time("2027-01-31T02:00:00.123456+00:00") == utc("2027-01-31T02:00") + 123


@pytest.mark.parametrize("zone", RULES)
def test_a_time_in_json_parses_back_to_itself_through_both_changes_of_the_year(
    live_in: Callable[[str], None], zone: str
) -> None:
    live_in(zone)
    for day in ("2027-03-14", "2027-03-28", "2027-10-31", "2027-11-07"):
        for quarter in range(-8, 60):
            moment = utc(day) + quarter * HOUR // 4 + 7
            written = iso(moment)
            assert written is not None
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", written)
            assert parse_time(written) == moment


def test_a_shown_time_has_the_offset_of_its_own_day(live_in: Callable[[str], None]) -> None:
    live_in("Europe/Berlin")
    assert iso(utc("2027-01-31T01:00")) == "2027-01-31T02:00:00.000+01:00"
    assert iso(utc("2027-07-31T00:00")) == "2027-07-31T02:00:00.000+02:00"
    assert short(utc("2027-07-31T00:00")) == "2027-07-31 02:00:00"
    # The hour that comes twice: once before the change, once after it.
    assert iso(utc("2027-10-31T00:30")) == "2027-10-31T02:30:00.000+02:00"
    assert iso(utc("2027-10-31T01:30")) == "2027-10-31T02:30:00.000+01:00"
    live_in("Asia/Kolkata")
    assert iso(utc("2027-01-31T00:00")) == "2027-01-31T05:30:00.000+05:30"
    live_in("America/New_York")
    assert short(utc("2027-01-01T00:00")) == "2026-12-31 19:00:00"
    assert local(utc("2027-07-01T00:00")).utcoffset() == timedelta(hours=-4)


def test_no_time_is_shown_as_nothing() -> None:
    assert iso(None) is None
    assert short(None) == ""


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "tomorrow",
        "10m",
        "2027",
        "2027-13-01T00:00",
        "2027-02-30T00:00",
        "2027-01-31T25:00",
        "2027-01-31T02:00+99:00",
        "2027-01-31T02:00:00+01:00Z",
        "31.01.2027 02:00",
        "1969-12-31T00:00:00+00:00",
        "0001-01-01T00:00",
        "9999-12-31T23:59:59+00:00",
        "9999-12-31T23:59:59-14:00",
        "2027-01-31T02:00\0",
    ],
)
def test_what_is_not_a_time_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_time(written)
    assert repr(written) in str(refused.value)
    assert "2027-01-31T02:00:00" in str(refused.value)


def test_the_latest_time_that_is_taken_can_be_shown_in_every_zone(live_in: Callable[[str], None]) -> None:
    for zone in RULES:
        live_in(zone)
        moment = parse_time("9999-12-30T23:59:59+00:00")
        assert parse_time(iso(moment) or "") == moment


# --- durations ---


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("1.5", 1.5),
        ("1.5s", 1.5),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("2h30m", 9000),
        ("1d", 86400),
        ("1w2d", 9 * 86400),
        ("1d2h3m4s", 93784),
        ("1d4s", 86404),
        (" 10M ", 600),
        ("36500d", 100 * 365 * 86400),
    ],
)
def test_a_duration_is_so_many_seconds(written: str, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", " ", "-5", "+5", "m", "10x", "10 m", "1.5h", "30m2h", "5m5m", "1e3", "inf", "nan", "٣m", "1,5s", ".5", "1:30"],
)
def test_what_is_not_a_duration_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_duration(written)
    assert repr(written) in str(refused.value)
    assert "2h30m" in str(refused.value)


@pytest.mark.parametrize("written", ["36500d1s", "9" * 400, "9" * 400 + "d"], ids=lambda text: text[:10])
def test_a_duration_of_more_than_a_hundred_years_is_refused(written: str) -> None:
    with pytest.raises(InvalidInput, match="hundred years"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (0.0031, "3 ms"),
        (0.0994, "99 ms"),
        (0.0995, "0.10 s"),
        (0.42, "0.42 s"),
        (9.5, "9.50 s"),
        (12.9, "12 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (86400, "1 d 0 h"),
        (356400, "4 d 3 h"),
    ],
)
def test_a_duration_is_spoken_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert spoken(seconds) == said
