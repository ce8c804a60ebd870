"""`wait`: until jobs have ended, woken by the change itself, with an exit code that says how they did."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queuectl.cli.wait import line, summary
from queuectl.errors import InvalidInput, JobNotFound, WaitedTooLong
from queuectl.job import NewJob, Outcome, State
from queuectl.queue import Queue
from queuectl.storage import Storage
from queuectl.waiting import LOOKED_AT, ForAll, ForJobs, Progress, wait_until_over

from .act import act
from .conftest import SCRIPT, Cli
from .processes import state
from .terminal import terminal


def add(storage: Storage, *ids: str) -> None:
    storage.add([NewJob(job_id, "true", None, 5, 0, 0, 2, None, "/", None) for job_id in ids])


def end(storage: Storage, exit_code: int = 0) -> None:
    job = storage.claim("w")
    assert job
    storage.finish(job, Outcome(exit_code, 1.0))


@contextmanager
def waiting(cli: Cli, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "wait", *args], stderr=subprocess.PIPE, text=True, env=cli.env, cwd=cli.cwd
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# --- what the storage says ---


def test_the_jobs_that_are_waited_for_are_counted_as_they_end(storage: Storage) -> None:
    add(storage, "a", "b", "c")
    wanted = ForJobs(storage, [storage.glance(job_id) for job_id in ("a", "b")])
    assert not wanted.is_over() and wanted.progress() == Progress(0, 0, 0, 0, 2)
    end(storage)
    assert not wanted.is_over() and wanted.progress() == Progress(1, 0, 0, 0, 1)
    end(storage, 3)
    assert wanted.is_over() and wanted.progress() == Progress(1, 1, 0, 0, 0)
    assert [job.id for job in wanted.ended] == ["a", "b"] and not wanted.progress().all_completed


def test_all_counts_only_what_ends_from_now_on_and_is_over_when_nothing_is_left(storage: Storage) -> None:
    add(storage, "before")
    end(storage, 1)
    wanted = ForAll(storage)
    assert wanted.is_over() and wanted.progress().all_completed, "who died before is not waited for"
    add(storage, "a", "b")
    assert wanted.progress() == Progress(0, 0, 0, 0, 2)
    assert storage.claim("w")
    assert wanted.progress() == Progress(0, 0, 0, 1, 1)
    storage.cancel(storage.glance("b"), "no more")
    assert not wanted.is_over() and wanted.progress() == Progress(0, 0, 1, 1, 0)


def test_all_reads_no_job_however_many_there_are(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    add(storage, *map(str, range(50)))
    asked: list[str] = []
    run = storage.run
    monkeypatch.setattr(storage, "run", lambda query, **values: asked.append(query) or run(query, **values))
    ForAll(storage).is_over()
    assert set(asked) == {"totals"}


def test_of_many_jobs_a_few_are_looked_at_each_time_and_each_of_them_in_turn(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(storage, *map(str, range(50)))
    wanted = ForJobs(storage, [storage.glance(str(number)) for number in range(50)])
    asked: list[int] = []
    run = storage.run
    monkeypatch.setattr(storage, "run", lambda query, **values: asked.append(values["seq"]) or run(query, **values))
    assert not wanted.is_over() and len(asked) == LOOKED_AT
    assert not wanted.is_over() and not wanted.is_over() and len(set(asked)) == 50


def test_a_job_that_is_purged_after_its_end_counts_as_it_ended_and_one_that_is_deleted_before_as_deleted(
    storage: Storage,
) -> None:
    add(storage, "a", "b", "c")
    wanted = ForJobs(storage, [storage.glance(job_id) for job_id in "cab"])
    end(storage)
    assert not wanted.is_over()
    storage.delete([storage.glance("a")])
    assert not wanted.is_over() and wanted.progress() == Progress(1, 0, 0, 0, 2)
    end(storage)
    storage.delete([storage.glance("c")])
    add(storage, "c")
    assert wanted.is_over() and wanted.progress() == Progress(2, 0, 0, 0, 0, 1), "the new c is another job"
    assert not wanted.progress().all_completed


def test_a_wait_that_is_over_in_time_returns_and_another_raises(connect: Callable[[], Storage]) -> None:
    storage, other = connect(), connect()
    add(storage, "a")
    wanted = ForJobs(storage, [storage.glance("a")])
    with pytest.raises(WaitedTooLong):
        wait_until_over(storage, wanted, 0)
    wait_until_over(storage, wanted, 60, lambda: end(other))
    assert wanted.progress().all_completed


def test_a_job_cannot_wait_for_itself_and_not_for_all_with_itself(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(storage, "self")
    job = storage.claim("w")
    assert job
    monkeypatch.setenv("QUEUECTL_RUN", f"{storage.queue_id()}.{job.seq}.{job.lease}")
    with pytest.raises(InvalidInput, match="itself"):
        ForJobs(storage, [job])
    assert ForAll(storage).is_over()
    monkeypatch.setenv("QUEUECTL_RUN", f"other.{job.seq}.{job.lease}")
    assert not ForAll(storage).is_over(), "a job of another queue is not this one's"


# --- what is shown ---


def test_the_bar_shows_counts_and_an_estimate() -> None:
    assert line(Progress(1, 0, 0, 1, 1), 12.4) == (
        "[########----------------] 1 of 3 ended, 1 running, 1 waiting, ~12 s left"
    )
    assert line(Progress(1, 1, 0, 0, 2), None) == "[############------------] 2 of 4 ended, 1 dead, 2 waiting"
    assert line(Progress(0, 0, 0, 0, 1), 200) == "[------------------------] 0 of 1 ended, 1 waiting, ~3 min 20 s left"


def test_the_summary_leaves_out_what_there_is_none_of() -> None:
    assert summary(Progress(2, 1, 0, 0, 0)) == "2 completed, 1 dead."
    assert summary(Progress(0, 0, 0, 0, 0)) == "Nothing to wait for."


# --- end to end ---


def test_wait_exits_0_when_all_completed_and_1_when_one_is_dead(cli: Cli) -> None:
    cli.ok("worker", "start", "--count", "2")
    cli.ok("enqueue", "--id", "good", "exit 0")
    cli.ok("enqueue", "--id", "bad", "--max-retries", "0", "exit 3")
    done = cli("wait", "good", "good")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "1 completed.\n")
    done = cli("wait", "good", "bad")
    assert done.returncode == 1 and "Job bad is dead: exit code 3." in done.stderr
    assert "1 completed, 1 dead." in done.stderr


def test_wait_says_which_job_was_deleted_before_its_end_and_exits_1(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "exit 0")
    with waiting(cli, "a") as process:
        assert process.stderr and "No worker is running" in process.stderr.readline()
        cli.ok("delete", "a")
        assert process.wait(30) == 1
        assert process.stderr.read() == (
            "Job a was deleted before it was seen to end: its result is unknown.\n1 deleted.\n"
        )


def test_the_python_api_returns_what_was_purged_as_it_ended_and_refuses_what_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Queue(str(tmp_path / "home")) as queue:
        add(queue.storage, "a", "b")
        happens = [
            lambda: end(queue.storage),
            lambda: queue.delete("a"),
            lambda: end(queue.storage),
        ]
        monkeypatch.setattr(queue.storage, "wait", lambda seconds: happens.pop(0)() if seconds else None)
        assert [(job.id, job.state) for job in queue.wait(["a", "b"])] == [
            ("a", State.COMPLETED),
            ("b", State.COMPLETED),
        ]
        happens[:] = [lambda: queue.delete("c")]
        add(queue.storage, "c")
        with pytest.raises(JobNotFound, match="'c'"):
            queue.wait("c")


def test_wait_all_ends_when_the_last_job_does(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "slow", act("wait go"))
    with waiting(cli, "--all") as process:
        assert process.stderr and "No worker is running" in process.stderr.readline()
        cli.ok("worker", "start")
        cli.ok("enqueue", "--id", "later", "--max-retries", "0", "exit 1")
        assert process.poll() is None
        (cli.cwd / "go").touch()
        assert process.wait(30) == 1
        assert process.stderr.read() == "1 completed, 1 dead.\n"
    assert state(cli, "later") == "dead"


def test_wait_gives_up_with_124_and_says_that_no_worker_is_running(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    done = cli("wait", "last", "--timeout", "0.1")
    assert done.returncode == 124
    assert "No worker is running" in done.stderr and "queuectl worker start" in done.stderr
    assert "within 0.1 s" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send to one process")
def test_interrupting_a_wait_exits_with_130(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    with waiting(cli, "--all") as process:
        assert process.stderr and "No worker is running" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.parametrize("args", [[], ["--all", "1"]])
def test_wait_says_what_to_write_when_it_is_not_clear_what_for(cli: Cli, args: list[str]) -> None:
    done = cli("wait", *args)
    assert done.returncode == 2 and "--all" in done.stderr and "queuectl list" in done.stderr


def test_wait_for_a_job_that_is_not_there_is_an_error(cli: Cli) -> None:
    assert cli("wait", "nobody").returncode == 1


def test_on_a_terminal_a_bar_is_drawn_and_taken_away(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("wait go"))
    with terminal(cli, "wait", "--all") as screen:
        screen.until("] 0 of 1 ended, 1 running")
        (cli.cwd / "go").touch()
        assert screen.to_the_end() == 0
        assert screen.shown.split("\r", 1)[-1].endswith(" \r1 completed.\r\n")
