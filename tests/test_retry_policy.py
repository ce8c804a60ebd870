"""How a job is to be retried: which exit codes are not, how much chance the wait has, and what must not run twice."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from queuectl import platforms
from queuectl.config import Settings
from queuectl.errors import InvalidInput
from queuectl.fields import parse
from queuectl.job import NewJob, Outcome, State, after_loss, after_run, backoff_millis
from queuectl.recovery import recover
from queuectl.storage import Storage, Worker
from queuectl.storage import base as storage_base

from .act import act
from .conftest import Cli, SetClock, eventually
from .processes import counts, kill, lives, state, workers
from .processes import job as shown
from .test_job import NOW, job

HERE = os.path.abspath(os.sep)


def new(**fields: Any) -> NewJob:
    return parse({"command": "true", **fields}, Settings(), HERE, NOW)


# --- exit codes that are not retried ---


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2", "2"),
        ("2,64", "2,64"),
        (" 64 , 2,64 ", "64,2"),
        ("007", "7"),
        (3, "3"),
        ([2, "64"], "2,64"),
        (4294967295, "4294967295"),
        ("-9", "137" if os.name != "nt" else "4294967287"),
    ],
)
def test_codes_are_given_as_a_number_a_list_or_with_commas(given: object, kept: str) -> None:
    assert new(no_retry_on=given).no_retry_on == kept


@pytest.mark.parametrize(
    "given", ["", ",", "2,", "a", "2;3", "1.5", 1.5, True, [], [[2]], "4294967296", -(2**31) - 1, {"2": 3}, "²"]
)
def test_what_is_no_exit_code_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="It takes exit codes"):
        new(no_retry_on=given)


def test_a_code_that_is_not_retried_makes_the_job_dead_at_once_and_says_so() -> None:
    held = job(no_retry_on="2,64,4294967295")
    for code in (2, 64, 4294967295):
        verdict = after_run(held, Outcome(code, 1.0), NOW, 3600)
        assert (verdict.state, verdict.error_message) == (State.DEAD, f"exit code {code}, which is not retried")
    for code in (1, 6, 4, 22, 429496729, -2):
        assert after_run(held, Outcome(code, 1.0), NOW, 3600).state is State.FAILED
    assert after_run(held, Outcome(0, 1.0), NOW, 3600).state is State.COMPLETED
    assert after_run(held, Outcome(None, 1.0, reason="timed out after 2 s"), NOW, 3600).state is State.FAILED
    assert after_run(job(no_retry_on=None), Outcome(2, 1.0), NOW, 3600).state is State.FAILED


def test_exit_code_0_among_them_does_not_make_a_success_a_failure() -> None:
    assert after_run(job(no_retry_on="0"), Outcome(0, 1.0), NOW, 3600).state is State.COMPLETED


# --- jitter ---


@given(jitter=some.floats(0, 1), chance=some.floats(0, 1, exclude_max=True), attempts=some.integers(1, 12))
def test_jitter_only_adds_and_no_more_than_its_part(jitter: float, chance: float, attempts: int) -> None:
    held = job(jitter=jitter, attempts=attempts)
    plain = min(2**attempts, 3600) * 1000
    assert plain <= backoff_millis(held, 3600, chance) <= plain * (1 + jitter) + 1
    assert backoff_millis(held, 3600, 0) == plain


@pytest.mark.parametrize("given", [-0.1, 1.01, "0.5", True, float("nan"), float("inf")])
def test_jitter_is_a_part_of_the_wait(given: object) -> None:
    with pytest.raises(InvalidInput, match="jitter cannot be"):
        new(jitter=given)


def test_the_chance_is_drawn_for_each_failure_and_only_where_there_is_jitter(
    storage: Storage, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    drawn = iter([0.0, 0.5, 0.999])
    monkeypatch.setattr(random, "random", lambda: next(drawn))
    assert storage_base.chance_for(job(jitter=0.0)) == 0
    storage.add([new(jitter=0.5, backoff_base=10, max_retries=5)])
    waits = []
    for _ in range(3):
        held = storage.claim("w")
        assert held
        storage.finish(held, Outcome(1, 0.0))
        due = storage.glance("1").run_at
        assert due
        waits.append((due - clock.now()) / 1000)
        clock.pass_seconds(waits[-1])
    assert waits == pytest.approx([10, 125, 1000 * (1 + 0.5 * 0.999)])


# --- what must not run twice ---


def test_whatever_ended_its_run_early_makes_it_dead_with_that_reason() -> None:
    held = job(no_rerun=1)
    stopped = Outcome(None, 1.0, reason="its worker was stopped", state=State.PENDING)
    assert after_run(held, stopped, NOW, 3600)[:3] == (
        State.DEAD,
        "dead",
        "its worker was stopped, and it must not run twice",
    )
    assert after_run(held, stopped._replace(has_started=False), NOW, 3600).state is State.PENDING
    for rebooted in (False, True):
        assert after_loss(held, rebooted)[:3] == (State.DEAD, "lost", "worker lost, and it must not run twice")
    assert after_loss(job(no_rerun=0), True).state is State.PENDING


def test_a_failure_is_not_retried_either() -> None:
    assert after_run(job(no_rerun=1), Outcome(3, 1.0), NOW, 3600)[:3] == (State.DEAD, "dead", "exit code 3")
    assert new(no_rerun=True).max_retries == 0 == new(no_rerun=True, max_retries=0).max_retries
    assert new(no_rerun=False, max_retries=5).max_retries == 5
    with pytest.raises(InvalidInput, match="Both no_rerun and max_retries"):
        new(no_rerun=True, max_retries=1)


def test_after_a_restart_of_the_machine_it_is_dead_and_another_is_pending(storage: Storage, tmp_path: Path) -> None:
    from queuectl.home import Home

    storage.add([new(id="once", no_rerun=True), new(id="again")])
    here = (platforms.pid_space(), socket.gethostname())
    now = storage.clock.now()
    for name in ("w1", "w2"):
        storage.add_worker(Worker(name, 1, "1", "another boot", *here, now, now - 10**9, 0, None))
        assert storage.claim(name)
    if storage.is_shared:
        pytest.skip("who lives on a server's machines is told by their heartbeats")
    assert len(recover(storage, Home(str(tmp_path)))) == 2
    assert storage.glance("once").state is State.DEAD
    assert storage.glance("once").error_message == "worker lost, and it must not run twice"
    assert storage.glance("again").state is State.PENDING


# --- with real processes ---


def test_the_command_line_takes_all_three_and_show_tells_them(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "--no-retry-on", "2,4294967295", "--jitter", "0.25", "--no-rerun", "exit 2")
    cli.ok("enqueue", '{"id": "b", "command": "exit 3", "no_retry_on": [3], "jitter": 1, "no_rerun": true}')
    first, second = shown(cli, "a"), shown(cli, "b")
    assert (first["no_retry_on"], first["jitter"], first["no_rerun"]) == ([2, 4294967295], 0.25, True)
    assert (second["no_retry_on"], second["jitter"], second["no_rerun"]) == ([3], 1.0, True)
    for option, value in (("--no-retry-on", "x"), ("--jitter", "2")):
        done = cli("enqueue", option, value, "true")
        assert done.returncode == 2 and "cannot be" in done.stderr
    cli.ok("edit", "a", "--no-retry-on", "5,6")
    assert shown(cli, "a")["no_retry_on"] == [5, 6]
    text = cli.ok("show", "a")
    assert "0 of 1, never run twice" in text and "no retry on  5, 6" in text and "jitter       0.25" in text


def test_what_must_not_run_twice_is_not_given_retries_afterwards(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "once", "--no-rerun", "true")
    done = cli("edit", "once", "--max-retries", "5")
    assert done.returncode == 2 and "Both no_rerun and max_retries" in done.stderr
    cli.ok("enqueue", "--id", "often", "--max-retries", "5", "true")
    cli.ok("edit", "often", "--no-rerun")
    assert (shown(cli, "often")["no_rerun"], shown(cli, "often")["max_retries"]) == (True, 0)


def test_a_code_that_is_not_retried_is_not(cli: Cli) -> None:
    largest = 4294967295 if os.name == "nt" else 255
    end = ["--", sys.executable, "-c", "import os; os._exit(-1)"]
    cli.ok("enqueue", "--id", "a", "--no-retry-on", f"64,{largest}", *end)
    cli.ok("enqueue", "--id", "b", "--no-retry-on", "64", "--max-retries", "1", "--backoff-base", "0", "exit 65")
    cli.ok("worker", "start")
    cli("wait", "a", "b")
    assert [len(shown(cli, job_id)["runs"]) for job_id in ("a", "b")] == [1, 2]
    assert shown(cli, "a")["error_message"] == f"exit code {largest}, which is not retried"


def test_a_worker_that_is_killed_makes_it_dead_and_its_command_runs_once(cli: Cli, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    cli.ok("enqueue", "--id", "once", "--no-rerun", act(f"add {ran} x", f"wait {tmp_path / 'never'}"))
    cli.ok("worker", "start")
    eventually(lambda: ran.exists() and ran.read_text())
    [worker] = workers(cli)
    kill(worker.pid)
    eventually(lambda: not lives(worker.pid))
    cli.ok("worker", "start")
    eventually(lambda: state(cli, "once") == "dead")
    assert shown(cli, "once")["error_message"] == "worker lost, and it must not run twice"
    cli.ok("run", "exit 0")  # whoever lives has looked at everything by now
    assert ran.read_text() == "x\n" and counts(cli)["dead"] == 1
    assert "worker lost, and it must not run twice" in cli.ok("dlq", "list")


def test_a_stop_by_force_makes_it_dead_too_and_another_goes_back_in_line(cli: Cli, tmp_path: Path) -> None:
    for job_id, more in (("once", ["--no-rerun"]), ("again", [])):
        cli.ok("enqueue", "--id", job_id, *more, act(f"touch {tmp_path / job_id}", f"wait {tmp_path / 'never'}"))
    cli.ok("worker", "start", "--count", "2")
    eventually(lambda: (tmp_path / "once").exists() and (tmp_path / "again").exists())
    cli.ok("worker", "stop", "--force")
    assert state(cli, "again") == "pending" and state(cli, "once") == "dead"
    assert shown(cli, "once")["error_message"] == "its worker was stopped, and it must not run twice"


def test_what_has_not_begun_to_run_goes_back_in_line_when_its_worker_is_stopped(cli: Cli, tmp_path: Path) -> None:
    cli.ok("enqueue", "--id", "first", act(f"touch {tmp_path / 'up'}", f"wait {tmp_path / 'go'}"))
    cli.ok("enqueue", "--id", "once", "--no-rerun", "exit 0")
    cli.ok("worker", "start")
    eventually((tmp_path / "up").exists)
    cli.ok("worker", "stop", "--force")
    assert state(cli, "once") == "pending"
