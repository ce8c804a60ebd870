"""`run`: that a worker is there for the job, and what it says while the job waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from act import act
from conftest import SCRIPT, Cli, eventually
from processes import open_queue, state, workers

from queuectl.housekeeping import identity
from queuectl.queue import Queue
from queuectl.worker_manager import WorkerManager


class Running:
    """`queuectl run` in the background."""

    def __init__(self, cli: Cli, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, "run", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=cli.env,
            cwd=cli.cwd,
        )

    def hear(self, part: str) -> None:
        """Read what it tells until it tells this."""
        assert self.process.stderr
        for line in self.process.stderr:
            if part in line:
                return
        raise AssertionError(f"it never told {part!r}")

    def end(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out


def ask_to_stop(cli: Cli) -> None:
    """As `worker stop` does, which would wait for it."""
    storage = open_queue(cli)
    for worker in storage.workers():
        storage.ask_to_stop(worker.name, 300)
    storage.close()


@pytest.fixture
def busy(cli: Cli) -> Iterator[Cli]:
    """A queue with one worker, which runs job 1 until the file `go` is there."""
    cli.ok("worker", "start")
    cli.ok("enqueue", act("wait go"))
    eventually(lambda: state(cli, "1") == "processing")
    yield cli
    (cli.cwd / "go").touch()


def test_a_worker_that_was_told_to_stop_is_none(busy: Cli) -> None:
    ask_to_stop(busy)
    done = busy("enqueue", act("say hello"))
    assert done.stderr.endswith("Every worker was asked to stop. Start one with: queuectl worker start\n")
    assert busy.ok("run", act("say hello")) == "hello\n"
    assert len(workers(busy)) == 2


def test_who_waits_behind_a_busy_worker_is_told_and_so_when_that_is_stopped(busy: Cli) -> None:
    run = Running(busy, act("say hello"))
    run.hear("Job 2 waits. The worker is busy with 1.")
    ask_to_stop(busy)
    run.hear("Job 2 waits. Every worker was asked to stop: it cannot start. Start one with: queuectl worker start")
    (busy.cwd / "go").touch()
    eventually(lambda: not workers(busy))
    busy.ok("worker", "start")
    assert run.end() == (0, "hello\n")


@pytest.mark.parametrize("grace, started", [(None, 1), (0.0, 0)])
def test_a_worker_that_died_is_replaced_although_one_of_another_queue_lives_and_one_that_was_stopped_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace: float | None, started: int
) -> None:
    queue = Queue(str(tmp_path))
    mine = identity("w-gpu", queue.storage)
    queue.storage.add_worker(mine._replace(queues="gpu"))
    queue.storage.add_worker(mine._replace(name="w-lost", start_time="long ago"))
    if grace is not None:
        queue.storage.ask_to_stop("w-lost", grace)
    manager = WorkerManager(queue.home, queue.storage)
    found: list[int] = []
    monkeypatch.setattr(manager, "start", found.append)
    assert manager.replace_lost("gpu") and not found
    assert manager.replace_lost("default") is bool(started)
    assert found == [1] * started
    queue.close()


def test_a_paused_queue_is_named(cli: Cli) -> None:
    cli.ok("queue", "pause", "default")
    run = Running(cli, act("say hello"))
    run.hear("Job 1 waits. Its queue default is paused. To let it go on: queuectl queue resume default")
    cli.ok("queue", "resume", "default")
    assert run.end() == (0, "hello\n")


def test_a_job_whose_worker_cannot_start_is_named(cli: Cli) -> None:
    cli.ok("status")
    (cli.home / "logs").mkdir(exist_ok=True)
    (cli.cwd / "argparse.py").write_text("raise SystemExit('no worker today')\n")
    done = cli("run", act("say hello"), PYTHONPATH=str(cli.cwd))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The worker did not come up: no worker today. Its log: ")
    assert done.stderr.endswith(". Job 1 is stored, and waits for a worker\n")
    assert state(cli, "1") == "pending"


@pytest.mark.skipif(os.name == "nt", reason="on Windows no signal reaches a worker")
def test_a_worker_that_a_signal_told_to_stop_is_shown_so(busy: Cli) -> None:
    [worker] = workers(busy)
    os.kill(worker.pid, signal.SIGTERM)
    eventually(lambda: [one.stop_grace for one in workers(busy)] == [30])
    assert " stopping " in busy.ok("worker", "list")


def test_a_job_that_is_typed_as_json_is_read_as_enqueue_reads_it(cli: Cli) -> None:
    done = cli("run", "--label", "mine", json.dumps({"id": "j", "command": act("say hello", "exit 3")}))
    assert (done.returncode, done.stdout) == (3, "hello\n")
    found = json.loads(cli.ok("show", "j", "--json"))
    assert (found["label"], found["max_retries"]) == ("mine", 0)
