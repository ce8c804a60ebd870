"""The guardian of a run: whom it ends, when, and what becomes of it while there can be no other."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import eventually
from processes import kill, lives

from queuectl.platforms.runs import Guardian

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has Job Objects instead; see test_windows.py")
Make = Callable[[bool], Guardian]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Guardian] = []

    def make_one(is_leased: bool) -> Guardian:
        made.append(Guardian(is_leased))
        return made[-1]

    yield make_one
    for guardian in made:
        guardian.release()
        os.close(guardian._write_end)
        kill(guardian.pid)
        os.waitpid(guardian.pid, 0)


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    """A process without a mark, in a session of its own."""
    process = subprocess.Popen(["sleep", "300"], env={}, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_a_run_of_which_the_lease_was_over_stays_ended_when_it_is_extended(
    make: Make, leader: subprocess.Popen[bytes]
) -> None:
    guardian = make(True)
    guardian.watch("mark")
    guardian.follow(leader)
    guardian.extend(0.001)
    eventually(lambda: leader.poll() is not None)
    guardian.extend(time.clock_gettime(time.CLOCK_BOOTTIME) + 3600)
    assert guardian.is_overdue()
    guardian.watch("the next mark")
    assert not guardian.is_overdue()


def test_a_process_that_got_the_pid_of_a_command_that_ended_is_not_the_runs(
    make: Make, leader: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    guardian = make(False)
    guardian.watch("mark")
    guardian.follow(leader)
    assert guardian._session() == leader.pid
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 1.0)  # long before that process started
    guardian.follow(leader)
    assert guardian._session() is None


def test_where_no_other_guardian_can_be_made_it_is_tried_again_and_no_file_of_others_is_closed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    guardian = make(False)
    first = guardian.pid
    kill(first)
    eventually(lambda: not lives(first))

    def fail() -> int:
        raise BlockingIOError("no room for another process")

    with monkeypatch.context() as full:
        full.setattr(os, "fork", fail)
        for _ in range(2):
            with pytest.raises(BlockingIOError):
                guardian.check()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
    guardian.check()
    assert guardian.pid != first and lives(guardian.pid)
    for file in others:
        os.close(file)  # fails where somebody else has closed it
