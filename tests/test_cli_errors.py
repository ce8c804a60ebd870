"""Bad input: one clear line on stderr, the right exit code, no traceback, and nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from .conftest import SCRIPT, Cli
from .test_config import BAD as BAD_SETTINGS

Done = subprocess.CompletedProcess
USAGE, THE_REST = 2, 1
TABLES = ("jobs", "runs", "clock", "totals", "settings", "environments", "workers")


def everything(home: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(home / "queuectl.db")) as database:
        return {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A queue that all tests here share: none of them changes it."""
    root = tmp_path_factory.mktemp("errors")
    (root / "work").mkdir()
    (root / "work" / "a-file").write_text("no directory")
    caller = Cli(root / "home", root / "work")
    caller.ok("enqueue", "--file", "-", input='{"id": "report-2027", "command": "true"}\ntrue\n')
    caller.ok("config", "set", "timeout", "9")
    yield caller
    caller("worker", "stop", "--force")


@pytest.fixture
def unchanged(queue: Cli) -> Iterator[Cli]:
    before = everything(queue.home)
    yield queue
    assert everything(queue.home) == before


def refused(done: Done[str], code: int, *words: str) -> None:
    """One line that has the words, and nothing on stdout."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.endswith("\n") and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("Error: ")
    for blemish in ("Traceback", "unforeseen", "?."):
        assert blemish not in done.stderr
    for word in words:
        assert word in done.stderr


def as_json(**fields: Any) -> str:
    return json.dumps({"command": "true", **fields})


# --- one job ---

ONE_JOB = {
    # malformed
    "an open brace": (['{"command": "true"'], "begins like JSON", "PowerShell", "--file"),
    "quotes eaten by a Windows shell": (["{id: job1, command: echo hi}"], "PowerShell", "cmd.exe", "--command"),
    "a single quote too many": (["{'command': 'it's'}"], "begins like JSON"),
    "something after the object": (['{"command": "true"} x'], "begins like JSON"),
    "braces too deep": (['{"a":' * 20_000], "begins like JSON"),
    "a list": (['["echo", "hi"]'], "not an object", '{"command": "echo hi"}'),
    "an empty list": (["[]"], "not an object"),
    # no command
    "nothing at all": ([], "No command", 'Write one, e.g. "echo hello"'),
    "an empty object": (["{}"], "No command"),
    "an object without a command": (['{"id": "x"}'], "No command"),
    "a command that is null": (['{"command": null}'], "No command"),
    "an empty command": ([""], "blank"),
    "a blank command": ([" \t\n "], "blank"),
    "a blank command in JSON": ([as_json(command="  ")], "blank"),
    "a blank named command": (["--command", " "], "blank"),
    "a command that is a number": ([as_json(command=7)], "command cannot be 7"),
    "an empty list of arguments": ([as_json(command=[])], "program and its arguments"),
    "a number among the arguments": ([as_json(command=["sleep", 7])], "program and its arguments"),
    "an empty program": (["--", "", "x"], "program and its arguments"),
    "two commands": (["--command", "true", "true"], "given twice"),
    "a command that is too long": (["--file", "-"], "longer than"),  # by stdin: no argument may be as long
    # ids
    "an empty id": (["--id", "", "true"], "id cannot be ''", "1 to 100"),
    "an empty id in JSON": ([as_json(id="")], "id cannot be ''"),
    "a blank id": (["--id", " ", "true"], "id cannot be"),
    "an over-long id": (["--id", "x" * 101, "true"], "id cannot be", "1 to 100"),
    "an id that leads out": (["--id", "../../x", "true"], "id cannot be '../../x'"),
    "an id of two dots": (["--id", "..", "true"], "id cannot be"),
    "an id with a slash": ([as_json(id="a/b")], "id cannot be 'a/b'"),
    "an id with a backslash": ([as_json(id="a\\b")], "id cannot be"),
    "an absolute id": ([as_json(id="/etc/passwd")], "id cannot be"),
    "an id with a line end": ([as_json(id="a\n")], "id cannot be"),
    "an id with a NUL": ([as_json(id="a\0")], "id cannot be"),
    "an id that is a number": ([as_json(id=7)], "id cannot be 7"),
    # numbers
    **{
        f"priority {value!r}": ([as_json(priority=value)], f"priority cannot be {value!r}", "from 1 to 10")
        for value in (0, 11, 99, -1, 1.5, "8", True, [5])
    },
    "-p 0": (["-p", "0", "true"], "priority cannot be 0", "from 1 to 10"),
    "-p 99": (["-p", "99", "true"], "priority cannot be 99"),
    "-p -1": (["-p", "-1", "true"], "priority cannot be -1"),
    "-p 1.5": (["-p", "1.5", "true"], "'1.5'", "queuectl enqueue --help"),
    "-p high": (["-p", "high", "true"], "'high'"),
    **{
        f"{name} {value!r}": ([as_json(**{name: value})], f"{name} cannot be {value!r}")
        for name in ("max_retries", "timeout")
        for value in (-1, 1.5, "3", True)
    },
    "--max-retries -1": (["--max-retries", "-1", "true"], "max_retries cannot be -1"),
    "--max-retries abc": (["--max-retries", "abc", "true"], "'abc'"),
    "--timeout -1": (["--timeout", "-1", "true"], "timeout cannot be -1"),
    "--timeout 0.5": (["--timeout", "0.5", "true"], "'0.5'"),
    "--backoff-base -1": (["--backoff-base", "-1", "true"], "backoff_base cannot be -1", "0 to 1000"),
    "--backoff-base nan": (["--backoff-base", "nan", "true"], "backoff_base cannot be nan"),
    "backoff_base '2'": ([as_json(backoff_base="2")], "backoff_base cannot be '2'"),
    "a number of five thousand digits": (['{"command": "true", "priority": ' + "9" * 5000 + "}"],),
    # keys
    "a misspelt key": ([as_json(priorty=8)], "'priorty'", "'priority'"),
    "a key with a dash": (['{"command": "true", "max-retries": 8}'], "'max-retries'", "'max_retries'"),
    "a misspelt key that is null": ([as_json(priorty=None)], "'priorty'", "'priority'"),
    "a key like no other": ([as_json(zzz=8)], "'zzz'", "Known are", "backoff_base"),
    # times
    "a bad time": (["--run-at", "tomorrow", "true"], "'tomorrow' is not a time", "2027-01-31T02:00:00"),
    "a 30th of February": ([as_json(run_at="2027-02-30T00:00")], "is not a time"),
    "a time that is a number": ([as_json(run_at=1800000000)], "run_at cannot be"),
    "a time with a NUL": ([as_json(run_at="2027-01-31T02:00\0")], "is not a time"),
    "a bad delay": (["--delay", "soon", "true"], "'soon' is not a duration", "2h30m"),
    "a negative delay": (["--delay", "-5", "true"], "'-5' is not a duration"),
    "an empty delay": (["--delay", "", "true"], "is not a duration"),
    "a delay of a thousand years": (["--delay", "365000d", "true"], "hundred years"),
    "a time and a delay": (["--delay", "5", "--run-at", "2027-01-31", "true"], "Both run_at and delay"),
    # directories and variables
    "a directory that is not there": (["--cwd", "nosuch", "true"], "No directory", "nosuch"),
    "a directory that is a file": (["--cwd", "a-file", "true"], "No directory", "a-file"),
    "a directory that is not there, in JSON": ([as_json(cwd="/no/such")], "No directory", "such"),
    "an empty directory": (["--cwd", "", "true"], "cwd cannot be ''"),
    "a variable without a value": (["--env", "A", "true"], "'A'", "KEY=VALUE"),
    "a variable without a name": (["--env", "=1", "true"], "'=1'", "KEY=VALUE"),
    "variables that are text": ([as_json(env="A=1")], "env cannot be"),
    "a variable that is a number": ([as_json(env={"A": 1})], "env cannot be"),
    # bytes
    "a NUL in the command": ([as_json(command="echo \0")], "command holds a NUL byte"),
    "a NUL in an argument": ([as_json(command=["echo", "\0"])], "command holds a NUL byte"),
    "a NUL in the directory": ([as_json(cwd="/tmp\0")], "cwd holds a NUL byte"),
    "a NUL in a variable": ([as_json(env={"A": "\0"})], "env holds a NUL byte"),
    "a lone surrogate in the command": ([as_json(command="echo \ud800")], "command is not valid UTF-8"),
    "a lone surrogate in a variable": ([as_json(env={"A": "\ud800"})], "env is not valid UTF-8"),
    "a lone surrogate in the id": ([as_json(id="\ud800")], "id cannot be"),
    "a lone surrogate as a key": ([as_json(**{"\ud800": 1})], "Unknown key"),
    "a command that is not UTF-8": (["echo \udcff"], "command is not valid UTF-8"),
    "a directory that is not UTF-8": (["--cwd", "\udcff", "true"], "cwd"),
    # options
    "an unknown option": (["--nosuch", "true"], "--nosuch", "queuectl enqueue --help"),
    "a misspelt option": (["--priorty", "8", "true"], "--priorty", "--priority"),
    "an option without its value": (["-p"], "-p"),
    # files
    "a file that is not there": (["--file", "nosuch"], "'nosuch'", "No such file"),
    "a file that is a directory": (
        ["--file", "."],
        "'.'",
        "Is a directory" if os.name == "posix" else "Permission denied",
    ),
    "a file and a command": (["--file", "a-file", "true"], "--file", "Leave out the command"),
    "a file and an id": (["--file", "a-file", "--id", "x"], "--file", "--id"),
}


@pytest.mark.parametrize("case", ONE_JOB)
def test_a_job_that_cannot_be_is_refused(unchanged: Cli, case: str) -> None:
    args, *words = ONE_JOB[case]
    refused(unchanged("enqueue", *args, input="x" * 100_001), USAGE, *words)


def test_run_refuses_what_enqueue_refuses_and_starts_no_worker(unchanged: Cli) -> None:
    refused(unchanged("run", "-p", "99", "true"), USAGE, "priority cannot be 99")
    refused(unchanged("run"), USAGE, "No command")
    for command in (["run"], ["enqueue"], ["schedule", "add", "x", "--every", "1h"]):
        refused(unchanged(*command, "ls", "-l"), USAGE, "No such option", "write -- before the command")
    assert "write -- before" not in unchanged("list", "-l").stderr
    assert "queuectl enqueue" not in unchanged("run", "").stderr


def test_an_id_that_is_taken_is_refused_however_it_is_given(unchanged: Cli) -> None:
    for args in (["--id", "report-2027", "echo other"], [as_json(id="report-2027")]):
        refused(unchanged("enqueue", *args), THE_REST, "'report-2027' exists already", "queuectl show report-2027")


# --- in bulk ---

BULK = {
    "malformed JSON": ('{"command": ', "begins like JSON"),
    "a list": ("[1, 2]", "not an object"),
    "an empty object": ("{}", "No command"),
    "a missing command": ('{"id": "x"}', "No command"),
    "a blank command": ('{"command": " "}', "blank"),
    "a bad priority": (as_json(priority=99), "priority cannot be 99"),
    "a misspelt key": (as_json(priorty=9), "'priority'"),
    "a bad time": (as_json(run_at="soon"), "'soon' is not a time"),
    "a directory that is not there": (as_json(cwd="/no/such"), "No directory"),
    "a NUL byte": ("echo \0", "NUL byte"),
    "a lone surrogate": (as_json(command="\ud800"), "not valid UTF-8"),
    "bytes that are not UTF-8": (b"echo \xff", "not UTF-8"),
}


@pytest.mark.parametrize("case", BULK)
def test_one_bad_line_of_a_file_is_named_by_its_number_and_nothing_of_the_file_is_stored(
    unchanged: Cli, tmp_path: Path, case: str
) -> None:
    line, *words = BULK[case]
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(b"true\n\n" + (line if isinstance(line, bytes) else line.encode()) + b"\ntrue\n")
    refused(unchanged("enqueue", "--file", str(path)), USAGE, "3", str(path), "Nothing was stored", *words)


def test_the_bad_line_may_be_the_first_or_the_last_or_come_from_stdin(unchanged: Cli) -> None:
    bad, good = as_json(priority=99), as_json(priority=9)
    refused(unchanged("enqueue", "--file", "-", input=f"{bad}\n{good}\n"), USAGE, "Line 1 of stdin")
    refused(unchanged("enqueue", "--file", "-", input=f"{good}\r\n{good}\r\n{bad}"), USAGE, "Line 3 of stdin")
    refused(unchanged("enqueue", "--file", "-", input="ü".encode("latin-1")), USAGE, "Line 1 of stdin", "UTF-8")
    refused(unchanged("enqueue", "--file", "-", input="x".encode("utf-16")[:-1]), USAGE, "Line 1 of stdin", "UTF-8")


def test_an_option_that_is_wrong_for_all_lines_is_refused(unchanged: Cli) -> None:
    refused(unchanged("enqueue", "--file", "-", "-p", "99", input="true\n"), USAGE, "priority cannot be 99")


def test_an_id_twice_in_one_file_or_taken_before_is_refused_with_its_line(unchanged: Cli) -> None:
    twice = 'true\n{"id": "x", "command": "true"}\n{"id": "x", "command": "true"}\ntrue\n'
    refused(unchanged("enqueue", "--file", "-", input=twice), THE_REST, "'x'", "ine 3 of stdin")
    taken = 'true\n{"id": "report-2027", "command": "true"}\n'
    refused(unchanged("enqueue", "--file", "-", input=taken), THE_REST, "'report-2027'", "ine 2 of stdin")


# --- other commands ---

COMMANDS = {
    "an unknown command": (USAGE, ["nosuch"], "'nosuch'", "queuectl --help"),
    "a misspelt command": (USAGE, ["enqeue", "true"], "'enqeue'", "'enqueue'"),
    "an unknown subcommand": (USAGE, ["worker", "nosuch"], "nosuch", "queuectl worker --help"),
    "an unknown option": (USAGE, ["status", "--nosuch"], "--nosuch", "queuectl status --help"),
    "an unknown option before the command": (USAGE, ["--nosuch", "status"], "--nosuch"),
    "an argument too many": (USAGE, ["status", "x"], "queuectl status --help"),
    "an argument too few": (USAGE, ["show"], "queuectl show --help"),
    "an unknown state": (USAGE, ["list", "--state", "ready"], "'ready'", "pending", "cancelled"),
    "a limit of 0": (USAGE, ["list", "--limit", "0"], "--limit"),
    "a limit that is no number": (USAGE, ["list", "--limit", "all"], "--limit"),
    "fewer than no events": (USAGE, ["metrics", "--recent", "-1"], "--recent"),
    "no workers": (USAGE, ["worker", "start", "--count", "0"], "--count"),
    "less than no workers": (USAGE, ["worker", "start", "--count", "-1"], "--count"),
    "workers that are no number": (USAGE, ["worker", "start", "--count", "many"], "--count"),
    "less than no time to stop": (USAGE, ["worker", "stop", "--timeout", "-1"], "--timeout"),
    **{
        f"{' '.join(command)} an unknown id": (THE_REST, [*command, "reprot-2027"], "'reprot-2027'", "'report-2027'")
        for command in (["show"], ["logs"], ["logs", "-f"], ["cancel"], ["dlq", "retry"])
    },
    "show an id like no other": (THE_REST, ["show", "zzz"], "No job 'zzz'", "queuectl list"),
    "show an empty id": (THE_REST, ["show", ""], "No job ''"),
    **{
        f"{' '.join(command)} an id that is not UTF-8": (THE_REST, [*command, "\udcff"], "No job '\\udcff'")
        for command in (["show"], ["logs"], ["cancel"], ["dlq", "retry"])
    },
    "cancel a job and one that is not there": (THE_REST, ["cancel", "report-2027", "nosuch"], "No job 'nosuch'"),
    "cancel nothing": (USAGE, ["cancel"], "Name jobs"),
    "retry a job that is not dead": (THE_REST, ["dlq", "retry", "2"], "pending, not dead"),
    "retry nothing": (USAGE, ["dlq", "retry"], "queuectl dlq retry --help"),
    "retry some and all": (USAGE, ["dlq", "retry", "--all", "report-2027"], "--all"),
    "an unknown setting": (USAGE, ["config", "set", "max-retrys", "3"], "'max-retrys'", "max_retries"),
    "a setting like no other": (USAGE, ["config", "get", "colour"], "'colour'", "queuectl config list"),
    "unset an unknown setting": (USAGE, ["config", "unset", "colour"], "'colour'"),
    "a setting without a value": (USAGE, ["config", "set", "priority"], "VALUE"),
    "max-retries abc": (USAGE, ["config", "set", "max-retries", "abc"], "max_retries cannot be 'abc'", "from 0"),
    "max-retries -1": (USAGE, ["config", "set", "max-retries", "-1"], "max_retries cannot be '-1'"),
    **{
        f"list by a {name} that is not UTF-8": (USAGE, ["list", f"--{name}", "\udcff"], f"--{name} is not valid UTF-8")
        for name in ("label", "queue", "match")
    },
    "a shell that is not UTF-8": (USAGE, ["config", "set", "shell", "\udcff"], "shell cannot be"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_that_cannot_be_done_is_refused(unchanged: Cli, case: str) -> None:
    code, args, *words = COMMANDS[case]
    refused(unchanged(*args), code, *words)


# test_config.py has every bad value; one of each setting is enough to see that none gets past the command.
@pytest.mark.parametrize(
    ("name", "value"), dict(reversed([pair for pair in BAD_SETTINGS if "\0" not in pair[1]])).items()
)
def test_a_bad_value_for_a_setting_is_refused_with_what_it_takes(unchanged: Cli, name: str, value: str) -> None:
    refused(unchanged("config", "set", name.replace("_", "-"), value), USAGE, f"{name} cannot be {value!r}", "It takes")


@pytest.mark.parametrize("group", [[], ["worker"], ["dlq"], ["config"]], ids=" ".join)
def test_a_group_without_a_command_shows_its_help_as_it_is_and_not_as_an_error(
    unchanged: Cli, group: list[str]
) -> None:
    done = unchanged(*group)
    shown = done.stdout + done.stderr
    assert "Error" not in shown
    assert shown.startswith("Usage: queuectl") and "\nCommands:\n" in shown
    assert done.returncode in (0, USAGE)


def test_with_debug_the_traceback_is_shown(unchanged: Cli) -> None:
    done = unchanged("--debug", "show", "nosuch")
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "JobNotFound" in done.stderr


# --- the streams ---


def shell(cli: Cli, line: str, *before: str) -> Done[str]:
    """A shell's line, in which q is queuectl."""
    line = f'q() {{ "{sys.executable}" "{SCRIPT}" "$@"; }}; {line}'
    return subprocess.run([*before, "sh", "-c", line], env=cli.env, cwd=cli.cwd, capture_output=True, text=True)


