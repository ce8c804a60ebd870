"""What a worker does now and then: above all, when what it has finished is brought to the disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from conftest import SetClock, open_database
from test_order import new_job

from queuectl import housekeeping
from queuectl.event_log import EventLog
from queuectl.home import open_home
from queuectl.housekeeping import SYNC_SECONDS, identity
from queuectl.job import Job, Outcome
from queuectl.platforms import runs
from queuectl.storage import Storage, transactions
from queuectl.worker import WorkerProcess

DONE = Outcome(0, 0.0)


class NoGuardian:
    """In a test's own process nothing is to be guarded: a real one would be a fork of pytest."""

    def check(self) -> None:
        pass


class SteadyClock:
    """Stands for `time` where it is asked how long ago something was; it moves only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> SteadyClock:
    made = SteadyClock()
    for module in (transactions, housekeeping):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def worker(tmp_path: Path, clock: SetClock) -> WorkerProcess:
    """One that has joined, with jobs to do, and that the test moves step by step."""
    home = open_home(str(tmp_path / "home"))
    storage = open_database(f"sqlite:///{tmp_path / 'queuectl.db'}", clock)
    guardian: runs.Guardian = NoGuardian()  # type: ignore[assignment]
    made = WorkerProcess("w", home, storage, guardian, EventLog(home.worker_log("w")))
    storage.add_worker(identity("w", storage))
    storage.add([new_job() for _ in range(3)])
    return made


@pytest.fixture(autouse=True)
def closed(worker: WorkerProcess) -> object:
    yield
    worker.runner.close()
    worker.storage.close()


def take(worker: WorkerProcess) -> Job:
    job = worker._claim()
    assert job
    return job


def test_a_worker_that_waits_has_brought_everything_to_the_disk(
    steady: SteadyClock, worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsynced: list[float] = []

    def wait(self: Storage, seconds: float) -> None:
        unsynced.append(self.unsynced_seconds())
        worker.stop.ask(0)

    monkeypatch.setattr(type(worker.storage), "wait", wait)
    monkeypatch.setattr(type(worker.storage), "changed", lambda self: False)
    worker._finish(take(worker), DONE)
    steady.now += SYNC_SECONDS / 2
    assert worker.storage.unsynced_seconds() > 0
    worker._idle()
    assert unsynced == [0.0]


@pytest.mark.parametrize(("seconds", "is_synced"), [(SYNC_SECONDS / 2, False), (SYNC_SECONDS, True)])
def test_what_a_busy_worker_finished_is_on_the_disk_after_so_long(
    steady: SteadyClock, worker: WorkerProcess, seconds: float, is_synced: bool
) -> None:
    worker.house.look()
    assert worker._finish(take(worker), DONE)
    steady.now += seconds
    assert worker.storage.unsynced_seconds() > 0
    worker.house.looked_at = 0.0
    worker.house.look()
    assert (worker.storage.unsynced_seconds() == 0) is is_synced


def test_an_unsynced_finish_and_the_look_at_it_take_no_longer_than_is_promised() -> None:
    assert SYNC_SECONDS + housekeeping.LOOK_SECONDS <= 0.2 and transactions.SYNC_SECONDS <= SYNC_SECONDS
