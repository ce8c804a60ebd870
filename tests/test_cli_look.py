"""`status`, `list`, `show`, `metrics`, `dlq`, `config` and `cancel`, with jobs in every state and no worker."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from queuectl import platforms
from queuectl.config import SETTINGS, Settings
from queuectl.fields import parse
from queuectl.home import Home
from queuectl.job import Job, Outcome, State
from queuectl.metrics import measure
from queuectl.storage import Storage, Worker, open_storage

from .conftest import SCRIPT, Cli

SHOWN = {
    *("id", "command", "state", "priority", "waiting_time", "effective_priority", "attempts", "max_retries", "timeout"),
    *(
        "backoff_base",
        "created_at",
        "updated_at",
        "run_at",
        "started_at",
        "finished_at",
        "duration_seconds",
        "exit_code",
    ),
    *("output", "stderr", "error_message", "worker", "cwd"),
}
TIMES = ("created_at", "updated_at", "run_at", "started_at", "finished_at")
STATES = [state.value for state in State]
ESCAPE = "\x1b["
LONG = "echo " + "a long command line " * 10


@contextmanager
def inside(cli: Cli) -> Iterator[Storage]:
    """The queue's storage, in this process: it stands in for the workers."""
    os.makedirs(cli.home / "logs", exist_ok=True)
    storage = open_storage(Home(str(cli.home)))
    try:
        yield storage
    finally:
        storage.close()


def add(storage: Storage, job_id: str, **fields: Any) -> None:
    fields = {"command": "true", **fields, "id": job_id}
    storage.add([parse(fields, storage.settings(), os.getcwd(), storage.clock.now())])


def run(storage: Storage, job_id: str, outcome: Outcome | None, **fields: Any) -> Job:
    """Add a job that goes first, and take it; with no outcome it goes on running."""
    add(storage, job_id, priority=10, **fields)
    job = storage.claim("w-test")
    assert job is not None and job.id == job_id
    if outcome:
        storage.finish(job, outcome)
    return job


