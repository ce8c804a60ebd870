"""What only Windows does: Job Objects, detached workers, names and files that are in use. Under Wine see .ci/."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from act import act
from conftest import ROOT, SCRIPT, Cli, eventually
from processes import counts, job, kill, lives, marked, open_queue, read_pid, state, workers

from queuectl import event_log, platforms
from queuectl.event_log import EventLog
from queuectl.files import remove, replace
from queuectl.home import Home
from queuectl.platforms import boot_id, pid_space, runs
from queuectl.recovery import run_mark
from queuectl.storage import Worker

pytestmark = pytest.mark.skipif(os.name != "nt", reason="it is about Windows")

BREAK_AWAY = """
import subprocess, sys
try:
    subprocess.Popen([sys.executable, "-c", ""], creationflags=subprocess.CREATE_BREAKAWAY_FROM_JOB).wait()
    print("escaped")
except PermissionError:
    print("refused")
"""
# A child that carries no mark, because its environment was cleared.
HIDE = """
import os, subprocess, sys
child = [sys.executable, *sys.argv[1:]]
subprocess.Popen(child, env={"SYSTEMROOT": os.environ["SYSTEMROOT"]}).wait()
"""

Start = Callable[..., Any]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a run in this process: its Job Object is ours. Ended in the end."""
    begun = []

    def begin(argv: list[str]) -> runs.Command:
        with open(tmp_path / "stdout", "wb") as out, open(tmp_path / "stderr", "wb") as err:
            mark = f"test-{os.getpid()}.{len(begun)}.1"
            begun.append(runs.Command(argv, str(tmp_path), dict(os.environ), mark, out.fileno(), err.fileno()))
        return begun[-1]

    yield begin
    for command in begun:
        command.end(0)
        command.close()


def steps(*lines: str) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("act.py")), *lines]


def pids(directory: Path, count: int = 3) -> list[int]:
    """Of a tree, from the lowest up, once all of it is there."""
    paths = [directory / f"pid-{number}" for number in range(count)]
    eventually(lambda: all(map(read_pid, paths)))
    return [read_pid(path) for path in paths]


# --- a run's Job Object ---


def test_ending_a_run_ends_its_grandchildren(start: Start, tmp_path: Path) -> None:
    command = start(steps("tree 2"))
    tree = pids(tmp_path)
    assert all(map(lives, tree))
    command.end(0)
    assert not any(map(lives, tree))


def test_ending_a_run_ends_who_has_lost_his_parent(start: Start, tmp_path: Path) -> None:
    command = start(steps("tree 2"))
    leaf, middle, root = pids(tmp_path)
    kill(middle)
    eventually(lambda: not lives(middle))
    command.end(0)
    assert not lives(leaf) and not lives(root)


def test_ending_a_run_ends_who_carries_no_mark(start: Start, tmp_path: Path) -> None:
    command = start([sys.executable, "-c", HIDE, *steps("tree 1")[1:]])
    tree = pids(tmp_path, 2)
    command.end(0)
    assert not any(map(lives, tree))


@pytest.mark.parametrize("orphaned", [False, True])
def test_where_no_job_object_can_be_had_the_tree_and_the_mark_are_enough(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orphaned: bool
) -> None:
    monkeypatch.setattr("queuectl.platforms.windows_runs._new_job", lambda process: None)
    command = start(steps("tree 2"))
    leaf, middle, root = pids(tmp_path)
    if orphaned:
        kill(middle)
    command.end(0)
    assert not any(map(lives, (leaf, middle, root)))


def test_nobody_breaks_away_from_a_run(start: Start, tmp_path: Path) -> None:
    command = start([sys.executable, "-c", BREAK_AWAY])
    assert command.wait(20)
    assert (tmp_path / "stdout").read_text() == "refused\n"


def test_what_a_command_leaves_behind_on_purpose_lives_on(start: Start, tmp_path: Path) -> None:
    command = start(steps("leave pid pid; sleep 300", "wait pid"))
    assert command.wait(20) and command.close() == 0
    left = read_pid(tmp_path / "pid")
    assert lives(left)
    kill(left)


def test_nobody_inherits_the_job_object(start: Start) -> None:
    """Whoever had it too would keep it open when the worker dies."""
    command = start(steps("sleep 300"))
    flags = ctypes.c_ulong(1)
    assert ctypes.windll.kernel32.GetHandleInformation(ctypes.c_void_p(command._job), ctypes.byref(flags))  # type: ignore[attr-defined, unused-ignore]
    assert flags.value == 0


def test_a_run_dies_with_its_worker_at_once_and_its_job_is_put_back(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("tree 2"))
    tree = pids(cli.cwd)
    kill(tree[1])
    kill(workers(cli)[0].pid)
    eventually(lambda: not any(map(lives, tree)))
    assert state(cli, "1") == "processing"  # nobody else was there to see to it
    cli.ok("worker", "start")
    assert [run["outcome"] for run in job(cli, "1")["runs"]][:1] == ["lost"]


