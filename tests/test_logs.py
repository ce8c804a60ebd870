"""`logs`: every try's output apart, live while it runs, from the start or the last lines."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queuectl.follow import CHUNK, Tail, start_of_last
from queuectl.housekeeping import identity
from queuectl.storage import Worker

from .act import act
from .conftest import SCRIPT, Cli, eventually, text
from .processes import open_queue, state

# Prints another thing at each try, and succeeds at the second.
SHAKY = act("shaky tries 2")
LINES = [step for number in (1, 2, 3) for step in (f"say line {number}", f"complain warning {number}")]
STEPS = act(*LINES, "wait go", "say end")


def run(cli: Cli, command: str, *options: str) -> str:
    job_id = cli.ok("enqueue", *options, command).strip()
    cli.ok("worker", "start")
    eventually(lambda: state(cli, job_id) in ("completed", "dead"))
    return job_id


@contextmanager
def watching(cli: Cli, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.env,
        cwd=cli.cwd,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def running(cli: Cli) -> Iterator[str]:
    """A job that has printed three lines and waits for the file `go`."""
    cli.ok("worker", "start")
    job_id = cli.ok("enqueue", STEPS).strip()
    eventually(lambda: "line 3" in cli.ok("logs", job_id))
    yield job_id


def test_every_try_is_kept_apart_and_the_newest_is_shown(cli: Cli) -> None:
    job_id = run(cli, SHAKY, "--backoff-base", "0")
    for arguments, out, err in (
        ([], "out 2\n", "err 2\n"),
        (["--attempt", "1"], "out 1\n", "err 1\n"),
        (["--attempt", "2"], "out 2\n", "err 2\n"),
        (["--stderr"], "err 2\n", ""),
        (["--stderr", "--attempt", "1"], "err 1\n", ""),
        (["-f"], "out 1\nout 2\n", "err 1\nerr 2\n"),
        (["-f", "--attempt", "2"], "out 2\n", "err 2\n"),
    ):
        done = cli("logs", *arguments, job_id)
        assert (done.stdout, done.stderr, done.returncode) == (out, err, 0), arguments


def test_tries_are_counted_on_after_a_retry_by_hand_and_following_begins_with_those_after_it(cli: Cli) -> None:
    job_id = run(cli, act("number tries", "exit 1"), "--max-retries", "1", "--backoff-base", "0")
    cli.ok("dlq", "retry", job_id)
    eventually(lambda: state(cli, job_id) == "dead")
    for attempt in "1234":
        assert cli.ok("logs", "--attempt", attempt, job_id) == f"try {attempt}\n"
    shown = cli.ok("show", job_id)
    assert [line.split()[0] for line in shown.partition("try  ")[2].splitlines()[2:6]] == ["1", "2", "3", "4"]
    assert "2 of 2" in shown
    assert cli("logs", "-f", job_id).stdout == "try 3\ntry 4\n"
    assert cli("logs", "-f", "--attempt", "2", job_id).stdout == "try 2\ntry 3\ntry 4\n"


def test_who_follows_with_tail_after_a_retry_sees_nothing_from_before_it(cli: Cli) -> None:
    job_id = run(cli, act("number tries", "exit 1"), "--max-retries", "0")
    cli.ok("worker", "stop")
    cli.ok("retry", job_id)
    with watching(cli, "logs", "-f", "--tail", "9", job_id) as process:
        assert process.stderr and b"No worker is running" in process.stderr.readline()
        cli.ok("worker", "start")
        assert process.stdout and process.stdout.read() == b"try 2\n"


@pytest.fixture
def lost(cli: Cli) -> str:
    """A worker that died with job `held` in hand."""
    cli.ok("enqueue", "--id", "held", act("wait never"))
    storage = open_queue(cli)
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    storage.add_worker(identity("w-lost", storage)._replace(pid=died.pid, start_time="long ago"))
    assert storage.claim("w-lost")
    storage.close()
    return "w-lost"


def first_word(cli: Cli, job_id: str) -> str:
    """What one who follows a job is told first."""
    with watching(cli, "logs", "-f", job_id) as process:
        assert process.stderr
        return text(process.stderr.readline()).strip()


def test_who_follows_is_told_of_what_keeps_the_job_from_going_on(cli: Cli, lost: str) -> None:
    assert first_word(cli, "held") == (
        "Job held is in the hands of worker w-lost, which is lost: start another: queuectl worker start"
    )
    cli.ok("enqueue", "--id", "next", "--after", "held", "exit 0")
    assert first_word(cli, "next") == "Job next waits for held."
    cli.ok("enqueue", "--id", "night", "--delay", "1d", "exit 0")
    assert first_word(cli, "night").startswith("Job night waits until ")
    cli.ok("enqueue", "--id", "plain", "exit 0")
    assert first_word(cli, "plain") == "No worker is running. Start one with: queuectl worker start"
    cli.ok("queue", "pause", "default")
    assert first_word(cli, "plain").startswith("Queue default is paused.")


def test_a_job_whose_worker_is_lost_is_cancelled_at_once(cli: Cli, lost: str) -> None:
    assert "Worker w-lost started it at " in cli.ok("why", "held")
    assert ", and is lost.\nIt goes back in line when a worker is started: queuectl worker start" in cli.ok(
        "why", "held"
    )
    assert cli.ok("cancel", "held") == "Job held is cancelled.\n"
    assert cli.ok("delete", "held") == "Job held was deleted.\n"


def test_a_try_that_was_not_made_is_refused(cli: Cli) -> None:
    job_id = run(cli, "exit 0")
    done = cli("logs", "--attempt", "7", job_id)
    assert done.returncode == 1 and "has no try 7" in done.stderr and f"queuectl show {job_id}" in done.stderr


def test_a_job_that_has_not_run_says_so(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    done = cli("logs", "last")
    assert (done.returncode, done.stdout) == (0, "") and "has not run yet" in done.stderr


def test_what_a_job_prints_on_another_machine_cannot_be_seen_from_here(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "away", "true")
    storage = open_queue(cli)
    now = storage.clock.now()
    storage.add_worker(Worker("w-far", 1, "then", "its boot", "its space", "faraway", now, now, 0, None))
    assert storage.claim("w-far")
    storage.close()
    done = cli("logs", "away")
    assert (done.returncode, done.stdout) == (0, "") and "Job away runs on faraway" in done.stderr


def test_a_running_job_shows_what_it_has_printed_by_now_and_does_not_wait(cli: Cli) -> None:
    with running(cli) as job_id:
        done = cli("logs", job_id)
        assert done.stdout == "line 1\nline 2\nline 3\n" and done.stderr == "warning 1\nwarning 2\nwarning 3\n"
        assert cli.ok("logs", "--tail", "1", job_id) == "line 3\n"
        assert cli.ok("logs", "--tail", "0", "--stderr", job_id) == ""
        assert state(cli, job_id) == "processing"


def test_following_with_tail_shows_the_last_lines_and_then_what_comes(cli: Cli) -> None:
    with running(cli) as job_id, watching(cli, "logs", "-f", "--tail", "2", job_id) as process:
        assert process.stdout
        assert [process.stdout.readline() for _ in range(2)] == [b"line 2\n", b"line 3\n"]
        (cli.cwd / "go").touch()
        assert process.stdout.read() == b"end\n"
        assert process.wait(20) == 0


def test_following_ends_with_the_job_and_exits_with_its_exit_code(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "waits", "--max-retries", "0", act("say hello", "exit 7"))
    with watching(cli, "logs", "--follow", "waits") as process:
        cli.ok("worker", "start")  # only now can it run
        assert process.stdout and process.stdout.read() == b"hello\n"
        assert process.wait(20) == 7


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send to one process")
def test_interrupting_leaves_the_job_running(cli: Cli) -> None:
    with running(cli) as job_id, watching(cli, "logs", "-f", job_id) as process:
        assert process.stdout and process.stdout.readline() == b"line 1\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert state(cli, job_id) == "processing"


def test_the_whole_is_shown_where_the_row_keeps_only_the_end(cli: Cli) -> None:
    cli.ok("config", "set", "max-output", "100")
    job_id = run(cli, act("count 1000"))
    assert cli.ok("logs", job_id).split() == [str(number) for number in range(1, 1001)]
    assert cli.ok("logs", "--tail", "3", job_id).split() == ["998", "999", "1000"]
    for path in (cli.home / "logs").glob("job-*"):
        path.unlink()
    assert "bytes cut" in cli.ok("logs", job_id)


@pytest.mark.parametrize(
    ("data", "lines", "shown"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\n", 1, b"a\n"),
        (b"a\n\n", 1, b"\n"),
        (b"a\nb", 9, b"a\nb"),
        (b"a\nb", 0, b""),
        (b"", 3, b""),
        (b"x" * CHUNK + b"\n" + b"y" * CHUNK + b"\n", 1, b"y" * CHUNK + b"\n"),
    ],
)
def test_the_last_lines_are_found_from_the_end(data: bytes, lines: int, shown: bytes) -> None:
    assert data[start_of_last(io.BytesIO(data), lines) :] == shown


def test_what_was_skipped_is_not_shown_when_the_rest_comes_from_the_row(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.write_bytes("früh\nspät\n".encode())
    stream = io.BytesIO()
    tail = Tail(stream, 1)
    tail.show(tail.read(str(path)))
    tail.show_rest("nowhere", "früh\nspät\nends\n")
    assert stream.getvalue().decode() == "spät\nends\n"


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\xff\xfe", b"a\0b"])
def test_bytes_that_are_no_text_come_out_as_they_were_also_after_the_run(cli: Cli, data: bytes) -> None:
    cli.ok("run", act(f"bytes {data.hex()}"))
    for command in (["logs", "1"], ["logs", "-f", "1"]):
        done = subprocess.run(cli.argv(command), env=cli.env, cwd=cli.cwd, capture_output=True)
        assert done.stdout == data


def test_no_file_is_kept_of_a_run_that_printed_text(cli: Cli) -> None:
    cli.ok("run", act("say \ufffd"))
    assert not list((cli.home / "logs").glob("job-*"))
