"""What a job is: the checks on what a user hands in, and what a run makes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from queuectl.config import Settings
from queuectl.errors import InvalidInput
from queuectl.job import (
    CHECKS,
    LONGEST_COMMAND,
    LONGEST_ID,
    Job,
    NewJob,
    Outcome,
    State,
    Verdict,
    after_loss,
    after_run,
    backoff_millis,
    cancelled,
    parse,
)

NOW = 1_790_000_000_000
HERE = os.path.abspath(os.sep)


def job(**fields: Any) -> Job:
    """A job that is in its first run."""
    common: dict[str, Any] = dict.fromkeys(Job._fields[: Job._fields.index("output")])
    common.update(seq=1, id="1", command="true", state=State.PROCESSING, priority=5, max_retries=3, timeout=0)
    common.update(backoff_base=2.0, attempts=1, lost=0, lease=1, cwd=HERE, created_at=0, updated_at=0)
    common.update(jitter=0.0, no_rerun=0, queue="default")
    return Job(**{**common, **fields})


def parsed(settings: Settings | None = None, **fields: Any) -> NewJob:
    return parse(fields, settings or Settings(), HERE, NOW)


# --- after a run ---


def test_exit_code_0_completes_the_job() -> None:
    assert after_run(job(), Outcome(0, 1.0), NOW, 3600) == Verdict(State.COMPLETED, "completed")


def test_exit_code_0_completes_the_job_also_in_its_last_try_and_forgets_lost_workers() -> None:
    verdict = after_run(job(attempts=4, lost=2), Outcome(0, 1.0), NOW, 3600)
    assert verdict == Verdict(State.COMPLETED, "completed", lost=0)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 2), (2, 4), (3, 8)])
def test_a_failed_job_is_tried_again_after_its_backoff(attempts: int, seconds: int) -> None:
    verdict = after_run(job(attempts=attempts, lost=2), Outcome(3, 1.0), NOW, 3600)
    assert verdict == Verdict(State.FAILED, "failed", "exit code 3", NOW + seconds * 1000, lost=0)


def test_max_retries_are_tries_after_the_first_then_the_job_is_dead() -> None:
    states = [after_run(job(attempts=n), Outcome(1, 1.0), NOW, 3600).state for n in range(1, 6)]
    assert states == [State.FAILED] * 3 + [State.DEAD] * 2
    assert after_run(job(attempts=4), Outcome(1, 1.0), NOW, 3600) == Verdict(State.DEAD, "dead", "exit code 1")
    assert after_run(job(attempts=1, max_retries=0), Outcome(1, 1.0), NOW, 3600).state is State.DEAD


def test_a_signal_a_time_limit_and_a_command_that_cannot_start_are_failures_with_their_reason() -> None:
    assert after_run(job(), Outcome(-9, 1.0), NOW, 3600).error_message == "exit code -9"
    for reason in ("timed out after 5 s", "cannot start: 'x': No such file or directory"):
        verdict = after_run(job(), Outcome(None, 1.0, reason=reason), NOW, 3600)
        assert verdict == Verdict(State.FAILED, "failed", reason, NOW + 2000)
        assert after_run(job(attempts=4), Outcome(None, 1.0, reason=reason), NOW, 3600).state is State.DEAD


def test_a_job_whose_worker_is_stopped_is_pending_again_and_what_it_lost_before_still_counts() -> None:
    outcome = Outcome(None, 1.0, reason="its worker was stopped", state=State.PENDING)
    verdict = after_run(job(attempts=4, lost=2), outcome, NOW, 3600)
    assert verdict == Verdict(State.PENDING, "released", "its worker was stopped", run_at=None, lost=2)


def test_a_cancelled_run_is_cancelled_whatever_its_exit_code() -> None:
    for code in (None, 0, 1):
        outcome = Outcome(code, 1.0, reason="enough", state=State.CANCELLED)
        assert after_run(job(), outcome, NOW, 3600) == cancelled("enough")
    assert cancelled("enough") == Verdict(State.CANCELLED, "cancelled", "enough")


def test_a_lost_worker_puts_the_job_back_and_the_third_in_a_row_makes_it_dead() -> None:
    assert after_loss(job(lost=0), rebooted=False) == Verdict(State.PENDING, "lost", "worker lost", lost=1)
    assert after_loss(job(lost=1), rebooted=False) == Verdict(State.PENDING, "lost", "worker lost", lost=2)
    dead = after_loss(job(lost=2), rebooted=False)
    assert dead == Verdict(State.DEAD, "lost", "worker lost 3 times in a row", lost=3)


def test_a_lost_worker_costs_no_try_so_the_last_try_is_not_the_end() -> None:
    assert after_loss(job(attempts=4), rebooted=False).state is State.PENDING


def test_a_reboot_is_not_counted() -> None:
    for lost in (0, 2):
        verdict = after_loss(job(lost=lost), rebooted=True)
        assert verdict == Verdict(State.PENDING, "lost", "worker lost: the machine restarted", lost=lost)


@pytest.mark.parametrize(
    ("base", "attempts", "most", "millis"),
    [
        (2, 1, 3600, 2_000),
        (2, 11, 3600, 2_048_000),
        (2, 12, 3600, 3_600_000),
        (2, 5000, 3600, 3_600_000),
        (1000, 1_000_001, 3600, 3_600_000),
        (1000, 103, 100 * 365 * 86400, 3_153_600_000_000),
        (1.5, 2, 3600, 2_250),
        (0.5, 2, 3600, 250),
        (0.5, 100_000, 3600, 0),
        (1, 7, 3600, 1_000),
        (0, 1, 3600, 0),
        (10, 3, 0, 0),
        (10, 1, 0.25, 250),
    ],
)
def test_the_backoff_is_base_to_the_power_of_failures_up_to_the_most(
    base: float, attempts: int, most: float, millis: int
) -> None:
    assert backoff_millis(job(backoff_base=base, attempts=attempts), most) == millis


@pytest.mark.parametrize("state", State)
def test_only_completed_dead_and_cancelled_jobs_have_ended(state: State) -> None:
    assert state.has_ended == (state.value in ("completed", "dead", "cancelled"))
    assert str(state) == state.value


def test_the_effective_priority_is_the_sum() -> None:
    assert job(priority=5)._replace(waiting_time=7).effective_priority == 12


# --- what a user hands in ---


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
    with pytest.raises(InvalidInput, match=r"^max_retries cannot be -1\. It takes a whole number from 0$"):
        parsed(command="true", max_retries=-1)
    with pytest.raises(InvalidInput, match=r"^timeout cannot be 'abc'\. It takes whole seconds, 0 for no limit$"):
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
