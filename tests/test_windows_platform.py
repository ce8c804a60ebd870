"""What only Windows does: who is who where one may not look, logons, launchers, and the file that a name stands for."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cli

from queuectl import platforms
from queuectl.liveness import Condition, condition
from queuectl.platforms import boot_id, pid_space, runs, start_time
from queuectl.storage import Worker

if os.name != "nt":
    pytest.skip("it is about Windows", allow_module_level=True)

from queuectl.platforms import windows, windows_runs

ERROR_ACCESS_DENIED = 5
NOWHERE = "import time; time.sleep(300)"
AS_A_WORKER = """
import os, subprocess, sys
from queuectl.platforms import own_interpreter
program, more = own_interpreter()
look = "import os, sys; print(sys.prefix, sys.executable, os.getppid(), '__PYVENV_LAUNCHER__' in os.environ, sep='|')"
print(os.getpid(), subprocess.check_output([program, "-c", look], env={**os.environ, **more}, text=True), sep="|")
"""


@pytest.fixture
def sleeper() -> Any:
    process = subprocess.Popen([sys.executable, "-c", NOWHERE])
    yield process
    process.kill()
    process.wait()


# --- who is who ---


@pytest.fixture
def nobody_may_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(access: int, inherits: bool, pid: int) -> None:
        ctypes.set_last_error(ERROR_ACCESS_DENIED)

    monkeypatch.setattr(windows, "_open_process", refuse)


def test_a_process_at_which_one_may_not_look_is_not_taken_for_dead(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    known = start_time(sleeper.pid)
    assert known
    request.getfixturevalue("nobody_may_look")
    assert start_time(sleeper.pid) == known
    sleeper.kill()
    sleeper.wait()
    assert start_time(sleeper.pid) is None  # though this process still has a handle to it


def test_who_may_not_be_ended_is_left_alone(sleeper: subprocess.Popen[bytes], nobody_may_look: None) -> None:
    started = start_time(sleeper.pid)
    assert started and not runs.hard_kill(sleeper.pid, started)
    assert runs.kill_marked("nobody's") == 0


# --- signing out ---


@pytest.fixture
def logged_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def at(time: int) -> None:
        monkeypatch.setattr(windows, "_logged_on_at", lambda: time)

    return at


def test_a_worker_that_was_ended_by_signing_out_counts_as_one_under_which_the_machine_restarted(
    logged_on: Callable[[int], None], sleeper: subprocess.Popen[bytes]
) -> None:
    def seen(pid: int, started: str) -> Condition:
        worker = Worker("w", pid, started, boot_id(), pid_space(), "here", 0, 0, 0, None)
        return condition(worker, 0, 10, is_shared=False)

    own = start_time(sleeper.pid) or ""
    logged_on(2000)
    assert seen(sleeper.pid, "1999") is Condition.REBOOTED
    assert seen(sleeper.pid, "2000") is Condition.LOST
    logged_on(int(own) + 1)
    assert seen(sleeper.pid, own) is Condition.ALIVE  # it runs on in another session
    logged_on(0)
    assert seen(sleeper.pid, "1999") is Condition.LOST  # there was no logon to this one


def test_the_time_of_the_logon_is_read_from_the_session_or_there_was_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= windows._logged_on_at() <= int(start_time(os.getpid()) or 0)
    info = windows.Session(logon=42)
    freed = []

    class Sessions:
        def WTSQuerySessionInformationW(self, server: None, session: Any, what: int, found: Any, size: Any) -> int:
            assert (session.value, what) == (0xFFFFFFFF, 24)
            found._obj.contents, size._obj.value = info, ctypes.sizeof(info)
            return 1

        def WTSFreeMemory(self, found: Any) -> None:
            freed.append(found)

    monkeypatch.setattr(ctypes, "WinDLL", lambda name: Sessions())
    windows._logged_on_at.cache_clear()
    try:
        assert windows._logged_on_at() == 42 and len(freed) == 1
    finally:
        windows._logged_on_at.cache_clear()
    assert ctypes.sizeof(info) == 216 and windows.Session.logon.offset == 200  # as WTSINFOW is laid out


# --- launchers, and Job Objects around Job Objects ---


def test_the_interpreter_of_a_virtual_environment_is_started_without_its_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from queuectl.worker_manager import worker_argv

    monkeypatch.setattr(sys, "executable", r"C:\venv\Scripts\python.exe")
    monkeypatch.setattr(sys, "_base_executable", r"C:\Python\python.exe")
    assert platforms.own_interpreter() == (
        r"C:\Python\python.exe",
        {"__PYVENV_LAUNCHER__": r"C:\venv\Scripts\python.exe"},
    )
    assert worker_argv("w", ())[0] == r"C:\Python\python.exe"
    monkeypatch.setattr(sys, "_base_executable", r"c:\venv\scripts\Python.exe")
    assert platforms.own_interpreter() == (r"C:\venv\Scripts\python.exe", {})


def test_it_is_that_of_the_virtual_environment_and_hands_nothing_on(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    launcher = venv / "Scripts" / "python.exe"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([launcher, "-c", AS_A_WORKER], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pid, prefix, executable, parent, is_handed_on = done.stdout.strip().split("|")
    assert (prefix.lower(), executable.lower()) == (str(venv).lower(), str(launcher).lower())
    assert parent == pid, "no launcher is between them"
    assert is_handed_on == "False"


@pytest.mark.parametrize("is_inside", [0, 1])
def test_whether_a_worker_has_left_every_job_object_is_asked_and_not_inferred(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_inside: int
) -> None:
    def is_in_job(process: int, job: None, found: Any) -> int:
        found._obj.value = is_inside
        return 1

    monkeypatch.setattr(windows, "_is_in_job", is_in_job)
    process, outlives = platforms.spawn_detached([sys.executable, "-c", ""], dict(os.environ), str(tmp_path / "log"))
    process.wait()
    assert outlives is not bool(is_inside)


# --- the file that a name stands for ---


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The job's directory, and an environment whose PATH has two more."""
    for name in ("here", "first", "second"):
        (tmp_path / name).mkdir()
    path = os.pathsep.join(str(tmp_path / name) for name in ("first", "second"))
    return tmp_path, {"PATH": path, "PATHEXT": ".EXE;.CMD"}