@pytest.mark.skipif(os.name != "posix" or not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_an_error(unchanged: Cli) -> None:
    refused(shell(unchanged, "q list > /dev/full"), THE_REST, "No space left")


@pytest.mark.skipif(os.name != "posix", reason="the line is for a POSIX shell")
def test_a_reader_that_has_heard_enough_is_no_error_worth_a_word(unchanged: Cli) -> None:
    done = shell(unchanged, "{ q config list --json; } | true")
    assert done.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="a stream cannot be closed like this on Windows")
def test_closed_streams_give_no_traceback(unchanged: Cli) -> None:
    done = shell(unchanged, "q list >&-")
    assert "Traceback" not in done.stderr and "unforeseen" not in done.stderr
    refused(shell(unchanged, "q enqueue --file - <&-"), USAGE, "stdin")


# --- the directory ---


@pytest.mark.skipif(os.name != "posix", reason="Windows does not let go of a directory in use")
def test_a_current_directory_that_is_gone_is_an_error(unchanged: Cli) -> None:
    line = "mkdir gone && cd gone && rmdir ../gone && q enqueue true"
    refused(shell(unchanged, line), THE_REST, "current directory is gone")


@pytest.mark.skipif(sys.platform != "linux", reason="only here a directory's name can be any bytes")
def test_a_current_directory_whose_name_is_not_utf_8_is_an_error_that_says_so(unchanged: Cli) -> None:
    odd = unchanged.cwd / "\udcff"
    odd.mkdir()
    done = unchanged("enqueue", "true", cwd=odd)
    assert done.returncode in (USAGE, THE_REST)
    refused(done, done.returncode, "UTF-8")


