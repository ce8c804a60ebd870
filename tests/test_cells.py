"""Text in the cells of a terminal: wide letters, colours, and columns that must fit."""

from __future__ import annotations

import click
import pytest

from queuectl.cells import cut, fitting, printable, width
from queuectl.job import Job, State
from queuectl.render import job_table, table
from queuectl.screen import aligned

RED = click.style("abcdef", fg="red")
NOW = 1_790_000_000_000


@pytest.mark.parametrize(
    "text, cells", [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("ﾊﾝ", 2), ("🎬", 2), ("a\u200db", 2), (RED, 6), ("", 0)]
)
def test_a_text_takes_as_many_cells_as_the_terminal_gives_it(text: str, cells: int) -> None:
    assert width(text) == cells


@pytest.mark.parametrize(
    "text, room, shown",
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_what_is_too_long_is_cut(text: str, room: int, shown: str) -> None:
    assert cut(text, room) == shown


def test_what_is_cut_keeps_its_colours() -> None:
    assert cut(RED, 4) == click.style("abc…", fg="red")
    assert cut(RED + " " + click.style("second", fg="blue"), 9) == RED + " " + click.style("s…", fg="blue")
    assert cut(RED + "xyz", 4) == click.style("abc…", fg="red")


def test_what_would_move_the_cursor_is_shown_escaped() -> None:
    assert printable("a\x1b[2J\rb\x07\u202e\n") == "a\\x1b[2J\\rb\\x07\\u202e\\n"
    assert printable("two\nlines\t", "\n") == "two\nlines\\t"
    assert printable("日本語 e\u0301\u3000\u200d") == "日本語 e\u0301\u3000\u200d"


def test_columns_give_way_from_the_longest_on_and_those_in_the_middle_are_left_out_last() -> None:
    assert fitting([6, 10, 8, 5, 25, 40], 200) == [6, 10, 8, 5, 25, 40]
    assert fitting([6, 10, 8, 5, 25, 40], 80) == [6, 10, 8, 5, 25, 16]
    assert fitting([84, 10, 8, 5, 14, 40], 80) == [21, 10, 8, 5, 14, 12]
    assert fitting([6, 10, 8, 5, 25, 40], 40) == [6, 10, 8, 0, 0, 10]
    assert fitting([6, 10, 8, 5, 25, 40], 25) == [6, 7, 0, 0, 0, 8]
    assert fitting([6, 10, 8, 5, 25, 40], 9) == [6, 0, 0, 0, 0, 0]
    assert fitting([1_000_000], 7) == [7] and fitting([5, 1_000_000], 7) == [5, 0]


@pytest.mark.parametrize("columns", [3, 10, 25, 40, 60, 80, 100])
@pytest.mark.parametrize("job_id", ["1", "a" * 84])
@pytest.mark.parametrize("command", ["echo " + "日本語" * 30, "e\u0301" * 90, "x" * 90])
def test_a_table_fits_the_terminal_whatever_it_holds(
    monkeypatch: pytest.MonkeyPatch, columns: int, job_id: str, command: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    row = {**dict.fromkeys(Job._fields), "id": job_id, "state": State.COMPLETED, "finished_at": NOW, "queue": "default"}
    job = Job(**{**row, "priority": 5, "waiting_time": 0, "attempts": 1, "max_retries": 3, "command": command})
    lines = job_table([job, job._replace(command="ls", id="2")]).splitlines()
    assert max(map(width, lines)) <= columns
    assert columns < 40 or columns - max(map(width, lines)) <= 1, "all the room there is is used"


def test_columns_stand_under_each_other_also_behind_wide_letters() -> None:
    rows = [("日本語", "x"), ("e\u0301", "y"), (click.style("abc", fg="red"), "z")]
    for lines in (table(rows, ["name", "letter"]).splitlines()[2:], aligned(rows, 80)):
        assert {width(line[:-1]) for line in lines} == {8}
