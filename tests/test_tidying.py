"""What goes by itself: old completed jobs, whole outputs beyond the limit, environments of nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Cli, SetClock, eventually
from processes import state
from test_acts import DONE, FAILED, ran
from test_chains import after, order
from test_order import new_job
from test_storage import counted, totals

from queuectl import tidying
from queuectl.errors import JobNotFound
from queuectl.home import Home, open_home
from queuectl.storage.base import Storage
from queuectl.tidying import tidy

DAY = 86400


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(str(tmp_path / "home"))


def ids(storage: Storage) -> list[str]:
    return sorted(job.id for job in storage.jobs(None, 1000))


def test_by_default_everything_is_kept(storage: Storage, clock: SetClock, home: Home) -> None:
    storage.add([new_job(id="a")])
    ran(storage, DONE)
    clock.pass_seconds(10_000 * DAY)
    assert not tidy(storage, home)
    assert ids(storage) == ["a"]


def test_completed_jobs_go_when_their_time_is_over_and_no_others(storage: Storage, clock: SetClock, home: Home) -> None:
    storage.set_setting("keep_completed", "30d")
    storage.add([new_job(id="old"), new_job(id="dead", max_retries=0), new_job(id="cancelled"), new_job(id="new")])
    assert ran(storage, DONE).id == "old"
    assert ran(storage, FAILED).id == "dead"
    storage.cancel(storage.glance("cancelled"), "x")
    for path in home.kept(storage.glance("old").seq, 1):
        Path(path).write_text("much")
    clock.pass_seconds(1)
    assert ran(storage, DONE).id == "new"
    storage.add([new_job(id="waits")])
    clock.pass_seconds(30 * DAY - 1.001)
    tidy(storage, home)
    assert len(ids(storage)) == 5
    clock.pass_seconds(0.001)
    tidy(storage, home)
    assert ids(storage) == ["cancelled", "dead", "new", "waits"]
    assert os.listdir(home.logs) == []
    assert totals(storage) == counted(storage)


def test_so_few_go_at_a_time_that_nobody_waits_for_it(
    storage: Storage, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "BATCH", 4)
    monkeypatch.setattr(tidying, "LOOKED_AT", 8)
    storage.set_setting("keep_completed", "0s")
    storage.add([new_job() for _ in range(10)])
    for _ in range(10):
        ran(storage, DONE)
    left = []
    while tidy(storage, home):
        left.append(totals(storage)["completed"])
    assert left == [6, 2] and totals(storage)["completed"] == 0
    assert totals(storage) == counted(storage)


def test_a_completed_job_that_goes_blocks_nobody_who_waited_for_it(
    storage: Storage, clock: SetClock, home: Home
) -> None:
    storage.set_setting("keep_completed", "1h")
    storage.add([new_job(9, id="a"), new_job(id="b"), after("a", "b", id="last")])
    ran(storage, DONE)
    clock.pass_seconds(3600)
    tidy(storage, home)
    with pytest.raises(JobNotFound):
        storage.glance("a")
    ran(storage, DONE)
    assert order(storage) == ["last"]


def test_two_who_tidy_up_at_once_do_no_harm(connect: Callable[[], Storage], home: Home) -> None:
    storage, other = connect(), connect()
    storage.set_setting("keep_completed", "0s")
    storage.add([new_job() for _ in range(3)])
    for _ in range(3):
        ran(storage, DONE)
    old = other.completed_before(2**50, 100, 100)
    tidy(storage, home)
    assert other.delete(old) == []
    assert totals(storage) == counted(storage)


def test_the_oldest_outputs_go_when_there_is_too_much_of_them(storage: Storage, home: Home) -> None:
    for age, name in enumerate(["job-3-1.stdout", "job-1-2.stderr", "job-1-1.stdout", "worker-w.stdout", "mine.txt"]):
        path = Path(home.logs, name)
        path.write_text("x" * 100)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    tidy(storage, home)
    assert len(os.listdir(home.logs)) == 5
    storage.set_setting("max_log_bytes", "250")
    tidy(storage, home)
    assert sorted(os.listdir(home.logs)) == ["job-1-2.stderr", "job-3-1.stdout", "mine.txt", "worker-w.stdout"]
    storage.set_setting("max_log_bytes", "1")
    tidy(storage, home)
    assert sorted(os.listdir(home.logs)) == ["mine.txt", "worker-w.stdout"]


def environments(storage: Storage) -> int:
    [(count,)] = storage._execute("SELECT COUNT(*) FROM environments").fetchall()  # type: ignore[attr-defined]
    return int(count)


def test_an_environment_goes_some_days_after_the_last_job_that_used_it(
    storage: Storage, clock: SetClock, home: Home
) -> None:
    storage.add([new_job(id="a")], {"A": "1"})
    clock.pass_seconds(10 * DAY)
    storage.add([new_job(id="b")], {"B": "1"})
    tidy(storage, home)
    assert environments(storage) == 2, "for a is still there"
    ran(storage, DONE)
    storage.delete([storage.glance("a")])
    tidy(storage, home)
    assert environments(storage) == 1
    ran(storage, DONE)
    storage.delete([storage.glance("b")])
    tidy(storage, home)
    assert environments(storage) == 1, "for it may just be wanted again"
    clock.pass_seconds(3 * DAY)
    tidy(storage, home)
    assert environments(storage) == 0


def test_an_environment_that_is_used_day_after_day_stays(storage: Storage, clock: SetClock, home: Home) -> None:
    for number in range(10):
        storage.add([new_job(id=f"job{number}")], {"A": "1"})
        clock.pass_seconds(0.7 * DAY)
        if number:
            ran(storage, DONE)
            storage.delete([storage.glance(f"job{number - 1}")])
        tidy(storage, home)
        assert storage.environment(storage.glance(f"job{number}").environment or "")[0] == '{"A": "1"}'


def test_workers_do_it_by_themselves(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "old", "exit 0")
    cli.ok("worker", "start")
    eventually(lambda: state(cli, "old") == "completed")
    cli.ok("worker", "stop")
    cli.ok("config", "set", "keep-completed", "0s")
    cli.ok("worker", "start")
    eventually(lambda: cli("show", "old").returncode == 1)


def test_an_environment_stays_while_a_job_needs_it_also_where_the_clock_was_set_back(
    storage: Storage, clock: SetClock, home: Home
) -> None:
    storage.add([new_job(id="oldest")], {"A": "1"})
    clock.be_set(-30 * DAY)
    storage.add([new_job(id="later")], {"B": "2"})
    for _ in range(20):
        clock.pass_seconds(3 * DAY)
        tidy(storage, home)
        assert storage.environment(storage.glance("later").environment or "")[0] == '{"B": "2"}'
