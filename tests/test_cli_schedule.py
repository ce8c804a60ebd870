"""`schedule`: what people type, what they are shown, and workers that do it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .act import act
from .conftest import Cli, eventually
from .processes import counts, lives, open_queue, workers


def shown(cli: Cli, *args: str) -> Any:
    return json.loads(cli.ok(*args, "--json"))


def log(cli: Cli) -> str:
    return "\n".join(path.read_text() for path in (cli.home / "logs").glob("worker-*.log"))


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, cli: Cli) -> Cli:
    """queuectl on either engine."""
    if request.param == "postgres":
        cli.env["QUEUECTL_DB"] = request.getfixturevalue("postgres")
    return cli


# --- typing and looking ---


def test_add_says_when_it_comes_and_show_tells_all_about_it(cli: Cli) -> None:
    said = cli.ok(
        "schedule", "add", "backup", "--cron", "0  2 * * *", "--tz", "Europe/Berlin", "--label", "n", "--", "b.sh"
    )
    found = shown(cli, "schedule", "show", "backup")
    assert (found["cron"], found["tz"], found["every_seconds"]) == ("0 2 * * *", "Europe/Berlin", None)
    assert (found["command"], found["cwd"]) == ("b.sh", str(cli.cwd))
    assert (found["missed"], found["overlap"], found["paused"]) == ("run-once", False, False)
    assert len(found["next_times"]) == 5 and found["next_times"][0] == found["next_at"]
    assert found["next_times"] == sorted(set(found["next_times"]))
    assert said == f"Schedule backup comes next at {found['next_at'][:19].replace('T', ' ')}.\n"
    text = cli.ok("schedule", "show", "backup")
    assert "0 2 * * * (Europe/Berlin)" in text
    assert all(at[:19].replace("T", " ") in text for at in found["next_times"])


def test_the_users_own_time_zone_is_taken_where_none_is_named(cli: Cli) -> None:
    cli.ok("schedule", "add", "here", "--cron", "0 2 * * *", "true", TZ="Asia/Tokyo")
    assert shown(cli, "schedule", "show", "here")["tz"] == "Asia/Tokyo"


def test_list_shows_them_all_by_name(cli: Cli) -> None:
    assert "There are no schedules" in cli.ok("schedule", "list") and shown(cli, "schedule", "list") == []
    cli.ok("schedule", "add", "poll", "--every", "90m", "--", "curl", "a b")
    cli.ok("schedule", "add", "backup", "--cron", "0 0 * * *", "--tz", "UTC", "b.sh")
    cli.ok("schedule", "pause", "poll")
    lines = cli.ok("schedule", "list").splitlines()
    assert [line.split()[0] for line in lines] == ["schedule", "--------", "backup", "poll"]
    assert "every 1h30m" in lines[3] and "paused" in lines[3]
    assert [one["name"] for one in shown(cli, "schedule", "list")] == ["backup", "poll"]
    assert shown(cli, "schedule", "list")[1]["next_at"] is None
    assert shown(cli, "schedule", "show", "poll")["next_times"] == []


def test_list_and_status_end_with_what_comes_next(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    assert "schedule" not in cli.ok("list") + cli.ok("status")
    for number in range(7):
        cli.ok("schedule", "add", f"s{number}", "--every", f"{10 - number}h", f"echo {number}")
    cli.ok("schedule", "pause", "s6")
    for command in (["list"], ["list", "--state", "pending"], ["status"]):
        last = cli.ok(*command).split("\n\n")[-1].splitlines()
        assert last[0].split() == ["next", "schedule", "when", "command"]
        assert [re.split(r"  +", line)[1] for line in last[2:]] == ["s5", "s4", "s3", "s2", "s1"]
    assert "schedule" not in cli.ok("list", "--state", "dead"), "who asks for these jobs asks for nothing else"
    assert [one["name"] for one in shown(cli, "status")["next"]] == ["s5", "s4", "s3", "s2", "s1"]
    assert [one["command"] for one in shown(cli, "list")] == ["true"], "an array of jobs, and nothing else"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["x", "true"], "Say when"),
        (["x", "--every", "1h", "--cron", "0 2 * * *", "true"], "Say when"),
        (["x", "--every", "0.1s", "true"], "--every cannot be '0.1s'"),
        (["x", "--cron", "0 2 31 2 *", "true"], "'0 2 31 2 *'"),
        (["x", "--cron", "0 2 * * *", "--tz", "Europe/Berlim", "true"], "Did you mean 'Europe/Berlin'"),
        (["x", "--every", "1h"], "No command"),
        (["a b", "--every", "1h", "true"], "name cannot be 'a b'"),
        (["x", "--every", "1h", "--id", "mine", "true"], "No such option"),
        (["x", "--every", "1h", "--delay", "1h", "true"], "No such option"),
        (["x", "--every", "1h", "--run-at", "2030-01-01", "true"], "No such option"),
        (["x", "--every", "1h", "--priority", "11", "true"], "priority cannot be 11"),
        (["x", "--every", "1h", "--queue", "nope", "true"], "No queue 'nope'"),
        (["x", "--every", "1h", "--cwd", "nowhere", "true"], "No directory"),
    ],
)
def test_what_cannot_recur_is_refused_in_one_line_and_nothing_is_stored(cli: Cli, args: list[str], said: str) -> None:
    done = cli("schedule", "add", *args)
    assert done.returncode in (1, 2) and said in done.stderr
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1
    assert shown(cli, "schedule", "list") == []


def test_a_schedule_that_is_not_there_is_told_the_nearest(cli: Cli) -> None:
    cli.ok("schedule", "add", "backup", "--every", "1d", "true")
    for command in ("show", "pause", "resume", "run", "remove"):
        done = cli("schedule", command, "bakup")
        assert done.returncode == 1 and "Did you mean 'backup'?" in done.stderr
    done = cli("schedule", "add", "backup", "--every", "1d", "true")
    assert done.returncode == 1 and "queuectl schedule remove backup" in done.stderr


def test_run_prints_the_jobs_id_and_remove_leaves_it(cli: Cli) -> None:
    cli.ok("schedule", "add", "backup", "--every", "1d", "echo hello")
    job_id = cli.ok("schedule", "run", "backup").strip()
    assert [job["id"] for job in shown(cli, "list")] == [job_id]
    done = cli("schedule", "run", "backup")
    assert done.returncode == 1 and f"the job of the last one, {job_id}, has not ended" in done.stderr
    assert shown(cli, "schedule", "show", "backup")["last_job"] == job_id
    cli.ok("schedule", "remove", "backup")
    assert [job["id"] for job in shown(cli, "list")] == [job_id]


def test_its_jobs_run_with_the_directory_and_environment_of_who_made_it(cli: Cli, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    cli.ok(
        "schedule",
        "add",
        "tell",
        "--every",
        "1d",
        "--overlap",
        act("where", "env WORD"),
        cwd=there,
        WORD="of the maker",
    )
    cli.ok("worker", "start", WORD="of the worker")
    job_id = cli.ok("schedule", "run", "tell", WORD="of the runner").strip()
    cli.ok("wait", job_id)
    assert shown(cli, "show", job_id)["output"].split("\n")[:2] == [str(there), "of the maker"]


# --- workers ---


def test_with_two_workers_each_occurrence_comes_once(either: Cli, tmp_path: Path) -> None:
    cli = either
    cli.ok("worker", "start", "--count", "2")
    cli.ok("schedule", "add", "tick", "--every", "1s", "--overlap", act(f"add {tmp_path / 'ticks'} x"))
    eventually(lambda: counts(cli)["completed"] >= 4, seconds=60)
    cli.ok("worker", "stop")
    storage = open_queue(cli)
    jobs, schedule = storage.jobs(None, 1000), storage.schedule("tick")
    storage.close()
    # Each came in a second of its own, counted from when the schedule was made.
    seconds = [(job.created_at - schedule.created_at) // 1000 for job in jobs]
    assert len(set(seconds)) == len(seconds) and min(seconds) >= 1
    assert len(re.findall("schedule tick: job .* enqueued", log(cli))) == len(jobs)
    assert (tmp_path / "ticks").read_text().count("x") == counts(cli)["completed"] == len(jobs) - counts(cli)["pending"]


def test_a_worker_that_sleeps_wakes_up_for_what_is_added_and_for_what_is_resumed(either: Cli) -> None:
    cli = either
    cli.ok("worker", "start")
    eventually(lambda: workers(cli))
    cli.ok("schedule", "add", "tick", "--every", "1s", "exit 0")
    eventually(lambda: counts(cli)["completed"] >= 1)
    cli.ok("schedule", "pause", "tick")
    eventually(lambda: not counts(cli)["pending"] + counts(cli)["processing"])
    before = counts(cli)["completed"]
    cli.ok("schedule", "resume", "tick")
    eventually(lambda: counts(cli)["completed"] > before)


def test_what_was_missed_while_no_worker_was_up_comes_when_one_is(cli: Cli) -> None:
    cli.ok("schedule", "add", "made-up", "--every", "1h", "exit 0")
    cli.ok("schedule", "add", "left-out", "--every", "1h", "--missed", "skip", "exit 0")
    storage = open_queue(cli)
    storage.statement("UPDATE schedules SET next_at = next_at - :hours", {"hours": 5 * 3_600_000})
    storage.close()
    cli.ok("worker", "start")
    eventually(lambda: counts(cli)["completed"])
    eventually(lambda: shown(cli, "schedule", "show", "left-out")["note"])
    assert counts(cli)["event_enqueued"] == 1
    assert "no worker was up when it came" in cli.ok("schedule", "show", "left-out")
    assert shown(cli, "schedule", "show", "made-up")["last_job"] == "1"


def test_a_broken_schedule_kills_no_worker_makes_it_spin_nor_stops_the_others(cli: Cli) -> None:
    cli.ok("schedule", "add", "broken", "--every", "1s", "exit 0")
    cli.ok("schedule", "add", "lost", "--cron", "* * * * *", "--tz", "UTC", "exit 0")
    cli.ok("schedule", "add", "whole", "--every", "1s", "exit 0")
    storage = open_queue(cli)
    storage.statement("UPDATE schedules SET fields = :fields WHERE name = 'broken'", {"fields": '{"command": ""}'})
    storage.statement("UPDATE schedules SET tz = :tz, next_at = 0 WHERE name = 'lost'", {"tz": "Europe/Atlantis"})
    storage.close()
    cli.ok("worker", "start")
    [worker] = workers(cli)
    eventually(lambda: counts(cli)["completed"] >= 2)
    assert lives(worker.pid)
    assert "The command is blank" in shown(cli, "schedule", "show", "broken")["note"]
    assert "The command is blank" in cli.ok("schedule", "list")
    found = shown(cli, "schedule", "show", "lost")
    assert found["paused"] and "Europe/Atlantis" in found["note"]
    assert log(cli).count("schedule broken: passed over") <= counts(cli)["event_enqueued"] + 2
    assert log(cli).count("schedule lost: passed over") == 1