def fill(cli: Cli) -> None:
    """A job in every state, named by it, and one for later."""
    with inside(cli) as storage:
        run(storage, "completed", Outcome(0, 1.5, "all\nwell\n", "a warning\n"))
        run(storage, "failed", Outcome(3, 0.5, "", "oh no\n"), backoff_base=1000)
        run(storage, "dead", Outcome(None, 2.0, reason="timed out after 2 s"), max_retries=0, command=LONG)
        run(storage, "processing", None)
        add(storage, "cancelled")
        storage.cancel(storage.glance("cancelled"), "not wanted")
        add(storage, "pending", command=["echo", "two words"])
        add(storage, "later", delay="1d")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A queue that the tests here share: they look, and change nothing."""
    root = tmp_path_factory.mktemp("look")
    (root / "work").mkdir()
    cli = Cli(root / "home", root / "work")
    fill(cli)
    return cli


def as_json(cli: Cli, *args: str) -> Any:
    """What it prints, when that is JSON and nothing else is said."""
    done = cli(*args, "--json")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout)


def listed(cli: Cli) -> list[dict[str, Any]]:
    """All jobs, without what is only expected of them, and changes with the time of day."""
    jobs = as_json(cli, "list")
    return [{name: value for name, value in job.items() if not name.startswith("expected_")} for job in jobs]


def on_a_terminal(cli: Cli, *args: str, columns: int = 200, **env: str) -> str:
    """What it prints on a terminal that is so wide."""
    if os.name != "posix":
        pytest.skip("this platform has no pseudo-terminals")
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    known = {name: value for name, value in cli.env.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cli.cwd,
        env={**known, "TERM": "xterm", **env},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0, shown
    return shown.decode().replace("\r\n", "\n")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# --- show ---


@pytest.mark.parametrize("job_id", [*STATES, "later"])
def test_show_json_has_every_documented_key_and_times_that_parse_back(full: Cli, job_id: str) -> None:
    shown = as_json(full, "show", job_id)
    assert shown.keys() >= SHOWN
    assert shown["id"] == job_id
    assert shown["state"] == ("pending" if job_id == "later" else job_id)
    assert shown["effective_priority"] == shown["priority"] + shown["waiting_time"]
    for name in TIMES:
        if shown[name] is not None:
            moment = datetime.fromisoformat(shown[name])
            assert moment.utcoffset() is not None
            assert abs(moment.timestamp() - time.time()) < 3 * 86400
    assert shown["created_at"] and shown["updated_at"]


def test_show_tells_what_came_of_the_run(full: Cli) -> None:
    done = as_json(full, "show", "completed")
    assert (done["exit_code"], done["output"], done["stderr"]) == (0, "all\nwell\n", "a warning\n")
    assert (done["duration_seconds"], done["attempts"], done["worker"], done["error_message"]) == (
        1.5,
        1,
        "w-test",
        None,
    )
    assert datetime.fromisoformat(done["started_at"]) <= datetime.fromisoformat(done["finished_at"])
    assert [(one["attempt"], one["outcome"], one["exit_code"]) for one in done["runs"]] == [(1, "completed", 0)]
    failed = as_json(full, "show", "failed")
    assert (failed["exit_code"], failed["error_message"], failed["stderr"]) == (3, "exit code 3", "oh no\n")
    waits = datetime.fromisoformat(failed["run_at"]) - datetime.fromisoformat(failed["finished_at"])
    assert waits.total_seconds() == 1000
    dead = as_json(full, "show", "dead")
    assert (dead["exit_code"], dead["error_message"], dead["max_retries"]) == (None, "timed out after 2 s", 0)
    assert as_json(full, "show", "cancelled")["error_message"] == "not wanted"
    running = as_json(full, "show", "processing")
    assert running["started_at"] and running["finished_at"] is None and running["exit_code"] is None
    waiting = as_json(full, "show", "pending")
    assert waiting["command"] == ["echo", "two words"]
    assert [waiting[name] for name in ("started_at", "finished_at", "duration_seconds", "worker", "output")] == [
        None
    ] * 5
    assert waiting["runs"] == [] and waiting["cwd"] == os.getcwd()


def test_show_for_people_has_what_the_job_printed_and_how_it_ended(full: Cli) -> None:
    shown = full.ok("show", "completed")
    assert "all\nwell" in shown and "a warning" in shown and "1.50 s" in shown and "w-test" in shown
    assert "timed out after 2 s" in full.ok("show", "dead")
    assert "echo 'two words'" in full.ok("show", "pending") or os.name == "nt"
    assert all(ESCAPE not in full.ok("show", job_id) for job_id in ("completed", "dead"))


def test_show_lists_every_try_and_the_output_is_the_newest(cli: Cli) -> None:
    with inside(cli) as storage:
        run(storage, "twice", Outcome(1, 0.25, "first\n"), backoff_base=0)
        job = storage.claim("w-two")
        assert job is not None
        storage.finish(job, Outcome(0, 0.5, "second\n"))
    shown = as_json(cli, "show", "twice")
    assert (shown["attempts"], shown["output"], shown["worker"]) == (2, "second\n", "w-two")
    assert [(one["attempt"], one["outcome"], one["worker"]) for one in shown["runs"]] == [
        (1, "failed", "w-test"),
        (2, "completed", "w-two"),
    ]
    for one in shown["runs"]:
        assert datetime.fromisoformat(one["started_at"]).utcoffset() is not None
    text = cli.ok("show", "twice")
    assert "second" in text and "w-two" in text and "exit code 1" in text and "failed" in text


# --- list ---


def test_list_shows_the_newest_first_and_as_many_as_asked(full: Cli) -> None:
    newest_first = ["later", "pending", "cancelled", "processing", "dead", "failed", "completed"]
    found = as_json(full, "list")
    assert [job["id"] for job in found] == newest_first
    assert all(job.keys() >= SHOWN - {"output", "stderr"} for job in found)
    assert [job["id"] for job in as_json(full, "list", "--limit", "2")] == newest_first[:2]
    rows = full.ok("list", "--limit", "3").splitlines()[2:]
    assert [row.split()[0] for row in rows] == newest_first[:3]


def test_list_says_where_there_are_more_than_it_shows(full: Cli) -> None:
    assert full("list", "--limit", "3").stderr == "There are more than these 3. To see more: --limit 30\n"
    assert full("list", "--limit", "7").stderr == ""


@pytest.mark.parametrize("state", STATES)
def test_list_shows_only_the_state_that_is_asked_for(full: Cli, state: str) -> None:
    ids = [job["id"] for job in as_json(full, "list", "--state", state.upper())]
    assert ids == (["pending", "later"] if state == "pending" else [state])


def test_list_shows_pending_jobs_as_they_will_run_and_what_they_have_earned_by_waiting(cli: Cli) -> None:
    for job_id, priority in (("old", "1"), ("low", "1"), ("high", "9")):
        cli.ok("enqueue", "--id", job_id, "-p", priority, "true")
    found = as_json(cli, "list", "--state", "pending")
    assert [(job["id"], job["priority"], job["waiting_time"], job["effective_priority"]) for job in found] == [
        ("high", 9, 0, 9),
        ("old", 1, 2, 3),
        ("low", 1, 1, 2),
    ]
    assert [job["id"] for job in as_json(cli, "list", "--state", "pending", "--limit", "1")] == ["high"]
    assert "1+2" in cli.ok("list")


def test_list_puts_a_command_of_several_lines_on_one(cli: Cli) -> None:
    cli.ok("enqueue", "echo a\n\techo b\r\n")
    assert cli.ok("list").splitlines()[2].endswith("echo a echo b")


def test_an_empty_queue_says_so(cli: Cli) -> None:
    assert as_json(cli, "list") == as_json(cli, "dlq", "list") == []
    assert cli.ok("list") == "No jobs.\n"
    assert cli.ok("list", "--state", "dead") == "No dead jobs.\n"
    assert cli.ok("dlq", "list") == cli.ok("dlq", "purge") == "No dead jobs.\n"


# --- status ---


def test_status_counts_the_jobs_in_every_state_and_says_how_to_start_a_worker(full: Cli) -> None:
    found = as_json(full, "status")
    assert found["jobs"] == {state: 2 if state == "pending" else 1 for state in STATES}
    assert found["workers"] == []
    heading, _, counts, *rest = full.ok("status").splitlines()
    assert dict(zip(heading.split(), counts.split())) == {state: str(count) for state, count in found["jobs"].items()}
    assert rest == ["", "No worker is running. Start one with: queuectl worker start"]


@contextmanager
def worker(cli: Cli, pid: int, start_time: str) -> Iterator[None]:
    with inside(cli) as storage:
        here = (platforms.boot_id(), platforms.pid_space(), "my-host")
        now = storage.clock.now()
        storage.add_worker(Worker("w-test", pid, start_time, *here, now - 60_000, now - 60_000, 0, None))
        storage.heartbeat("w-test", 7)
        try:
            yield
        finally:
            storage.remove_worker("w-test")


def test_status_shows_a_worker_with_its_job_and_health_agrees(cli: Cli) -> None:
    fill(cli)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with worker(cli, process.pid, platforms.start_time(process.pid) or ""):
            [found] = as_json(cli, "status")["workers"]
            table = cli.ok("status")
            assert as_json(cli, "worker", "health")[0]["name"] == "w-test"
    finally:
        process.kill()
        process.communicate()
    assert (found["name"], found["pid"], found["state"], found["job"]) == ("w-test", process.pid, "busy", "processing")
    assert (found["processed"], found["host"]) == (7, "my-host")
    assert 0 <= found["heartbeat_age_seconds"] < 60
    assert datetime.fromisoformat(found["heartbeat_at"]) > datetime.fromisoformat(found["started_at"])
    assert "w-test" in table and str(process.pid) in table and "busy" in table


def test_a_lost_worker_is_shown_and_nothing_is_changed(cli: Cli) -> None:
    fill(cli)
    with worker(cli, os.getpid(), "the pid is there, but it is somebody else's"):
        for _ in range(2):
            found = as_json(cli, "status")
            assert [(one["name"], one["state"], one["job"]) for one in found["workers"]] == [
                ("w-test", "lost", "processing")
            ]
            assert found["jobs"]["processing"] == 1
        assert "lost" in cli.ok("status")
        health = cli("worker", "health", "--json")
        assert health.returncode == 1
        assert json.loads(health.stdout)[0]["state"] == "lost"
        assert "queuectl worker start" in health.stderr


# --- metrics ---


def test_metrics_counts_events_and_measures_runs(cli: Cli) -> None:
    with inside(cli) as storage:
        for number in range(1, 20):
            run(storage, f"job-{number}", Outcome(0, float(number)))
        run(storage, "slow", Outcome(1, 20.0), max_retries=0)
        add(storage, "unwanted")
        storage.cancel(storage.glance("unwanted"), "not wanted")
        run(storage, "unlucky", Outcome(1, 20.0), backoff_base=1000)
        run(storage, "busy", None)
    found = as_json(cli, "metrics")
    assert found["events"] == {
        "enqueued": 23,
        "started": 22,
        "completed": 19,
        "failed": 1,
        "dead": 1,
        "cancelled": 1,
    }
    assert found["run_seconds"]["average"] == pytest.approx(230 / 21)
    assert (found["run_seconds"]["p50"], found["run_seconds"]["p95"]) == (11, 20)
    waited = found["waiting_seconds"]
    assert 0 <= waited["p50"] <= waited["p95"] < 60 and waited["average"] is not None
    assert found["jobs_per_minute"] == pytest.approx(2.1)
    assert len(found["recent"]) == 10
    newest = [(event["event"], event["job_id"]) for event in found["recent"]]
    assert {("started", "busy"), ("enqueued", "busy"), ("failed", "unlucky"), ("cancelled", "unwanted")} <= set(newest)
    assert newest.index(("started", "busy")) < newest.index(("enqueued", "busy"))
    times = [datetime.fromisoformat(event["at"]) for event in found["recent"]]
    assert times == sorted(times, reverse=True) and all(moment.utcoffset() is not None for moment in times)
    assert len(as_json(cli, "metrics", "--recent", "3")["recent"]) == 3
    assert as_json(cli, "metrics", "--recent", "0")["recent"] == []
    text = cli.ok("metrics")
    assert "11 s" in text and "20 s" in text and "2.1 jobs a minute" in text and "unlucky" in text


def test_the_newest_events_may_be_those_of_old_jobs(cli: Cli) -> None:
    with inside(cli) as storage:
        storage.set_setting("aging", "off")
        for number in range(1, 5):
            add(storage, f"cancelled-{number}")
            add(storage, f"busy-{number}", priority=1 if number == 1 else 5)
        for number in (4, 3, 2, 1):
            storage.cancel(storage.glance(f"cancelled-{number}"), "not wanted")
            time.sleep(0.002)  # so that no two happen in one millisecond
        for _ in range(4):
            storage.claim("w-test")
            time.sleep(0.002)
        recent = measure(storage, 2).recent
        assert [(event.event, event.job_id) for event in recent] == [("started", "busy-1"), ("started", "busy-4")]
        assert [event.job_id for event in measure(storage, 6).recent[4:]] == ["cancelled-1", "cancelled-2"]


def test_metrics_of_a_new_queue_has_no_figures_rather_than_wrong_ones(cli: Cli) -> None:
    found = as_json(cli, "metrics")
    assert set(found["events"].values()) == {0}
    assert found["run_seconds"] == found["waiting_seconds"] == {"average": None, "p50": None, "p95": None}
    assert (found["jobs_per_minute"], found["recent"]) == (0, [])
    assert "0.00 s" not in cli.ok("metrics")


# --- dead letters ---


def bury(cli: Cli, *ids: str) -> None:
    with inside(cli) as storage:
        for job_id in ids:
            run(storage, job_id, Outcome(7, 0.1, "last words\n"), max_retries=0)


def test_dlq_list_shows_dead_jobs_and_why_they_died(cli: Cli) -> None:
    bury(cli, "a", "b", "c")
    cli.ok("enqueue", "--id", "alive", "true")
    found = as_json(cli, "dlq", "list")
    assert [(job["id"], job["state"], job["error_message"]) for job in found] == [
        ("c", "dead", "exit code 7"),
        ("b", "dead", "exit code 7"),
        ("a", "dead", "exit code 7"),
    ]
    assert [job["id"] for job in as_json(cli, "dlq", "list", "--limit", "1")] == ["c"]
    table = cli.ok("dlq", "list")
    assert "exit code 7" in table and "alive" not in table


def test_dlq_retry_puts_the_named_jobs_back_as_if_new_and_leaves_the_others(cli: Cli) -> None:
    bury(cli, "a", "b", "c")
    out = cli.ok("dlq", "retry", "a", "b")
    assert out.splitlines() == ["Job a is pending again.", "Job b is pending again."]
    assert as_json(cli, "status")["jobs"] == {**dict.fromkeys(STATES, 0), "pending": 2, "dead": 1}
    retried = as_json(cli, "show", "a")
    assert (retried["state"], retried["attempts"], retried["waiting_time"]) == ("pending", 0, 0)
    assert retried["output"] == "last words\n" and len(retried["runs"]) == 1
    with inside(cli) as storage:
        claimed = storage.claim("w-test")
        assert claimed is not None and (claimed.id, claimed.attempts) == ("a", 1)


def test_dlq_retry_is_all_or_nothing(cli: Cli) -> None:
    bury(cli, "a", "b")
    for wrong in ("nosuch", "alive"):
        if wrong == "alive":
            cli.ok("enqueue", "--id", "alive", "true")
        assert cli("dlq", "retry", "a", wrong).returncode == 1
        assert as_json(cli, "status")["jobs"]["dead"] == 2


def test_dlq_retry_all_puts_every_dead_job_back(cli: Cli) -> None:
    bury(cli, "a", "b", "c")
    assert cli.ok("dlq", "retry", "--all") == "3 jobs are pending again.\n"
    assert as_json(cli, "status")["jobs"] == {**dict.fromkeys(STATES, 0), "pending": 3}
    again = cli("dlq", "retry", "--all")
    assert again.returncode == 0
    assert as_json(cli, "status")["jobs"]["pending"] == 3


def test_dlq_purge_does_nothing_where_nobody_can_be_asked(cli: Cli) -> None:
    bury(cli, "a", "b")
    for answer in (None, "", "n\n", "y\n"):
        done = cli("dlq", "purge", input=answer)
        assert done.returncode == 1, answer
        assert done.stdout == "" and "Delete 2 dead jobs" in done.stderr and "--yes" in done.stderr
        assert as_json(cli, "status")["jobs"]["dead"] == 2
    assert cli.ok("dlq", "purge", "--yes") == "2 jobs were deleted.\n"
    assert as_json(cli, "list") == []


def test_dlq_purge_deletes_dead_jobs_with_their_history_and_logs_and_nothing_else(cli: Cli) -> None:
    fill(cli)
    with inside(cli) as storage:
        dead, alive = storage.job("dead"), storage.job("completed")
    home = Home(str(cli.home))
    for job in (dead, alive):
        for path in home.kept(job.seq, job.lease):
            Path(path).write_text("all that it printed")
    assert "deleted" in cli.ok("dlq", "purge", "--yes")
    assert as_json(cli, "status")["jobs"] == {state: {"pending": 2, "dead": 0}.get(state, 1) for state in STATES}
    assert cli("show", "dead").returncode == 1
    assert not any(os.path.exists(path) for path in home.kept(dead.seq, dead.lease))
    assert all(os.path.exists(path) for path in home.kept(alive.seq, alive.lease))
    with inside(cli) as storage:
        assert storage.runs_of(dead) == [] and len(storage.runs_of(alive)) == 1
    cli.ok("enqueue", "--id", "dead", "true")


# --- cancel ---


def test_cancel_ends_waiting_scheduled_and_backing_off_jobs_at_once(cli: Cli) -> None:
    fill(cli)
    out = cli.ok("cancel", "pending", "later", "failed")
    assert out.splitlines() == ["Job pending is cancelled.", "Job later is cancelled.", "Job failed is cancelled."]
    for job_id in ("pending", "later", "failed"):
        shown = as_json(cli, "show", job_id)
        assert (shown["state"], shown["error_message"]) == ("cancelled", "cancelled by the user")
        assert shown["finished_at"]
    assert as_json(cli, "status")["jobs"] == {**dict.fromkeys(STATES, 1), "pending": 0, "failed": 0, "cancelled": 4}
    with inside(cli) as storage:
        assert storage.claim("w-test") is None and storage.next_due() is None


def test_cancel_keeps_the_reason_and_is_refused_for_a_job_that_has_ended(cli: Cli) -> None:
    fill(cli)
    cli.ok("cancel", "--reason", "too late", "pending")
    assert as_json(cli, "show", "pending")["error_message"] == "too late"
    before = listed(cli)
    for job_id in ("pending", "completed", "dead", "cancelled"):
        done = cli("cancel", job_id)
        assert done.returncode == 1 and "nothing to cancel" in done.stderr
    assert listed(cli) == before


def test_cancel_of_a_running_job_waits_for_its_worker(cli: Cli) -> None:
    with inside(cli) as storage:
        job = run(storage, "busy", None)
        assert cli.ok("cancel", "busy") == "Job busy is being ended.\n"
        assert as_json(cli, "show", "busy")["state"] == "processing"
        assert storage.cancel_reason(job) == "cancelled by the user"
        storage.finish(job, Outcome(1, 0.1))
    assert as_json(cli, "show", "busy")["state"] == "cancelled"


def test_a_cancelled_job_ages_no_more(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "true")
    cli.ok("enqueue", "true")
    cli.ok("cancel", "a")
    before = as_json(cli, "show", "a")["waiting_time"]
    cli.ok("enqueue", "true")
    assert as_json(cli, "show", "a")["waiting_time"] == before


# --- config ---


def test_config_list_shows_every_setting_with_its_value(cli: Cli) -> None:
    where = f"sqlite:///{cli.home / 'queuectl.db'}"
    assert as_json(cli, "config", "list") == {**Settings()._asdict(), "database": where}
    table = cli.ok("config", "list")
    for name, setting in SETTINGS.items():
        assert name in table and setting.meaning in table


def test_config_set_lasts_and_unset_goes_back_whether_written_with_dashes_or_underscores(cli: Cli) -> None:
    assert cli.ok("config", "get", "max-retries") == "3\n"
    assert "max_retries is now 9" in cli.ok("config", "set", "max-retries", "9")
    assert cli.ok("config", "get", "max_retries") == cli.ok("config", "get", "max-retries") == "9\n"
    assert as_json(cli, "config", "get", "max-retries") == {"max_retries": 9}
    cli.ok("config", "set", "stop_grace", "2.5")
    where = {"database": f"sqlite:///{cli.home / 'queuectl.db'}"}
    assert as_json(cli, "config", "list") == {**Settings()._asdict(), "max_retries": 9, "stop_grace": 2.5, **where}
    assert "3" in cli.ok("config", "unset", "max_retries")
    assert as_json(cli, "config", "list") == {**Settings()._asdict(), "stop_grace": 2.5, **where}
    cli.ok("config", "unset", "max-retries")
    cli.ok("config", "set", "shell", "/bin/bash")
    cli.ok("config", "set", "shell", "")
    assert cli.ok("config", "get", "shell") == "\n"


def test_settings_hold_for_jobs_enqueued_from_then_on(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "before", "true")
    for name, value in (("max-retries", "9"), ("priority", "7"), ("timeout", "60"), ("backoff-base", "1.5")):
        cli.ok("config", "set", name, value)
    cli.ok("enqueue", "--id", "after", "true")
    cli.ok("enqueue", "--id", "own", "-p", "2", "--max-retries", "0", "true")
    names = ("max_retries", "priority", "timeout", "backoff_base")
    found = {job["id"]: tuple(job[name] for name in names) for job in as_json(cli, "list")}
    assert found == {"before": (3, 5, 0, 2), "after": (9, 7, 60, 1.5), "own": (0, 2, 60, 1.5)}


def test_max_backoff_holds_for_jobs_that_are_there_already(cli: Cli) -> None:
    with inside(cli) as storage:
        job = run(storage, "busy", None, backoff_base=1000)
        cli.ok("config", "set", "max-backoff", "4")
        storage.finish(job, Outcome(1, 0.1))
    shown = as_json(cli, "show", "busy")
    waits = datetime.fromisoformat(shown["run_at"]) - datetime.fromisoformat(shown["finished_at"])
    assert waits.total_seconds() == 4


def test_setting_aging_ranks_the_line_anew(cli: Cli) -> None:
    for job_id, priority in (("a", "1"), ("b", "1"), ("c", "2")):
        cli.ok("enqueue", "--id", job_id, "-p", priority, "true")

    def line() -> list[tuple[str, int]]:
        return [(job["id"], job["waiting_time"]) for job in as_json(cli, "list", "--state", "pending")]

    assert line() == [("a", 2), ("b", 1), ("c", 0)]
    cli.ok("config", "set", "aging", "off")
    assert line() == [("c", 0), ("a", 0), ("b", 0)]
    cli.ok("config", "set", "aging", "2 Enqueues")
    assert cli.ok("config", "get", "aging") == "2 enqueues\n"
    assert line() == [("a", 1), ("c", 0), ("b", 0)]
    cli.ok("config", "set", "aging", "1h")
    assert line() == [("c", 0), ("a", 0), ("b", 0)]
    cli.ok("config", "unset", "aging")
    assert line() == [("a", 2), ("b", 1), ("c", 0)]
    with inside(cli) as storage:
        claimed = [storage.claim("w-test") for _ in range(3)]
    assert [job.id for job in claimed if job] == ["a", "b", "c"]


# --- on a terminal ---

TABLES = [["list"], ["status"], ["dlq", "list"], ["config", "list"], ["metrics"], ["worker", "list"]]


@pytest.mark.parametrize("args", TABLES, ids=" ".join)
def test_a_table_has_no_colour_in_a_pipe(full: Cli, args: list[str]) -> None:
    assert ESCAPE not in full.ok(*args, TERM="xterm-256color")


def test_states_are_coloured_on_a_terminal_unless_no_color_is_set(full: Cli) -> None:
    coloured = on_a_terminal(full, "list")
    for state in STATES:
        assert re.search(rf"\x1b\[\d+m{state}\x1b\[0m", coloured), state
    assert ESCAPE in on_a_terminal(full, "status") and ESCAPE in on_a_terminal(full, "show", "dead")
    assert ESCAPE in on_a_terminal(full, "status", NO_COLOR=""), "an empty NO_COLOR means nothing"
    for args in (["list"], ["status"], ["show", "dead"]):
        assert ESCAPE not in on_a_terminal(full, *args, NO_COLOR="1")


def test_json_has_no_colour_on_a_terminal_either(full: Cli) -> None:
    for args in (["list"], ["status"], ["show", "dead"], ["metrics"]):
        json.loads(on_a_terminal(full, *args, "--json"))


def test_a_wide_terminal_and_a_pipe_show_everything(full: Cli) -> None:
    assert LONG.strip() in on_a_terminal(full, "list", columns=500)
    assert LONG.strip() in full.ok("list") and LONG.strip() in full.ok("list", COLUMNS="40")


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("args", TABLES[:-1], ids=" ".join)
def test_a_table_fits_the_width_of_the_terminal(full: Cli, args: list[str], columns: int) -> None:
    shown = plain(on_a_terminal(full, *args, columns=columns))
    longest = max(shown.splitlines(), key=len)
    assert len(longest) <= columns, longest
    wanted = {"list": ["completed", "processing", "echo a"], "dlq list": ["dead", "echo a"], "status": STATES}
    for word in wanted.get(" ".join(args), []):
        assert word in shown


@pytest.mark.parametrize("columns", [25, 40])
@pytest.mark.parametrize("args", [["list"], ["dlq", "list"], ["config", "list"], ["metrics"]], ids=" ".join)
def test_a_terminal_that_is_narrow_shows_fewer_columns(full: Cli, args: list[str], columns: int) -> None:
    assert max(map(len, plain(on_a_terminal(full, *args, columns=columns)).splitlines())) <= columns


def test_the_time_of_day_is_shown_in_eighty_columns(full: Cli) -> None:
    shown = plain(on_a_terminal(full, "list", columns=80))
    assert re.search(r"ended (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d ", shown)


def test_what_a_command_holds_cannot_move_the_cursor(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "evil", "echo \x1b[2J\necho two")
    assert r"echo \x1b[2J echo two" in cli.ok("list")
    assert "command      echo \\x1b[2J\necho two\n" in cli.ok("show", "evil")
    assert ESCAPE not in cli.ok("list") + cli.ok("show", "evil")


def test_the_variable_columns_says_how_wide_the_terminal_is(full: Cli) -> None:
    shown = plain(on_a_terminal(full, "list", columns=500, COLUMNS="90"))
    assert max(map(len, shown.splitlines())) <= 90


def test_a_worker_fits_the_width_of_the_terminal_too(cli: Cli) -> None:
    fill(cli)
    with worker(cli, os.getpid(), "it is somebody else's"):
        for args in (["status"], ["worker", "list"]):
            longest = max(plain(on_a_terminal(cli, *args, columns=60)).splitlines(), key=len)
            assert len(longest) <= 60, longest


# --- help ---


def test_every_command_has_help_with_an_example_and_says_what_each_option_does() -> None:
    import click
    from click.testing import CliRunner

    from queuectl.cli.commands import cli as whole

    gc.enable()  # the command line turns it off, which is not for the tests
    seen: list[str] = []

    def visit(command: click.Command, path: list[str]) -> None:
        seen.append(" ".join(path))
        for flag in ("--help", "-h"):
            result = CliRunner().invoke(whole, [*path, flag], prog_name="queuectl")
            assert result.exit_code == 0
            assert re.search(rf"Examples?:\n +queuectl {' '.join(path)}", result.output), path
            first_line = (command.help or "").strip().splitlines()[0]
            assert first_line.endswith((".", ":"))
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, f"{path}: {option.name}"
        if isinstance(command, click.Group):
            context = click.Context(command, **command.context_settings)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                visit(found, [*path, name])

    visit(whole, [])
    wanted = ["enqueue", "run", "status", "list", "show", "metrics", "cancel"]
    wanted += ["retry", "edit", "promote", "delete", "purge"]
    wanted += [f"worker {name}" for name in ("start", "stop", "list", "health")]
    wanted += [f"dlq {name}" for name in ("list", "retry", "purge")]
    wanted += [f"config {name}" for name in ("list", "get", "set", "unset")]
    assert set(wanted) <= set(seen)


# They act, and say what they did; or what they print is no data.
WITHOUT_JSON = """
enqueue run logs wait cancel retry edit promote delete purge web demo completion
worker start, worker stop, worker autostart enable, worker autostart disable
dlq retry, dlq purge
config set, config unset
queue add, queue set, queue pause, queue resume, queue remove
schedule add, schedule pause, schedule resume, schedule run, schedule remove
db move, db reopen, db backup
"""


def test_every_command_that_prints_data_has_json() -> None:
    import click

    from queuectl.cli.commands import cli as whole

    def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield path.strip(), command
            return
        context = click.Context(command, **command.context_settings)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, f"{path} {name}")

    gc.enable()
    first, *others = WITHOUT_JSON.strip().splitlines()
    excepted = {*first.split(), *(name for line in others for name in line.split(", "))}
    without = {
        path for path, command in leaves(whole, "") if not any("--json" in option.opts for option in command.params)
    }
    assert without == excepted


def test_no_summary_in_a_list_of_commands_is_cut() -> None:
    import click
    from click.testing import CliRunner

    from queuectl.cli.commands import COMMANDS
    from queuectl.cli.commands import cli as whole

    groups = [name for name in COMMANDS if isinstance(whole.get_command(click.Context(whole), name), click.Group)]
    for path in ([], *([name] for name in groups)):
        shown = CliRunner().invoke(whole, [*path, "--help"], terminal_width=80).output
        assert not re.search(r"^  [a-z]+  .*\.\.\.$", shown, re.MULTILINE), path


def test_help_and_version_make_no_home(cli: Cli) -> None:
    assert "Usage: queuectl" in cli.ok("--help")
    assert re.fullmatch(r"queuectl \d+\.\d+\.\d+\S*\n", cli.ok("--version"))
    assert "queuectl enqueue" in cli.ok("enqueue", "--help")
    assert not cli.home.exists()
