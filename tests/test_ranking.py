"""The rank is priority + waiting_time, without the rewriting: the naive rule is the oracle."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from queuectl.errors import InvalidInput
from queuectl.ranking import ACCEPTED, OFF, Aging, parse_aging


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("1 enqueue", Aging(ticks=1, millis=0, point=1)),
        ("1 enqueues", Aging(ticks=1, millis=0, point=1)),
        ("1enqueue", Aging(ticks=1, millis=0, point=1)),
        ("25 enqueues", Aging(ticks=1, millis=0, point=25)),
        ("  3   Enqueues ", Aging(ticks=1, millis=0, point=3)),
        ("999999999 enqueues", Aging(ticks=1, millis=0, point=999_999_999)),
        ("60s", Aging(ticks=0, millis=1, point=60_000)),
        ("0.5s", Aging(ticks=0, millis=1, point=500)),
        ("10m", Aging(ticks=0, millis=1, point=600_000)),
        ("2h30m", Aging(ticks=0, millis=1, point=9_000_000)),
        ("1d", Aging(ticks=0, millis=1, point=86_400_000)),
        ("off", OFF),
        (" OFF ", OFF),
    ],
)
def test_every_form_of_aging_is_understood(written: str, rule: Aging) -> None:
    assert parse_aging(written) == rule


@pytest.mark.parametrize(
    "written",
    [
        *("", " ", "on", "enqueue", "0 enqueues", "-1 enqueues", "1.5 enqueues", "1000000000 enqueues"),
        *(
            "60",
            "1.5",
            "0",
            "0s",
            "0m",
            "0.0001s",
            "-60s",
            "60 s",
            "60x",
            "off 1",
            "٣ enqueues",
            "36501d",
            "1 enqueue s",
        ),
    ],
)
def test_any_other_aging_is_refused_with_what_it_takes(written: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_aging(written)
    assert str(refused.value) == f"aging cannot be {written!r}. It takes {ACCEPTED}"


@pytest.mark.parametrize("written", ["1 enqueue", "3 enqueues", "1s", "0.007s", "10m"])
def test_the_smallest_rank_has_the_highest_sum_of_priority_and_waiting_time_at_any_moment(written: str) -> None:
    aging = parse_aging(written)
    began = [(1, 1, 1_000), (2, 2, 1_001), (3, 2, 1_001), (7, 3, 2_500), (11, 9, 61_000), (12, 10, 601_000)]
    jobs = list(itertools.product((1, 2, 5, 9, 10), began))
    for tick, now in ((12, 601_000), (13, 700_000), (500, 90_000_000)):

        def naive(job: tuple[int, tuple[int, int, int]], tick: int = tick, now: int = now) -> Fraction:
            priority, (_, since_tick, since_at) = job
            waited = aging.ticks * (tick - since_tick) + aging.millis * (now - since_at)
            return priority + Fraction(waited, aging.point)

        for one, other in itertools.permutations(jobs, 2):
            ranks = [aging.rank(priority, began[1], began[2]) for priority, began in (one, other)]
            assert (ranks[0] < ranks[1]) == (naive(one) > naive(other))
            assert (ranks[0] == ranks[1]) == (naive(one) == naive(other))


def test_with_aging_off_only_the_priority_counts() -> None:
    assert OFF.rank(9, since_tick=10**9, since_at=10**12) < OFF.rank(8, since_tick=1, since_at=1)
    assert OFF.rank(5, since_tick=1, since_at=1) == OFF.rank(5, since_tick=2, since_at=2)
    assert OFF.waiting_time(10**9, 10**12) == 0


def test_nobody_is_passed_by_a_job_that_came_nine_ticks_later() -> None:
    aging = parse_aging("1 enqueue")
    least, most = aging.rank(1, 100, 0), 10
    assert aging.rank(most, 108, 0) < least, "8 ticks later the most urgent still passes"
    assert aging.rank(most, 109, 0) == least, "9 later it ties, and who came first goes first"
    assert aging.rank(most, 110, 0) > least


@pytest.mark.parametrize(
    ("written", "ticks", "millis", "points"),
    [
        ("1 enqueue", 0, 10**9, 0),
        ("1 enqueue", 7, 0, 7),
        ("3 enqueues", 2, 0, 0),
        ("3 enqueues", 3, 0, 1),
        ("3 enqueues", 11, 0, 3),
        ("60s", 10**6, 59_999, 0),
        ("60s", 0, 60_000, 1),
        ("60s", 0, 3_599_999, 59),
        ("1 enqueue", -3, 0, 0),
        ("60s", 0, -120_000, 0),
        ("off", 50, 10**9, 0),
    ],
)
def test_waiting_time_is_the_whole_points_earned_and_never_less_than_none(
    written: str, ticks: int, millis: int, points: int
) -> None:
    assert parse_aging(written).waiting_time(ticks, millis) == points


def test_the_largest_rank_fits_into_a_column_of_64_bits() -> None:
    longest = parse_aging("36500d")
    assert abs(longest.rank(10, since_tick=0, since_at=0)) < 2**63
    assert abs(longest.rank(1, since_tick=2**62, since_at=253_402_214_400_000)) < 2**63
