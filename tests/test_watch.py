"""`status --watch`: a live view that fits its terminal, is drawn over itself, and leaves the terminal as it was."""

from __future__ import annotations

import re
import signal
from typing import Any

import click
import pytest

from queuectl.cli.watch import CLOSE, OPEN
from queuectl.cli.watch import screen as drawing
from queuectl.estimates import Expected, Forecast
from queuectl.job import Job, State
from queuectl.liveness import Condition, Standing
from queuectl.screen import View, aligned, draw, shares
from queuectl.storage import EndedRun, Worker

from .conftest import Cli
from .terminal import Terminal, terminal

NOW = 1_790_000_000_000
ROW = dict.fromkeys(Job._fields)


def a_job(job_id: str, seq: int, **fields: Any) -> Job:
    fixed = {
        "seq": seq,
        "id": job_id,
        "state": State.PENDING,
        "priority": 5,
        "waiting_time": 2,
        "command": f"make {job_id}",
    }
    return Job(**{**ROW, **fixed, **fields})


def a_view(workers: int = 2, waiting: int = 3, ended: int = 3) -> View:
    job = a_job("film", 1, state=State.PROCESSING, started_at=NOW - 12_000)
    return View(
        counts={state.value: 10 * number for number, state in enumerate(State)},
        standings=[
            Standing(
                Worker(f"w-{number}", 1, "", "", "", "desk", NOW, NOW, 0, None),
                Condition.ALIVE,
                None if number else job,
                None,
            )
            for number in range(workers)
        ],
        line=[a_job(f"wait{number}", 10 + number) for number in range(waiting)],
        ended=[EndedRun(f"old{number}", "w", 0, NOW, 1.5, 0, "dead", "exit 3") for number in range(ended)],
        forecast=Forecast(NOW, 5, workers, {1: Expected(end_at=NOW + 8_000), 10: Expected(NOW + 8_000, NOW + 9_000)}),
    )


def shown(view: View, columns: int = 120, rows: int = 30) -> str:
    return click.unstyle("\n".join(draw(view, columns, rows)))


# --- drawing ---


def test_it_shows_counts_workers_the_front_of_the_line_and_what_has_ended() -> None:
    text = shown(a_view())
    assert "pending 0   processing 10   completed 20" in text
    assert re.search(r"^w-0 +busy +film +12 s, ends ~[\d:]+ +make film$", text, re.MULTILINE)
    assert re.search(r"^w-1 +idle$", text, re.MULTILINE)
    assert re.search(r"^1\. +wait0 +5\+2 = 7 +~[\d:]+ +make wait0$", text, re.MULTILINE)
    assert re.search(r"^3\. +wait2 +5\+2 = 7 +make wait2$", text, re.MULTILINE)
    assert re.search(r"^[\d:]+ +old0 +dead +1.50 s +exit 3$", text, re.MULTILINE)


def test_an_empty_queue_says_that_there_is_nothing() -> None:
    text = shown(a_view(0, 0, 0))
    assert "No worker is running. Start one with: queuectl worker start" in text
    assert "nobody" in text and "nothing" in text


@pytest.mark.parametrize("columns", [10, 40, 80, 200])
@pytest.mark.parametrize("rows", [1, 5, 10, 24, 60])
def test_it_fits_the_terminal(columns: int, rows: int) -> None:
    drawn = draw(a_view(20, 50, 50), columns, rows)
    assert len(drawn) <= rows
    assert all(len(click.unstyle(line)) <= columns for line in drawn)
    if rows >= 24:
        assert len(drawn) == rows, "all the room there is is used"


def test_who_needs_little_leaves_its_room_to_the_others() -> None:
    assert shares([1, 50, 50], 21) == [1, 10, 10]
    assert shares([50, 50, 50], 21) == [7, 7, 7]
    assert shares([2, 3, 50], 40) == [2, 3, 35]
    assert shares([0, 5, 5], 3) == [0, 1, 2]
    assert shares([5, 5, 5], -2) == [0, 0, 0]


def test_what_a_command_holds_cannot_move_the_cursor() -> None:
    text = shown(a_view()._replace(line=[a_job("evil", 1, command="echo \x1b[2J\x07\nls")]))
    assert "\x1b" not in text and "\x07" not in text and "echo \\x1b[2J\\x07 ls" in text


def test_colours_do_not_disturb_the_columns() -> None:
    assert [click.unstyle(line) for line in aligned([(click.style("a", fg="red"), "x"), ("bbb", "y")], 80)] == [
        "a    x",
        "bbb  y",
    ]


# --- on a terminal ---


def frames(screen: Terminal) -> list[str]:
    return screen.shown.split("\x1b[H")[1:]


def test_it_is_drawn_anew_when_something_changes_and_the_terminal_is_as_before(cli: Cli) -> None:
    with terminal(cli, "status", "--watch", columns=100, rows=20) as screen:
        assert screen.until("in line").startswith(OPEN + "\x1b[H")
        cli.ok("enqueue", "--id", "fresh", "true")
        screen.until("1.  fresh  5 = 5")
        assert "\x1b[2J" not in screen.shown, "what is cleared first flickers"
        assert all("\x1b[K" in frame for frame in frames(screen))
        screen.process.send_signal(signal.SIGINT)
        assert screen.to_the_end() == 0
        assert screen.shown.endswith(CLOSE)


def test_the_cursor_comes_back_also_when_it_is_ended_or_fails(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal(cli, "status", "--watch") as screen:
        screen.until("in line")
        screen.process.terminate()
        assert screen.to_the_end() == 143
        assert screen.shown.endswith(CLOSE)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(ZeroDivisionError), drawing():
        _ = 1 / 0
    assert capsys.readouterr().out == OPEN + CLOSE


def test_without_a_terminal_and_with_json_it_is_refused(cli: Cli) -> None:
    done = cli("status", "--watch")
    assert done.returncode == 2 and "needs a terminal" in done.stderr and done.stdout == ""
    assert cli("status", "--watch", "--json").returncode == 2