def test_what_a_lost_worker_left_outside_a_job_object_is_ended_before_its_job_runs_again(cli: Cli) -> None:
    cli.ok("enqueue", act("wait go", "say again"))
    storage = open_queue(cli)
    storage.add_worker(Worker("w-lost", os.getpid(), "1", boot_id(), pid_space(), "here", 0, 0, 0, None))
    claimed = storage.claim("w-lost")
    assert claimed
    left = subprocess.Popen(
        steps("tree 1"), cwd=cli.cwd, env={**os.environ, "QUEUECTL_RUN": run_mark(storage, claimed)}
    )
    storage.close()
    tree = pids(cli.cwd, 2)
    (cli.cwd / "go").touch()
    assert "Worker w-lost was lost; its job 1 is pending." in cli("worker", "start").stderr
    assert not any(map(lives, tree))
    left.wait(20)
    eventually(lambda: state(cli, "1") == "completed")
    assert [run["outcome"] for run in job(cli, "1")["runs"]] == ["lost", "completed"]


@pytest.mark.parametrize("end", ["time limit", "cancel", "stop"])
def test_a_tree_without_its_middle_is_ended(cli: Cli, end: str) -> None:
    cli.ok("worker", "start")
    limit = ["--timeout", "6"] if end == "time limit" else []
    cli.ok("enqueue", "--max-retries", "0", *limit, act("tree 2"))
    tree = pids(cli.cwd)
    kill(tree[1])
    if end == "cancel":
        cli.ok("cancel", "1")
    if end == "stop":
        cli.ok("worker", "stop", "--force")
    wanted = {"time limit": "dead", "cancel": "cancelled", "stop": "pending"}[end]
    eventually(lambda: state(cli, "1") == wanted)
    assert not any(map(lives, tree)) and not marked(cli)


# --- the guardian, where a job is leased ---


def test_a_run_ends_with_its_lease_whatever_its_worker_is_stuck_in(start: Start, tmp_path: Path) -> None:
    command = start(steps("tree 2"))
    tree = pids(tmp_path)
    guardian = runs.Guardian(is_leased=True)
    guardian.watch(command.mark)
    guardian.follow(command)
    guardian.extend(time.monotonic() + 3600)
    guardian._look()
    assert all(map(lives, tree)) and not guardian.is_overdue()
    guardian.extend(0.001)
    eventually(lambda: not any(map(lives, tree)))
    guardian.extend(time.monotonic() + 3600)
    assert guardian.is_overdue(), "it was ended, and that stays so"
    guardian.watch("the next")
    assert not guardian.is_overdue()


def test_what_a_run_has_left_behind_is_not_ended_with_the_lease(start: Start, tmp_path: Path) -> None:
    command = start(steps("leave pid pid; sleep 300", "wait pid"))
    guardian = runs.Guardian()
    guardian.watch(command.mark)
    guardian.follow(command)
    assert command.wait(20) and command.close() == 0
    guardian.extend(0.001)
    for release in (lambda: None, guardian.release):  # it may look between the end of the run and its being told
        release()
        guardian._look()
        assert lives(read_pid(tmp_path / "pid"))
    kill(read_pid(tmp_path / "pid"))


# --- how processes are started ---


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of every process that is started from now on; none really is."""
    seen: list[int] = []

    def popen(*args: Any, creationflags: int, **options: Any) -> None:
        seen.append(creationflags)
        raise PermissionError(13, "not in this test")

    monkeypatch.setattr(subprocess, "Popen", popen)
    return seen


DETACHED = 0x8 | 0x200 | 0x08000000  # DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW
BREAKAWAY, NO_WINDOW, SUSPENDED = 0x01000000, 0x08000000, 0x4


def test_a_worker_is_detached_and_breaks_away_where_it_may(flags: list[int], tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        platforms.spawn_detached(["any"], {}, str(tmp_path / "log"))
    assert flags == [DETACHED | BREAKAWAY, DETACHED]


def test_a_command_has_no_window_and_begins_suspended(flags: list[int], start: Start) -> None:
    with pytest.raises(PermissionError):
        start(steps("exit 0"))
    assert flags == [NO_WINDOW | SUSPENDED]


def test_a_worker_outlives_who_started_it(cli: Cli) -> None:
    code = f"import subprocess, sys, time; subprocess.run([sys.executable, {str(SCRIPT)!r}, 'worker', 'start'])"
    console = 0x10  # CREATE_NEW_CONSOLE
    launcher = subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(300)"], env=cli.env, creationflags=console)
    try:
        eventually(lambda: (cli.home / "queuectl.db").exists() and workers(cli))
    finally:
        launcher.kill()
        launcher.wait()
    assert cli("run", act("say survived")).stdout == "survived\n"
    assert len(workers(cli)) == 1


def test_worker_start_warns_where_it_may_not_break_away(cli: Cli, start: Start, tmp_path: Path) -> None:
    assert "Job Object" not in cli("worker", "start").stderr
    cli.ok("worker", "stop")
    os.environ.update(QUEUECTL_HOME=str(cli.home))
    try:
        command = start([sys.executable, str(SCRIPT), "worker", "start"])
    finally:
        del os.environ["QUEUECTL_HOME"]
    assert command.wait(60)
    assert (tmp_path / "stderr").read_text().startswith("Warning: closing this console may end what was started here")
    [worker] = workers(cli)
    command.end(0)
    assert not lives(worker.pid)  # as it was warned


# --- the database ---

ENQUEUE = """
import sys
sys.path.insert(0, sys.argv[1])
from queuectl.queue import Queue
with Queue() as queue:
    for _ in range(25):
        print(queue.enqueue("exit 0").id)