@pytest.mark.parametrize(
    ("files", "name", "found"),
    [
        (["here/make", "second/make.exe"], "make", "second/make.exe"),
        (["first/npm", "first/npm.cmd"], "npm", "first/npm.cmd"),
        (["here/tool.cmd", "first/tool.exe"], "tool", "here/tool.cmd"),
        (["first/tool", "second/tool"], "tool", "first/tool"),
        (["first/a.exe.exe", "second/a.exe"], "a.exe", "first/a.exe.exe"),
        (["first/a.exe", "first/a.exe.exe"], "a.exe", "first/a.exe"),
        (["first/python3.11", "second/python3.11.exe"], "python3.11", "second/python3.11.exe"),
    ],
)
def test_a_file_without_an_ending_stands_behind_every_program(
    places: tuple[Path, dict[str, str]], files: list[str], name: str, found: str
) -> None:
    root, env = places
    for file in files:
        (root / file).touch()
    assert Path(windows_runs._program(name, str(root / "here"), env)) == root / found


def test_a_lock_is_free_as_soon_as_it_is_let_go(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows frees that of a file which is only closed when it comes to it."""
    did: list[str] = []
    unlock, close = windows.msvcrt.locking, os.close

    def locking(file: int, how: int, count: int) -> None:
        did.append({windows.msvcrt.LK_UNLCK: "unlock"}.get(how, "lock"))
        unlock(file, how, count)

    monkeypatch.setattr(windows.msvcrt, "locking", locking)
    monkeypatch.setattr(os, "close", lambda file: (did.append("close"), close(file)))
    with platforms.locked(str(cli.cwd / "lock")):
        did.append("alone")
    assert did == ["lock", "alone", "unlock", "close"]
