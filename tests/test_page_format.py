"""What the page makes of text, numbers and escape sequences: the modules that only compute, run in the browser."""

from __future__ import annotations

from typing import Any

import pytest

from queuectl.times import as_typed, roughly, spoken

from .browser import Visitor
from .web import Web

LINES = """async (text) => {
    const { Reader } = await import("/static/ansi.js");
    const whole = new Reader();
    const pieces = new Reader(); // the same text, letter by letter
    const found = [...whole.read(text), whole.current];
    const others = [...[...text].flatMap((letter) => pieces.read(letter)), pieces.current];
    const joined = (lines) => lines.map((line) => line.map((piece) => piece.text).join("")).join("\\n");
    return [found, joined(found) === joined(others)];
}"""
FORMAT = """async ([name, values]) => {
    const format = await import("/static/format.js");
    return values.map((value) => format[name](value));
}"""


def styled(visitor: Visitor, text: str) -> list[tuple[str, dict[str, Any]]]:
    lines, is_same = visitor.page.evaluate(LINES, text)
    assert is_same, "wherever it is cut"
    return [(piece["text"], piece["style"]) for line in lines for piece in line]


@pytest.mark.parametrize(
    "sequence, style",
    [
        ("4:3", {"underline": True}),
        ("4;4:0", {"underline": False}),
        ("38:5:208", {"fore": "rgb(255 135 0)"}),
        ("38:2::255:0:0", {"fore": "rgb(255 0 0)"}),
        ("48:2:0:0:255", {"back": "rgb(0 0 255)"}),
        ("38;2;255;128;0;1", {"fore": "rgb(255 128 0)", "bold": True}),
        ("58;5;1;3", {"italic": True}),
        ("58:2::1:3:4", {}),
    ],
)
def test_numbers_with_colons_between_belong_together(
    web: Web, visitor: Visitor, sequence: str, style: dict[str, Any]
) -> None:
    visitor.enter(web)
    assert styled(visitor, f"\x1b[{sequence}mtext") == [("text", style)]


def test_a_sequence_without_an_end_swallows_no_more_than_itself(web: Web, visitor: Visitor) -> None:
    visitor.enter(web)
    text = "".join(text for text, _ in styled(visitor, "one \x1b]0;title\ntwo\x1b[31mthree\x1b]0;title\x07 four"))
    assert text == "one ]0;titletwothree four"


def test_durations_are_told_in_the_words_of_the_command_line(web: Web, visitor: Visitor) -> None:
    page = visitor.enter(web)
    seconds = [0, 0.0031, 0.0994, 0.1, 0.42, 9.994, 12.7, 59.4, 59.7, 60, 180, 200, 3599.9, 3600, 7500, 86400, 100000]
    for name, said in {"duration": spoken, "roughly": roughly}.items():
        assert page.evaluate(FORMAT, [name, seconds]) == [said(value) for value in seconds], name
    whole = [1, 60, 90, 900, 5400, 86400, 90061]
    assert page.evaluate(FORMAT, ["asTyped", whole]) == [as_typed(value) for value in whole]
