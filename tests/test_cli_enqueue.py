"""`enqueue`, as real processes: what it prints, what it stores, and where."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from queuectl import platforms
from queuectl.home import Home
from queuectl.storage import Worker, open_storage

from .conftest import ROOT, SCRIPT, Cli

START_ONE = "No worker is running. Start one with: queuectl worker start"


def rows(cli: Cli, sql: str, *parameters: object) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(cli.home / "queuectl.db")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(sql, parameters)]


def stored(cli: Cli, job_id: str) -> dict[str, Any]:
    [row] = rows(cli, "SELECT * FROM jobs WHERE id = ?", job_id)
    return row


def described(cli: Cli, job_id: str) -> dict[str, Any]:
    """What the user handed in of a job."""
    names = ["command", "argv", "priority", "max_retries", "timeout", "backoff_base", "run_at", "cwd", "env"]
    row = stored(cli, job_id)
    return {name: row[name] for name in names}


def commands(cli: Cli) -> list[str]:
    return [row["command"] for row in rows(cli, "SELECT command FROM jobs ORDER BY seq")]


def tick(cli: Cli) -> int:
    return int(rows(cli, "SELECT tick FROM clock")[0]["tick"])


def millis(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


@contextmanager
def somebody_at_work(cli: Cli) -> Iterator[None]:
    """A process that the queue takes for a worker, and that is none."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    storage = open_storage(Home(str(cli.home)))
    try:
        start_time = platforms.start_time(process.pid)
        assert start_time is not None
        now = storage.clock.now()
        here = (platforms.boot_id(), platforms.pid_space(), "here")
        storage.add_worker(Worker("w-test", process.pid, start_time, *here, now, now, 0, None))
        yield
    finally:
        storage.remove_worker("w-test")
        storage.close()
        process.kill()
        process.communicate()


# --- what is printed ---


def test_stdout_is_the_id_and_only_the_id_and_stderr_tells_the_rest(cli: Cli) -> None:
    first = cli("enqueue", "echo hi")
    assert (first.returncode, first.stdout) == (0, "1\n")
    assert first.stderr.splitlines() == ["Job 1 is next in line.", START_ONE]
    second = cli("enqueue", "--id", "mine", "echo hi")
    assert (second.returncode, second.stdout) == (0, "mine\n")
    assert second.stderr.splitlines() == ["Job mine is in line, 1 before it.", START_ONE]
    urgent = cli("enqueue", "-p", "10", "echo hi")
    assert urgent.stdout == "3\n"
    assert "Job 3 is next in line." in urgent.stderr


@pytest.mark.skipif(os.name != "posix", reason="the line is for a POSIX shell")
def test_a_shell_can_catch_the_id(cli: Cli) -> None:
    cli.ok("status")
    script = f'id=$("{sys.executable}" "{SCRIPT}" enqueue "echo hi" 2>/dev/null) && echo "[$id]"'
    done = subprocess.run(["sh", "-c", script], env=cli.env, cwd=cli.cwd, capture_output=True, text=True, check=True)
    assert done.stdout == "[1]\n"


def test_in_bulk_the_ids_are_printed_one_a_line_in_the_order_of_the_file(cli: Cli) -> None:
    done = cli("enqueue", "--file", "-", input='echo a\n{"command": "echo b", "id": "b"}\necho c\n')
    assert (done.returncode, done.stdout) == (0, "1\nb\n3\n")
    assert done.stderr.splitlines() == ["3 jobs were stored.", START_ONE]
    assert commands(cli) == ["echo a", "echo b", "echo c"]


def test_while_a_worker_is_running_nobody_is_told_to_start_one(cli: Cli) -> None:
    cli.ok("status")
    with somebody_at_work(cli):
        one = cli("enqueue", "true")
        many = cli("enqueue", "--file", "-", input="true\ntrue\n")
    assert one.stderr == "Job 1 is next in line.\n"
    assert many.stderr == "2 jobs were stored.\n"
    assert cli("enqueue", "true").stderr.splitlines()[1:] == [START_ONE]


def test_a_place_far_back_in_line_is_counted_to_a_thousand(cli: Cli) -> None:
    cli.ok("enqueue", "--file", "-", input="true\n" * 999)
    assert "999 before it." in cli("enqueue", "true").stderr
    cli.ok("enqueue", "--file", "-", input="true\n" * 5)
    assert "1,000+ before it." in cli("enqueue", "true").stderr