# --- the home and the database ---


def test_a_home_that_cannot_be_made_is_an_error_with_what_to_do(cli: Cli) -> None:
    (cli.cwd / "a-file").write_text("no directory")
    for home in (cli.cwd / "a-file", cli.cwd / "a-file" / "home"):
        for args in (["enqueue", "true"], ["status"], ["worker", "start"], ["config", "set", "priority", "3"]):
            done = cli(*args, QUEUECTL_HOME=str(home))
            refused(done, THE_REST, str(home), "Set QUEUECTL_HOME")
    assert (cli.cwd / "a-file").read_text() == "no directory"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_may_not_be_written_to_is_an_error(cli: Cli) -> None:
    cli.home.mkdir(mode=0o500)
    refused(cli("enqueue", "true"), THE_REST, str(cli.home))
    cli.home.chmod(0o700)


EVERY_COMMAND = [
    ["enqueue", "true"],
    ["status", "--json"],
    ["list"],
    ["show", "1"],
    ["worker", "start"],
    ["worker", "stop"],
    ["config", "list"],
    ["dlq", "purge", "--yes"],
]


def test_a_database_of_a_newer_version_is_left_alone(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    path = cli.home / "queuectl.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    for args in EVERY_COMMAND:
        refused(cli(*args), THE_REST, str(path), "version 99", "install it again: pip install .")
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello", b"Dear diary, " * 1000], ids=["short", "long"])
def test_a_file_that_is_no_database_is_left_alone(cli: Cli, content: bytes) -> None:
    cli.home.mkdir()
    path = cli.home / "queuectl.db"
    path.write_bytes(content)
    for args in EVERY_COMMAND if len(content) > 100 else EVERY_COMMAND[:1]:
        refused(cli(*args), THE_REST, str(path), "not a database", "QUEUECTL_HOME")
    assert path.read_bytes() == content


def test_a_directory_in_the_place_of_the_database_is_an_error_with_what_to_do(cli: Cli) -> None:
    (cli.home / "queuectl.db").mkdir(parents=True)
    refused(cli("enqueue", "true"), THE_REST, str(cli.home / "queuectl.db"), "cannot be opened")


def test_a_damaged_database_is_an_error_with_what_to_do(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    path = cli.home / "queuectl.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    refused(cli("enqueue", "true"), THE_REST, str(path), "damaged", "backup")


def with_a_disk_of_its_own(cli: Cli, script: str) -> Done[str]:
    """A shell's script in a mount namespace of its own, in which it may mount, and nobody else sees it."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let a test mount a disk of its own")
    cli.home.mkdir()
    return shell(cli, f'set -e; H="{cli.home}"; {script}', "unshare", "-rm")


def test_on_a_full_disk_nothing_is_stored_and_what_was_there_can_still_be_read(cli: Cli) -> None:
    done = with_a_disk_of_its_own(
        cli,
        """
        mount -t tmpfs -o size=512k none "$H"
        q enqueue --id first true 2>/dev/null
        cat /dev/zero > "$H/filling" 2>/dev/null || true
        q enqueue --id second true || echo "exit code $?"
        printf 'true\\ntrue\\n' | q enqueue --file - || echo "exit code $?"
        q list --json
        rm "$H/filling"
        q enqueue --id third true 2>/dev/null
        """,
    )
    assert (
        done.stderr.splitlines()
        == [f"Error: {cli.home}/queuectl.db: the disk is full, nothing was stored. Free some space and try again"] * 2
    )
    first, code, again, *listed, third = done.stdout.splitlines()
    assert (first, code, again, third) == ("first", "exit code 1", "exit code 1", "third")
    assert [job["id"] for job in json.loads("\n".join(listed))] == ["first"]


def test_a_disk_too_small_for_the_first_job_is_an_error(cli: Cli) -> None:
    done = with_a_disk_of_its_own(cli, 'mount -t tmpfs -o size=64k none "$H"; q enqueue true')
    refused(done, THE_REST, "disk", "full")


def test_on_a_disk_that_may_only_be_read_one_can_look_and_not_enqueue(cli: Cli) -> None:
    done = with_a_disk_of_its_own(
        cli,
        """
        mount -t tmpfs -o size=1m none "$H"
        q enqueue --id first true 2>/dev/null
        mount -o remount,ro none "$H"
        q enqueue --id second true || echo "exit code $?"
        """,
    )
    assert done.stdout.splitlines() == ["first", "exit code 1"]
    refused(Done([], 1, "", done.stderr), THE_REST, str(cli.home), "may not be written to")


def test_a_home_on_a_disk_that_may_only_be_read_is_an_error(cli: Cli) -> None:
    done = with_a_disk_of_its_own(cli, 'mount -t tmpfs -o size=1m,ro none "$H"; q enqueue true')
    refused(done, THE_REST, str(cli.home), "Read-only file system", "QUEUECTL_HOME")


@pytest.mark.skipif(sys.platform != "linux", reason="the limit works differently elsewhere")
def test_a_write_that_fails_for_another_reason_stores_nothing(cli: Cli) -> None:
    import resource

    cli.ok("enqueue", "--id", "first", "true")
    with closing(sqlite3.connect(cli.home / "queuectl.db")) as held:  # so that nobody is the last, who empties the log
        held.execute("SELECT * FROM jobs").fetchall()
        before = everything(cli.home)
        size = max(path.stat().st_size for path in cli.home.iterdir() if path.is_file())
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "enqueue", "true"],
            env=cli.env,
            cwd=cli.cwd,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )
    refused(done, THE_REST, str(cli.home / "queuectl.db"), "disk")
    assert everything(cli.home) == before
