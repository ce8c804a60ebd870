"""What a worker does when it is told to stop while the database is away."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from queuectl.errors import StorageError
from queuectl.event_log import EventLog
from queuectl.patience import Patience
from queuectl.stopping import StopRequest
from queuectl.storage import Worker
from queuectl.storage.base import Storage


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.fixture
def stop(tmp_path: Path) -> StopRequest:
    return StopRequest(EventLog(str(tmp_path / "worker.log")))


def test_a_signal_sets_the_grace_time_without_asking_anybody(stop: StopRequest) -> None:
    assert not stop.asked
    stop.on_signal(signal.SIGTERM, None)
    assert stop.asked and not stop.overdue
    stop.on_signal(signal.SIGTERM, None)
    assert stop.overdue


def test_what_the_database_said_last_is_the_grace_time(stop: StopRequest, storage: Storage) -> None:
    storage.set_setting("stop_grace", "0")
    stop.read(storage, "w")
    assert not stop.asked
    stop.on_signal(signal.SIGTERM, None)
    assert stop.overdue


def test_what_a_signal_said_is_made_known_to_whoever_looks_at_the_queue(stop: StopRequest, storage: Storage) -> None:
    storage.add_worker(Worker("w", 1, "1", "boot", "space", "host", 0, 0, 0, None))
    stop.on_signal(signal.SIGTERM, None)
    stop.read(storage, "w")
    assert storage.stop_grace("w") == 30


def test_the_log_says_once_that_it_stops(stop: StopRequest, storage: Storage, tmp_path: Path) -> None:
    stop.on_signal(signal.SIGTERM, None)
    stop.read(storage, "w")
    stop.read(storage, "w")
    assert (tmp_path / "worker.log").read_text().count("stopping; the job in hand has 30 s") == 1


def test_the_result_of_a_run_is_not_thrown_away_because_a_signal_has_come(
    stop: StopRequest, storage: Storage, tmp_path: Path
) -> None:
    patience = Patience(storage, stop, EventLog(str(tmp_path / "worker.log")))
    outage = iter(range(2))

    def finish() -> str:
        for _ in outage:
            raise StorageError("the server is away")
        return "stored"

    stop.on_signal(signal.SIGTERM, None)
    assert patience.insist(finish, until_overdue=True) == "stored"
    outage = iter(range(2))
    with pytest.raises(StorageError):
        patience.insist(finish)
    stop.on_signal(signal.SIGTERM, None)
    outage = iter(range(2))
    with pytest.raises(StorageError):
        patience.insist(finish, until_overdue=True)