def test_a_job_for_later_says_until_when_it_waits(cli: Cli) -> None:
    later = cli("enqueue", "--run-at", "2127-01-31T02:00:00", "true")
    assert later.stdout == "1\n"
    assert "Job 1 waits until 2127-01-31 02:00:00." in later.stderr


# --- what is stored ---


def test_every_option_and_its_json_key_store_the_same(cli: Cli) -> None:
    (cli.cwd / "there").mkdir()
    options = "-p 8 --max-retries 5 --timeout 60 --backoff-base 1.5 --run-at 2127-01-31T02:00:00+01:00 --cwd there"
    cli.ok("enqueue", "--id", "a", *options.split(), "--env", "A=1", "--env", "B=x=y", "echo hi")
    fields = {
        "id": "b",
        "command": "echo hi",
        "priority": 8,
        "max_retries": 5,
        "timeout": 60,
        "backoff_base": 1.5,
        "run_at": "2127-01-31T02:00:00+01:00",
        "cwd": "there",
        "env": {"A": "1", "B": "x=y"},
    }
    cli.ok("enqueue", json.dumps(fields))
    assert described(cli, "a") == {
        "command": "echo hi",
        "argv": None,
        "priority": 8,
        "max_retries": 5,
        "timeout": 60,
        "backoff_base": 1.5,
        "run_at": millis("2127-01-31T01:00"),
        "cwd": str(cli.cwd / "there"),
        "env": '{"A": "1", "B": "x=y"}',
    }
    assert described(cli, "b") == described(cli, "a")
    assert stored(cli, "a")["state"] == "pending" and stored(cli, "a")["rank"] is None


def test_a_job_with_no_options_takes_the_defaults_and_is_in_line(cli: Cli) -> None:
    cli.ok("enqueue", "sleep 2 && echo hello")
    assert described(cli, "1") == {
        "command": "sleep 2 && echo hello",
        "argv": None,
        "priority": 5,
        "max_retries": 3,
        "timeout": 0,
        "backoff_base": 2,
        "run_at": None,
        "cwd": str(cli.cwd),
        "env": None,
    }
    row = stored(cli, "1")
    assert (row["state"], row["attempts"], row["lease"], row["since_tick"]) == ("pending", 0, 0, 1)
    assert row["rank"] is not None and row["due_at"] is None


def test_id_and_command_can_be_named_and_a_named_command_is_never_taken_for_json(cli: Cli) -> None:
    assert cli.ok("enqueue", "--id", "job2", "--command", "echo hi") == "job2\n"
    assert cli.ok("enqueue", "--command", "{ echo a; echo b; }") == "2\n"
    assert commands(cli) == ["echo hi", "{ echo a; echo b; }"]


def test_options_go_over_what_a_json_object_says(cli: Cli) -> None:
    cli.ok("enqueue", "-p", "9", "--id", "mine", '{"id": "theirs", "command": "true", "priority": 2, "timeout": 7}')
    assert (stored(cli, "mine")["priority"], stored(cli, "mine")["timeout"]) == (9, 7)
    assert len(commands(cli)) == 1


def test_several_arguments_are_stored_as_a_list_and_one_as_a_line(cli: Cli) -> None:
    argv = ["ffmpeg", "-i", "my film.mkv", "out.mp4", "", "--flag", "ü"]
    cli.ok("enqueue", "-p", "9", "--", *argv)
    cli.ok("enqueue", "--", "echo my film")
    cli.ok("enqueue", json.dumps({"command": argv}))
    assert json.loads(stored(cli, "1")["argv"]) == argv
    assert stored(cli, "1")["priority"] == 9
    assert (stored(cli, "2")["argv"], stored(cli, "2")["command"]) == (None, "echo my film")
    assert stored(cli, "3")["argv"] == stored(cli, "1")["argv"]
    assert [job["command"] for job in json.loads(cli.ok("list", "--json"))] == [argv, "echo my film", argv]
    if os.name == "posix":
        assert stored(cli, "1")["command"] == "ffmpeg -i 'my film.mkv' out.mp4 '' --flag 'ü'"


