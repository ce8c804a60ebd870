"""`demo`: jobs of all kinds at work, the user's own queue untouched, and nothing left behind however it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from queuectl.cli.watch import CLOSE

from .conftest import SCRIPT, Cli, eventually
from .terminal import terminal


@pytest.fixture
def rooms(cli: Cli, tmp_path: Path) -> Path:
    """Where temporary directories are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    cli.env.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(place)))
    return place


def left_behind(rooms: Path) -> list[psutil.Process]:
    """Processes that belong to a queue in there."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("QUEUECTL_HOME", "").startswith(str(rooms)):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_it_shows_jobs_of_all_kinds_and_leaves_nothing_behind(cli: Cli, rooms: Path) -> None:
    done = cli("demo", QUEUECTL_DB="sqlite:////nowhere/at/all.db")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^mail +pending +8\+5 ", done.stdout, re.MULTILINE), "aging"
    assert "It waits for job build-1 to be completed" in done.stdout and "It is scheduled for" in done.stdout
    for job, state in [("shaky", "completed"), ("ship", "completed"), ("broken", "dead"), ("slow", "dead")]:
        assert re.search(rf"^{job} +{state} ", done.stdout, re.MULTILINE), job
    assert re.search(r"^shaky +completed +5\+4 +2/4 ", done.stdout, re.MULTILINE), "a retry that succeeds"
    assert "timed out after 1 s" in done.stdout and "shaky: step 3 of 3" in done.stdout
    assert "4 completed, 2 dead." in done.stderr
    assert not cli.home.exists() and list(rooms.iterdir()) == [] and left_behind(rooms) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send to one process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_it_leaves_nothing_behind(cli: Cli, rooms: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=cli.env,
        cwd=cli.cwd,
    )
    try:
        assert process.stdout
        while "is up, pid" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(30) == 130
        assert list(rooms.iterdir()) == []
        eventually(lambda: left_behind(rooms) == [])
    finally:
        process.kill()
        process.communicate()
        for one in left_behind(rooms):
            one.kill()


def test_on_a_terminal_it_shows_the_live_view(cli: Cli, rooms: Path) -> None:
    with terminal(cli, "demo") as screen:
        screen.until("ended lately")
        assert screen.to_the_end(60) == 0
        view, _, after = screen.shown.partition(CLOSE)
        assert "ended lately" in view and "4 completed, 2 dead." in after
    assert list(rooms.iterdir()) == [] and left_behind(rooms) == []
