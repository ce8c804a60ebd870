"""A queue with everything in it, for the tests that move, check and copy a whole one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_order import new_job

from queuectl.errors import QueueMoved
from queuectl.home import Home, open_home
from queuectl.job import Need, Outcome, State
from queuectl.moving import NOT_ROWS, at_home
from queuectl.storage import QueueRow, Schedule, Storage, open_storage
from queuectl.storage.tables import ranges, rows_of, tables

DONE = Outcome(0, 0.25, "out\n", "")
FAILED = Outcome(3, 0.125, "żółw 🐢\r\n", "err\u2028")
HERE = {"PATH": "/usr/bin", "ODD": "\udcff"}
DIRECTIONS = ["sqlite-postgres", "postgres-sqlite"]


def quiet(done: int, total: int) -> None:
    pass


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(str(tmp_path / "home"))


@pytest.fixture
def opened(home: Home) -> Iterator[Callable[[str], Storage]]:
    """Opens a database, and closes it in the end."""
    storages: list[Storage] = []

    def open_one(url: str) -> Storage:
        storages.append(open_storage(home, url))
        return storages[-1]

    yield open_one
    for storage in storages:
        storage.close()


@pytest.fixture(params=DIRECTIONS)
def urls(request: pytest.FixtureRequest, home: Home, postgres: str) -> tuple[str, str]:
    """From where, and to where."""
    found = {"sqlite": f"sqlite:///{home.database}", "postgres": postgres}
    source, _, target = request.param.partition("-")
    return found[source], found[target]


def fill(storage: Storage) -> None:
    """A queue with every kind of job, several runs, what was printed, and settings."""
    storage.set_setting("max_backoff", "86400")
    storage.set_setting("stop_grace", "7.5")
    storage.add([new_job(10, id="backing off", max_retries=3, backoff_base=1000.0)])
    job = storage.claim("w")
    assert job and job.id == "backing off"
    storage.finish(job, FAILED)
    storage.add([new_job(id=f"n{number}", max_retries=0, backoff_base=0.0) for number in range(4)], HERE)
    for outcome in (DONE, FAILED, Outcome(None, 0.0, state=State.PENDING)):
        job = storage.claim("w")
        assert job
        storage.finish(job, outcome)
    storage.cancel(storage.job("n3"), "no longer wanted")
    lost = storage.claim("gone")
    assert lost
    storage.lose(lost, rebooted=False)
    storage.add([new_job(9, id="retried", max_retries=3, backoff_base=0.0)])
    for number in range(2):
        job = storage.claim("w")
        assert job and job.id == "retried"
        storage.finish(job, Outcome(number + 1, 0.5, f"try {number}", "x" * 5000))
    storage.add([new_job(id="scheduled", run_at=storage.clock.now() + 3_600_000)])
    for priority in (1, 9, 5, 5, 3):
        storage.add([new_job(priority, command="echo 'ü'", env='{"A": "b"}'), new_job(priority)], {"OTHER": "1"})
    storage.add([new_job(id=wanted, needs=(Need("scheduled", wanted),)) for wanted in ("completed", "any")])
    storage.add_queue(QueueRow("gpu", 0, 2, "10/m"))
    storage.add([new_job(queue="gpu")])
    for name in ("nightly", "hourly"):
        storage.add_schedule(schedule(name, storage.clock.now()), HERE)
    for minute in (29_800_000, 29_800_001):
        with storage.transaction():
            storage.run("add_sample", minute=minute)
    states = {job.state for job in storage.jobs(None, 100)}
    assert states == set(State) - {State.PROCESSING}


def schedule(name: str, now: int) -> Schedule:
    return Schedule(name, "0 2 * * *", None, "Europe/Berlin", "{}", "true", "/", None, "skip", 0, 0, now, now + 1)


def dump(storage: Storage) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables that are moved; this machine has no name in it, as on SQLite."""
    found = {}
    for name, table in tables(storage).items():
        if name not in NOT_ROWS:
            rows = [row for part in ranges(storage, table) for row in rows_of(storage, part)]
            found[name] = sorted(at_home(table, rows, storage.machine, ""), key=repr)
    return found


def line(storage: Storage) -> list[str]:
    return [job.id for job in storage.jobs(State.PENDING, 100)]


def is_open(storage: Storage) -> bool:
    try:
        storage.must_be_open()
    except QueueMoved:
        return False
    return True