@pytest.mark.parametrize(
    "line", ["[ -f x ] && echo yes", "  two\n lines  ", "echo 'ü ☃' \"$HOME\" \\", "42", '"quoted"']
)
def test_a_line_for_the_shell_is_stored_to_the_letter(cli: Cli, line: str) -> None:
    cli.ok("enqueue", line)
    assert commands(cli) == [line]


def test_a_number_that_somebody_took_as_an_id_is_left_out(cli: Cli) -> None:
    assert cli.ok("enqueue", "--id", "2", "true") == "2\n"
    out = cli.ok("enqueue", "--file", "-", input="true\ntrue\n").split()
    assert len({"2", *out}) == 3
    assert all(name.isdigit() for name in out)
    assert len(commands(cli)) == 3


# --- in bulk ---


def test_a_file_may_mix_commands_and_json_with_blank_lines_a_byte_order_mark_and_windows_line_ends(cli: Cli) -> None:
    path = cli.cwd / "jobs.jsonl"
    lines = [
        "\ufeffecho ä",
        "",
        '{"command": "echo b", "priority": 9}',
        "   ",
        '\t{"command": ["echo", "c d"]} ',
        "[ -f d ]",
    ]
    path.write_bytes("\r\n".join(lines).encode())
    assert cli.ok("enqueue", "--file", "jobs.jsonl") == "1\n2\n3\n4\n"
    found = rows(cli, "SELECT command, argv, priority FROM jobs ORDER BY seq")
    assert [(row["command"], row["priority"]) for row in found] == [
        ("echo ä", 5),
        ("echo b", 9),
        ('echo "c d"' if os.name == "nt" else "echo 'c d'", 5),
        ("[ -f d ]", 5),
    ]
    assert found[2]["argv"] == '["echo", "c d"]'


def test_a_byte_order_mark_before_json_is_no_part_of_it(cli: Cli) -> None:
    cli.ok("enqueue", "--file", "-", input='\ufeff{"id": "a", "command": "true"}\r\n')
    assert commands(cli) == ["true"]


