"""Text on a terminal: how many cells it takes, and how it is cut to fit. Colour codes take no cell and are kept."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

COLOUR = re.compile(r"(\x1b\[[\d;]*m)")
JOINERS = "\u200c\u200d"  # some scripts and emoji need them
GAP = 2  # between two columns
LONG = 26  # states, times and ids are shorter, so only columns of free text are narrowed to this width
LAST = 12  # then only the last column is narrowed to this width: it usually holds free text
NARROW, NARROWEST = 10, 4


def printable(text: str, kept: str = "") -> str:
    """The text with its control characters escaped, which could move the cursor or hide other text."""
    if text.isprintable():
        return text
    return "".join(letter if letter in kept or is_shown(letter) else escaped(letter) for letter in text)


def is_shown(letter: str) -> bool:
    return letter.isprintable() or letter in JOINERS or unicodedata.category(letter) == "Zs"


def escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def width(text: str) -> int:
    """How many cells a terminal needs for the text: wide East Asian letters take two, combining characters none."""
    bare = COLOUR.sub("", text) if "\x1b" in text else text
    return len(bare) if bare.isascii() else sum(map(width_of, bare))


def width_of(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    shown, left = "", room - 1
    for part in COLOUR.split(text):
        if COLOUR.match(part):
            shown += part  # colour codes behind the cut are kept too: one of them resets the colour
            continue
        for letter in part if left >= 0 else "":
            left -= width_of(letter)
            if left < 0:
                shown += "…"
                break
            shown += letter
    return shown if room > 0 else ""


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """The width of each column so that all columns fit, with a gap between them; 0 for a column that is left out.

    The first, the second and the last column are left out only after all others.
    """
    given = [min(wanted, room) for wanted in widths]
    left = list(range(len(given)))

    def excess(most: int = room) -> int:
        return sum(min(given[place], most) for place in left) + GAP * (len(left) - 1) - room

    def narrow(places: Sequence[int], least: int) -> None:
        while excess() > 0 and max(given[place] for place in places) > least:
            given[max(places, key=given.__getitem__)] -= 1

    def leave_out(fewest: int, least: int) -> None:
        while len(left) > fewest and excess(least) > 0:
            given[left.pop(-2 if len(left) > 2 else -1)] = 0

    leave_out(3, NARROW)
    narrow(left, LONG)
    narrow(left[-1:], LAST)
    narrow(left, NARROW)
    leave_out(1, NARROWEST)
    narrow(left, 1)
    return given