"""


def test_many_who_write_at_once_lose_nothing_and_wait_for_each_other(cli: Cli) -> None:
    cli.ok("worker", "start", "--count", "2")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", ENQUEUE, str(ROOT)], stdout=subprocess.PIPE, env=cli.env, cwd=cli.cwd, text=True
        )
        for _ in range(4)
    ]
    ids = [line for writer in writers for line in writer.communicate(timeout=60)[0].split()]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert sorted(map(int, ids)) == list(range(1, 101))
    eventually(lambda: counts(cli)["completed"] == 100, 60)


# --- names ---


def test_ids_that_are_reserved_names_or_differ_by_case_only_do_not_clash(cli: Cli) -> None:
    cli.ok("config", "set", "max-output", "5")
    ids = ["con", "nul", "NUL", "com1.txt", "Build", "build"]
    for job_id in ids:
        cli.ok("enqueue", "--id", job_id, f"echo this is what {job_id} says")
    cli.ok("worker", "start")
    eventually(lambda: all(state(cli, job_id) == "completed" for job_id in ids))
    for job_id in ids:
        notice = job(cli, job_id)["output"].splitlines()[0]
        whole = Path(notice.rpartition(" in ")[2].rstrip("]"))
        assert whole.read_text() == f"this is what {job_id} says\n"
    assert len(list((cli.home / "logs").glob("job-*.stdout"))) == len(ids)


def test_the_home_is_in_the_users_profile_whatever_the_users_name(cli: Cli, tmp_path: Path) -> None:
    profile = tmp_path / "Jürgen Łoś 北"
    profile.mkdir()
    here = {"USERPROFILE": str(profile), "QUEUECTL_HOME": ""}
    try:
        assert cli("run", act("say here"), **here).stdout == "here\n"
        assert (profile / ".queuectl" / "queuectl.db").exists()
        assert not cli.home.exists()
    finally:
        assert "has stopped" in cli.ok("worker", "stop", **here)


# --- files that somebody has open ---


def test_purge_deletes_every_job_although_a_log_is_open_and_names_the_log(cli: Cli) -> None:
    cli.ok("config", "set", "max-output", "5")
    for _ in range(2):
        cli.ok("enqueue", "--max-retries", "0", act("say more than is kept", "exit 1"))
    cli.ok("worker", "start")
    eventually(lambda: state(cli, "1") == state(cli, "2") == "dead")
    held, other = (Home(str(cli.home)).kept(number, 1)[0] for number in (1, 2))
    with open(held):
        done = cli("dlq", "purge", "--yes")
        assert (done.returncode, done.stdout) == (0, "2 jobs were deleted.\n")
        assert done.stderr.count("\n") == 1 and held in done.stderr
    assert os.path.exists(held) and not os.path.exists(other)


def test_a_log_that_is_open_grows_on_and_is_rotated_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_BYTES", 1000)
    path = tmp_path / "worker.log"
    log = EventLog(str(path))
    with open(path):
        for _ in range(12):
            log.say("failed", error="x" * 80)
        assert not list(tmp_path.glob("*.log.*"))
        assert path.read_text().count("could not be rotated") == 1
    for _ in range(10):
        log.say("failed", error="y" * 80)
    assert [found.name for found in tmp_path.glob("*.log.*")] == ["worker.log.1"]
    os.close(log._file)


def test_a_file_that_is_open_for_a_moment_is_replaced_and_removed_all_the_same(tmp_path: Path) -> None:
    for action in (lambda path: replace(path, f"{path}.new"), remove):
        path = tmp_path / "file"
        path.write_text("")
        held = open(path)  # noqa: SIM115 - closed by the timer
        timer = threading.Timer(0.1, held.close)
        timer.start()
        action(str(path))
        timer.join()
        assert not path.exists()


def test_a_file_that_stays_open_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with open(path):
        assert not remove(str(path))
        with pytest.raises(PermissionError):
            replace(str(path), f"{path}.new")
    assert remove(str(path)) and remove(str(path)), "what is not there is gone"