def test_all_jobs_of_a_file_share_one_tick(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    cli.ok("enqueue", "--file", "-", input="true\n" * 50)
    assert tick(cli) == 2
    assert rows(cli, "SELECT DISTINCT since_tick FROM jobs WHERE seq > 1") == [{"since_tick": 2}]
    cli.ok("enqueue", "true")
    waited = {job["id"]: job["waiting_time"] for job in json.loads(cli.ok("list", "--json", "--limit", "100"))}
    assert (waited["1"], waited["2"], waited["51"], waited["52"]) == (2, 1, 1, 0)


def test_options_are_the_defaults_of_a_file_and_a_line_goes_over_them(cli: Cli) -> None:
    path = cli.cwd / "jobs"
    path.write_text('true\n{"command": "true", "priority": 2, "env": {"B": "2"}}\n')
    cli.ok("enqueue", "--file", str(path), "-p", "9", "--timeout", "7", "--env", "A=1", "--cwd", str(cli.cwd.parent))
    first, second = stored(cli, "1"), stored(cli, "2")
    assert (first["priority"], first["timeout"], first["env"]) == (9, 7, '{"A": "1"}')
    assert (second["priority"], second["timeout"]) == (2, 7)
    assert json.loads(second["env"])["B"] == "2"
    assert first["cwd"] == second["cwd"] == str(cli.cwd.parent)


def test_a_null_in_a_line_leaves_the_default_of_the_file(cli: Cli) -> None:
    cli.ok("enqueue", "--file", "-", "-p", "9", input='{"command": "true", "priority": null}\n')
    assert stored(cli, "1")["priority"] == 9


def test_a_file_without_jobs_stores_nothing_and_is_no_enqueue(cli: Cli) -> None:
    done = cli("enqueue", "--file", "-", input="\n  \r\n")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "No jobs in there: nothing was stored.\n"
    assert tick(cli) == 0 and commands(cli) == []


# --- when ---


@pytest.mark.skipif(os.name != "posix", reason="on Windows a process cannot be given a time zone of its own")
@pytest.mark.parametrize(
    ("zone", "rule", "written", "meant"),
    [
        ("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3", "2127-07-31T02:00", "2127-07-31T00:00"),
        ("America/New_York", "EST5EDT,M3.2.0,M11.1.0", "2127-01-31T02:00", "2127-01-31T07:00"),
        ("Asia/Kolkata", "IST-5:30", "2127-01-31T02:00", "2127-01-30T20:30"),
    ],
)
def test_a_time_without_an_offset_is_the_users_and_one_with_an_offset_is_everybodys(
    cli: Cli, zone: str, rule: str, written: str, meant: str
) -> None:
    # The rule is for machines without the database of time zones.
    cli.env["TZ"] = zone if os.path.exists(f"/usr/share/zoneinfo/{zone}") else rule
    cli.ok("enqueue", "--run-at", written, "true")
    cli.ok("enqueue", "--run-at", written + "+01:00", "true")
    assert stored(cli, "1")["run_at"] == stored(cli, "1")["due_at"] == millis(meant)
    assert stored(cli, "2")["run_at"] == millis(written) - 3_600_000
    shown = json.loads(cli.ok("show", "1", "--json"))["run_at"]
    assert shown.startswith(written) and datetime.fromisoformat(shown).timestamp() * 1000 == millis(meant)


@pytest.mark.parametrize(("delay", "seconds"), [("90", 90), ("10m", 600), ("2h30m", 9000), ("1d", 86400)])
def test_a_delay_counts_from_now(cli: Cli, delay: str, seconds: int) -> None:
    before = time.time()
    cli.ok("enqueue", "--delay", delay, "true")
    after = time.time()
    row = stored(cli, "1")
    assert before - 0.001 <= row["run_at"] / 1000 - seconds <= after
    assert (row["due_at"], row["rank"], row["since_tick"]) == (row["run_at"], None, None)


def test_a_time_that_is_past_puts_the_job_in_line_at_once(cli: Cli) -> None:
    assert "is next in line" in cli("enqueue", "--run-at", "2020-01-31T02:00:00Z", "true").stderr
    assert "1 before it" in cli("enqueue", "--delay", "0", "true").stderr
    assert stored(cli, "1")["rank"] is not None and stored(cli, "1")["due_at"] is None


# --- where, and with what environment ---


def test_the_directory_is_the_one_it_was_enqueued_from_and_all_directories_share_one_queue(cli: Cli) -> None:
    other = cli.cwd / "my other" / "dir"
    other.mkdir(parents=True)
    cli.ok("enqueue", "true")
    cli.ok("enqueue", "true", cwd=other)
    cli.ok("enqueue", "--cwd", "..", "true", cwd=other)
    cli.ok("enqueue", "--cwd", str(cli.cwd), "true", cwd=other)
    found = [row["cwd"] for row in rows(cli, "SELECT cwd FROM jobs ORDER BY seq")]
    assert found == [str(cli.cwd), str(other), str(other.parent), str(cli.cwd)]
    assert not list(cli.cwd.rglob("*.db"))


def test_each_distinct_environment_is_stored_once(cli: Cli) -> None:
    cli.ok("enqueue", "true", COLOUR="red")
    cli.ok("enqueue", "--env", "SHAPE=round", "true", COLOUR="red")
    cli.ok("enqueue", "true", COLOUR="blue")
    kept = {row["hash"]: json.loads(row["variables"]) for row in rows(cli, "SELECT * FROM environments")}
    assert sorted(found["COLOUR"] for found in kept.values()) == ["blue", "red"]
    used = [row["environment"] for row in rows(cli, "SELECT environment FROM jobs ORDER BY seq")]
    assert used[0] == used[1] != used[2]
    assert kept[used[0]]["COLOUR"] == "red" and kept[used[0]]["PATH"] == os.environ["PATH"]
    assert "SHAPE" not in kept[used[0]]


def test_a_job_that_enqueues_another_does_not_pass_on_its_own_marks(cli: Cli) -> None:
    cli.ok("enqueue", "true", QUEUECTL_RUN="queue.1.1", QUEUECTL_JOB_ID="1")
    [row] = rows(cli, "SELECT variables FROM environments")
    assert not {"QUEUECTL_RUN", "QUEUECTL_JOB_ID"} & json.loads(row["variables"]).keys()


def test_bytes_in_the_environment_that_are_not_utf_8_are_kept(cli: Cli) -> None:
    cli.ok("enqueue", "true", ODD="\udcff\udcfe")
    [row] = rows(cli, "SELECT variables FROM environments")
    assert json.loads(row["variables"])["ODD"] == "\udcff\udcfe"


def test_the_environment_is_never_printed(cli: Cli) -> None:
    cli.env.update(PASSWORD="hunter2")
    said = [cli("enqueue", "--id", "a", "--env", "TOKEN=s3cr3t", "true")]
    said += [cli(*command) for command in (["list"], ["list", "--json"], ["show", "a"], ["show", "a", "--json"])]
    said += [cli("status", "--json"), cli("metrics", "--json")]
    for done in said:
        assert done.returncode == 0, done.stderr
        for secret in ("hunter2", "s3cr3t", "PASSWORD", "TOKEN"):
            assert secret not in done.stdout + done.stderr


# --- the home ---


@pytest.mark.skipif(os.name != "posix", reason="Windows has no permission bits")
def test_the_home_is_made_on_first_use_for_its_owner_only_whatever_the_umask(cli: Cli) -> None:
    cli.home = cli.home / "deeper" / "home"
    cli.env["QUEUECTL_HOME"] = str(cli.home)
    before = os.umask(0)
    try:
        cli.ok("enqueue", "true")
    finally:
        os.umask(before)

    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    assert mode(cli.home) == mode(cli.home / "logs") == 0o700
    files = [path for path in cli.home.iterdir() if path.is_file()]
    assert "queuectl.db" in {path.name for path in files}
    assert {path.name: oct(mode(path)) for path in files} == {path.name: "0o600" for path in files}


def test_queuectl_home_moves_everything_and_each_home_is_a_queue_of_its_own(cli: Cli, tmp_path: Path) -> None:
    user, elsewhere = tmp_path / "user", tmp_path / "elsewhere"
    user.mkdir()
    whose = {"USERPROFILE" if os.name == "nt" else "HOME": str(user)}
    cli.ok("enqueue", "--id", "moved", "true", **whose, QUEUECTL_HOME=str(elsewhere))
    assert list(user.iterdir()) == []
    assert {"queuectl.db", "logs"} <= {path.name for path in elsewhere.iterdir()}
    cli.ok("enqueue", "--id", "usual", "true", **whose, QUEUECTL_HOME="")
    assert {"queuectl.db", "logs"} <= {path.name for path in (user / ".queuectl").iterdir()}
    found = json.loads(cli.ok("list", "--json", **whose, QUEUECTL_HOME=""))
    assert [job["id"] for job in found] == ["usual"]


def test_it_can_be_called_as_a_script_by_a_relative_path_and_as_a_module(cli: Cli) -> None:
    # From another drive there is no relative path.
    script = os.path.relpath(SCRIPT, cli.cwd) if SCRIPT.drive == cli.cwd.drive else str(SCRIPT)
    for argv, cwd in (([script], cli.cwd), (["-m", "queuectl"], ROOT)):
        done = subprocess.run(
            [sys.executable, *argv, "enqueue", "true"], env=cli.env, cwd=cwd, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip().isdigit()
    assert [row["cwd"] for row in rows(cli, "SELECT cwd FROM jobs ORDER BY seq")] == [str(cli.cwd), str(ROOT)]


def test_what_enqueue_prints_survives_a_pipe_that_cannot_show_every_letter(cli: Cli) -> None:
    (cli.cwd / "ü").mkdir()
    cli.ok("enqueue", "echo ü ☃", cwd=cli.cwd / "ü", PYTHONIOENCODING="ascii")
    assert cli("list", PYTHONIOENCODING="ascii").returncode == 0
    assert stored(cli, "1")["command"] == "echo ü ☃"
    assert stored(cli, "1")["cwd"] == str(cli.cwd / "ü")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device on this platform")
@pytest.mark.parametrize("options", [[], ["--priority", "5"]])
def test_where_the_id_cannot_be_printed_it_is_in_the_error(cli: Cli, options: list[str]) -> None:
    with open("/dev/full", "w") as full:
        argv = cli.argv(["enqueue", *options, "true"])
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, env=cli.env, cwd=cli.cwd, text=True)
    assert done.returncode == 1
    assert done.stderr == "Error: Stored as 1, but this could not be printed: No space left on device\n"
