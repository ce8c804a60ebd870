"""A worker's log: each event a line, for people or for programs, as the setting says."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from queuectl import event_log
from queuectl.event_log import EVENTS, EventLog

from .act import act
from .conftest import ROOT, Cli, eventually
from .processes import counts, kill, state, workers
from .test_job import job

PAGE = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    made = EventLog(str(tmp_path / "worker.log"), "w-1")
    yield made
    os.close(made._file)


def lines(log: EventLog) -> list[str]:
    return Path(log.path).read_text().splitlines()


def written(cli: Cli) -> list[dict[str, Any]]:
    """The events of all workers that were written as JSON."""
    texts = [path.read_text() for path in (cli.home / "logs").glob("worker-*.log")]
    return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]


def newest_line(cli: Cli) -> str:
    [path] = (cli.home / "logs").glob("worker-*.log")
    return path.read_text().splitlines()[-1]


def documented() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", PAGE.replace("| |", "|  |"), re.MULTILINE)
    return {event: set(re.findall(r"`(\w+)`", keys)) for event, keys in rows}


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no directory in which a file is open")
def test_a_log_whose_directory_is_gone_keeps_nobody_from_working(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = EventLog(str(tmp_path / "logs" / "worker.log"))
    shutil.rmtree(tmp_path / "logs")
    log._rotate_at = 0
    for _ in range(3):
        log.say("worker_up", pid=7)
    assert not (tmp_path / "logs").exists()


def test_people_read_the_time_the_level_and_what_happened(log: EventLog) -> None:
    log.say("worker_up", pid=7)
    log.say("job_ended", job(id="film"), duration_seconds=12.0126, reason="50% done\nexit code 3")
    first, second, rest = lines(log)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} INFO up, pid 7", first)
    assert second.endswith(" INFO job film: try 1 ended after 12.013 s: 50% done") and rest == "exit code 3"


def test_programs_read_an_object_a_line(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "time", lambda: 1_790_000_000.0426)
    log.write_as("json")
    log.say("job_refused", job(id="film", queue="gpu", attempts=2, lease=5), error='a "quote"\nand \udcff')
    [line] = lines(log)
    found = json.loads(line)
    at = datetime.fromisoformat(found.pop("time"))
    assert at.timestamp() == pytest.approx(1_790_000_000.042, abs=0.0001) and at.utcoffset() is not None
    assert found == {
        "level": "warning",
        "event": "job_refused",
        "worker": "w-1",
        "job": "film",
        "queue": "gpu",
        "attempt": 2,
        "lease": 5,
        "error": 'a "quote"\nand \udcff',
    }


def test_the_stamp_follows_the_clock_also_backwards(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = []
    for now in (1_790_000_000.9, 1_790_000_001.0, 1_790_000_001.9, 1_700_000_000.0):
        monkeypatch.setattr(event_log, "time", lambda now=now: now)
        log.say("database_back")
        stamps.append(round(datetime.strptime(lines(log)[-1].split()[0], "%Y-%m-%dT%H:%M:%S%z").timestamp()))
    assert stamps == [1_790_000_000, 1_790_000_001, 1_790_000_001, 1_700_000_000]


def test_every_event_is_documented_with_the_keys_that_its_text_needs() -> None:
    assert documented().keys() == EVENTS.keys()
    for event, (_, text) in EVENTS.items():
        assert set(re.findall(r"%\((\w+)\)", text)) <= documented()[event], event


def test_a_log_that_could_not_be_opened_again_is_tried_later(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = [1_790_000_000.0]
    monkeypatch.setattr(event_log, "time", lambda: now[0])

    def fail(*args: object) -> int:
        raise OSError("too many open files")

    with monkeypatch.context() as short:
        short.setattr(os, "open", fail)
        log._rotate()
        log.say("worker_up", pid=1)
    log.say("worker_up", pid=2)
    now[0] += event_log.REOPEN_SECONDS
    log.say("worker_up", pid=3)
    assert [line.rpartition(" ")[2] for line in lines(log)] == ["3"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_long_log_is_rotated(log: EventLog, monkeypatch: pytest.MonkeyPatch, log_format: str) -> None:
    monkeypatch.setattr(event_log, "MOST_BYTES", 1000)
    log._rotate()
    log.write_as(log_format)
    for _ in range(60):
        log.say("failed", error="x" * 100)
    kept = sorted(path.name for path in Path(log.path).parent.iterdir())
    assert kept == ["worker.log", "worker.log.1", "worker.log.2", "worker.log.3"]
    assert os.path.getsize(f"{log.path}.1") < 1300


# --- workers ---


def test_the_setting_takes_effect_without_restarting_a_worker(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("run", "exit 0")
    assert written(cli) == []
    cli.ok("config", "set", "log-format", "JSON")
    eventually(lambda: cli.ok("run", "exit 0") == "" and written(cli))
    cli.ok("config", "unset", "log_format")
    eventually(lambda: cli.ok("run", "exit 0") == "" and not newest_line(cli).startswith("{"))
    done = cli("config", "set", "log_format", "xml")
    assert done.returncode == 2 and "It takes text or json" in done.stderr


def test_each_event_of_a_worker_has_its_keys(cli: Cli, tmp_path: Path) -> None:
    cli.ok("config", "set", "log_format", "json")
    cli.ok("enqueue", "--id", "good", "exit 0")
    cli.ok("enqueue", "--id", "bad", "--max-retries", "1", "--backoff-base", "0", "exit 3")
    cli.ok("enqueue", "--id", "long", "--max-retries", "0", "--timeout", "1", act(f"wait {tmp_path / 'never'}"))
    cli.ok("enqueue", "--id", "ended", "--no-rerun", act(f"touch {tmp_path / 'up'}", f"wait {tmp_path / 'never'}"))
    cli.ok("schedule", "add", "tick", "--every", "1s", "exit 0")
    cli.ok("worker", "start")
    eventually((tmp_path / "up").exists)
    cli.ok("cancel", "ended")
    eventually(lambda: counts(cli)["completed"] >= 3)
    cli.ok("worker", "stop")
    found = written(cli)
    known = {"time", "level", "event", "worker"}
    for event in found:
        of_a_run = {"job", "queue", "attempt", "lease"} if event["event"].startswith("job_") else set()
        assert event.keys() == known | of_a_run | documented()[event["event"]], event
    names = [event["event"] for event in found]
    assert (names[0], names[-1]) == ("worker_up", "worker_stopped")
    assert {"job_started", "job_ended", "schedule_enqueued", "worker_stopping"} <= set(names)
    ends = [one for one in found if one["event"] == "job_ended"]
    assert {
        ("good", 1, 0, "completed"),
        ("bad", 1, 3, "failed"),
        ("bad", 2, 3, "dead"),
        ("long", 1, None, "dead"),
        ("ended", 1, None, "cancelled"),
    } <= {(one["job"], one["attempt"], one["exit_code"], one["outcome"]) for one in ends}


def test_a_lost_worker_is_told_of_by_another(cli: Cli, tmp_path: Path) -> None:
    cli.ok("config", "set", "log_format", "json")
    cli.ok("worker", "start")
    cli.ok("enqueue", "--id", "held", "--no-rerun", act(f"wait {tmp_path / 'never'}"))
    eventually(lambda: state(cli, "held") == "processing")
    [worker] = workers(cli)
    cli.ok("worker", "start")
    kill(worker.pid)
    eventually(lambda: state(cli, "held") == "dead")
    eventually(lambda: any(one["event"] == "job_recovered" for one in written(cli)))
    [told] = [one for one in written(cli) if one["event"] == "job_recovered"]
    assert told["lost_worker"] == worker.name and told["state"] == "dead"
    assert (told["job"], told["reason"]) == ("held", "worker lost, and it must not run twice")
