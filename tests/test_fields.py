"""What a user hands in: the checks on each field, and the job that they make."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from queuectl.config import Settings
from queuectl.errors import InvalidInput
from queuectl.fields import CHECKS, LONGEST_COMMAND, LONGEST_ID, needs, parse
from queuectl.job import NewJob

NOW = 1_790_000_000_000
HERE = os.path.abspath(os.sep)


def parsed(settings: Settings | None = None, **fields: Any) -> NewJob:
    return parse(fields, settings or Settings(), HERE, NOW)


def test_a_job_that_names_only_its_command_takes_the_settings() -> None:
    settings = Settings(priority=7, max_retries=9, timeout=60, backoff_base=1.5)
    assert parsed(settings, command="echo  hi ") == NewJob(
        None,
        "echo  hi ",
        None,
        priority=7,
        max_retries=9,
        timeout=60,
        backoff_base=1.5,
        run_at=None,
        cwd=HERE,
        env=None,
    )


def test_what_a_job_names_goes_over_the_settings_also_where_it_is_zero(tmp_path: Path) -> None:
    settings = Settings(priority=7, max_retries=9, timeout=60, backoff_base=1.5)
    found = parsed(
        settings,
        id="job1",
        command="true",
        priority=1,
        max_retries=0,
        timeout=0,
        backoff_base=0,
        delay="1.5",
        cwd=str(tmp_path),
        env={"A": "1"},
    )
    assert found == NewJob("job1", "true", None, 1, 0, 0, 0.0, NOW + 1500, str(tmp_path), '{"A": "1"}')


def test_null_is_not_given() -> None:
    nulls: dict[str, Any] = dict.fromkeys(CHECKS)
    assert parsed(**{**nulls, "command": "true"}) == parsed(command="true")


def test_a_list_is_kept_as_it_is_and_shown_as_one_would_type_it() -> None:
    argv = ["ffmpeg", "-i", "my film.mkv", "", "it's"]
    found = parsed(command=argv)
    assert json.loads(found.argv or "") == argv
    if os.name == "posix":
        assert found.command == """ffmpeg -i 'my film.mkv' '' 'it'"'"'s'"""


def test_a_directory_is_found_from_the_current_one_and_made_absolute(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = parse({"command": "true", "cwd": "a/../a/b"}, Settings(), str(tmp_path), NOW)
    assert found.cwd == str(tmp_path / "a" / "b")


def test_a_time_to_run_is_given_as_a_time_or_as_a_delay_and_not_as_both() -> None:
    assert parsed(command="true", run_at="2027-01-31T02:00:00+01:00").run_at == 1_801_357_200_000
    assert parsed(command="true", delay="2h30m").run_at == NOW + 9_000_000
    assert parsed(command="true", delay=90).run_at == NOW + 90_000
    assert parsed(command="true", delay=0.5).run_at == NOW + 500
    assert parsed(command="true", delay=0).run_at == NOW
    with pytest.raises(InvalidInput, match="Both run_at and delay"):
        parsed(command="true", run_at="2027-01-31T02:00:00", delay="90")


GOOD = [
    *(("id", text) for text in ("a", "A-b_c.d", "1", "_x", "x" * LONGEST_ID, "CON", "a..b")),
    *(("command", text) for text in ("true", "a\nb", "  x ", "ünï ☃", "x" * LONGEST_COMMAND, ["x"], ["x", "", "\n"])),
    *(("priority", number) for number in (1, 10)),
    *(("max_retries", number) for number in (0, 1_000_000)),
    *(("timeout", number) for number in (0, 3_153_600_000)),
    *(("backoff_base", number) for number in (0, 0.5, 2, 1000)),
    *(("env", found) for found in ({}, {"A": ""}, {"A": "x=y"}, {"ü": "☃"})),
]


@pytest.mark.parametrize(("name", "value"), GOOD, ids=lambda value: ascii(value)[:20])
def test_what_is_within_the_bounds_is_taken(name: str, value: object) -> None:
    assert CHECKS[name](value) == value


BAD = [
    *(("id", value) for value in ("", " ", "x" * (LONGEST_ID + 1), ".", "..", "../../x", "a/b", "a\\b", "/etc/passwd")),
    *(("id", value) for value in (".hidden", "-x", "a b", "a\n", "a\0", "ä", "a:b", "\ud800", 7, True, ["a"])),
    *(("command", value) for value in ("", " \t\n", "x" * (LONGEST_COMMAND + 1), "a\0b", "\ud800", 7, True, {})),
    *(("command", value) for value in ([], [""], [" ", "x"], ["x", 7], ["x", None], ["x", "a\0"], ["x", "\udcff"])),
    *(("priority", value) for value in (0, 11, 99, -1, 1.5, 5.0, "8", "high", True, False, [5], {}, float("nan"))),
    *(("max_retries", value) for value in (-1, 1.5, 3.0, "3", True, [], 1_000_001, 10**40)),
    *(("timeout", value) for value in (-1, 0.5, 60.0, "60", "1m", True, [], 3_153_600_001)),
    *(("backoff_base", value) for value in (-1, -0.1, 1000.1, "2", True, [], float("nan"), float("inf"), 10**400)),
    *(("run_at", value) for value in ("", "tomorrow", "2027-13-01", 1_800_000_000, True, [], {}, "\ud800")),
    *(("delay", value) for value in ("", "soon", "-5", -5, True, [], {}, float("inf"), float("nan"), 10**400)),
    *(("cwd", value) for value in ("", " ", 7, True, [], "a\0", "\ud800")),
    *(("env", value) for value in ("A=1", ["A=1"], 7, True, {"A": 1}, {"A": None}, {"": "x"}, {"A=B": "x"})),
    *(("env", value) for value in ({"A": "\0"}, {"A\0": "x"}, {"A": "\ud800"}, {"\ud800": "x"})),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=lambda value: ascii(value)[:20])
def test_what_is_out_of_bounds_is_refused_in_one_short_line(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(**{"command": "true", name: value})
    message = str(refused.value)
    assert "\n" not in message and "\0" not in message
    assert len(message) < 300
    assert message.isprintable()


def test_a_refused_number_is_named_with_what_would_be_accepted() -> None:
    with pytest.raises(InvalidInput, match=r"^priority cannot be 99\. It takes a whole number from 1 to 10$"):
        parsed(command="true", priority=99)
    with pytest.raises(InvalidInput, match=r"^max_retries cannot be -1\. It takes a whole number from 0 to 1000000$"):
        parsed(command="true", max_retries=-1)
    with pytest.raises(
        InvalidInput, match=r"^timeout cannot be 'abc'\. It takes whole seconds up to 3153600000, 0 for no limit$"
    ):
        parsed(command="true", timeout="abc")


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("priorty", "priority"),
        ("Priority", "priority"),
        ("max-retries", "max_retries"),
        ("maxRetries", "max_retries"),
        ("retries", "max_retries"),
        ("comand", "command"),
        ("runat", "run_at"),
        ("timout", "timeout"),
        ("environment", "env"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(key: str, nearest: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(**{"command": "true", key: 5})
    assert repr(key) in str(refused.value)
    assert nearest in str(refused.value)


def test_an_unknown_key_is_refused_also_where_its_value_is_null() -> None:
    with pytest.raises(InvalidInput, match=r"Unknown key 'priorty'\. Did you mean 'priority'\?"):
        parsed(command="true", priorty=None)


def test_a_key_like_no_other_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(command="true", zzz=1)
    assert all(name in str(refused.value) for name in CHECKS)


def test_without_a_command_there_is_no_job() -> None:
    for fields in ({}, {"command": None}, {"id": "x"}):
        with pytest.raises(InvalidInput, match=r"^No command\."):
            parsed(**fields)


def test_to_be_completed_and_to_be_dead_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^Job a is to be completed and to be dead"):
        needs({"depends_on": ["a"], "after_failed": ["a"]})
