"""One command after the other: where its output goes, and what is no fault of its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from act import act
from test_order import new_job

from queuectl.clock import Clock
from queuectl.home import Home
from queuectl.job import Outcome, State
from queuectl.runner import Runner
from queuectl.storage.sqlite import SQLiteStorage


class FakeGuardian:
    """In a test's own process nothing is to be guarded: a real one would be a fork of pytest."""

    def watch(self, mark: str) -> None:
        pass

    def follow(self, command: object) -> None:
        pass

    def release(self) -> None:
        pass

    def is_overdue(self) -> bool:
        return False


class Bench:
    """A runner with a queue of its own, from which it takes the next job."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Home(str(root))
        self.runner = Runner(self.home, "w", FakeGuardian())  # type: ignore[arg-type]
        self.storage = SQLiteStorage(self.home.database, Clock(), "boot")

    def run(self, command: str) -> Outcome:
        self.storage.add([new_job(command=command, cwd=str(self.root))])
        job = self.storage.claim("w")
        assert job
        return self.runner.run(job, "mark", dict(os.environ), self.storage.settings(), lambda: None)

    def spooled(self) -> list[bytes]:
        """What whoever follows the next run finds before it has printed anything."""
        return [Path(path).read_bytes() for path in self.home.spool("w") if os.path.exists(path)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.runner.close()
    made.storage.close()


def test_the_spool_is_empty_before_the_next_job_is_claimed(bench: Bench) -> None:
    """Otherwise whoever follows the next job would see what this one printed."""
    outcome = bench.run(act("say printed", "complain more"))
    assert (outcome.output, outcome.stderr) == ("printed\n", "more\n")
    assert bench.spooled() == [b"", b""]


def test_a_worker_whose_lease_was_over_before_the_start_starts_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was suspended since it claimed the job, which another worker may run by now."""
    monkeypatch.setattr(FakeGuardian, "is_overdue", lambda self: True)
    outcome = bench.run(act(f"add {bench.root / 'ran'} x"))
    assert (outcome.state, outcome.has_started, (bench.root / "ran").exists()) == (State.PENDING, False, False)


def test_what_could_not_be_read_is_not_shown_to_whoever_follows_the_next_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(bench.runner._stdout, "_last", fail)
        outcome = bench.run(act("say secret"))
    assert outcome.output == "[not all of it could be kept: Input/output error]\n"
    assert not any(bench.spooled())
    assert bench.run(act("say more")).output == "more\n"


def test_a_spool_goes_back_to_its_usual_name_once_that_is_free(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.runner._stdout._close()
    bench.runner._stdout.path += ".aside"
    assert bench.run(act("say more")).output == "more\n"
    assert bench.runner._stdout.path == bench.home.spool("w")[0]
    assert sorted(os.listdir(bench.home.logs)) == ["worker-w.stderr", "worker-w.stdout"]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_where_nothing_can_be_written_down_no_job_loses_a_try(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    open_file = os.open

    def fail(path: str, *args: int) -> int:
        if path.endswith(stream):
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        return open_file(path, *args)

    with monkeypatch.context() as failing:
        failing.setattr(os, "open", fail)
        outcome = bench.run("exit 0")
    assert (outcome.state, outcome.has_started) == (State.PENDING, False)
    assert outcome.reason and outcome.reason.startswith("cannot start: ")
