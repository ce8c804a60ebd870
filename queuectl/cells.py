"""Text on a terminal: how many cells it takes, and how it is cut to fit. Colours take none and survive the cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

COLOUR = re.compile(r"(\x1b\[[\d;]*m)")
JOINERS = "\u200c\u200d"  # which some scripts, and emoji, are not written right without
GAP = 2  # between two columns
LONG = 26  # a state, a time or an id is no longer: only free text gives way down to here
LAST = 12  # then the last column does, which is free text mostly
NARROW, NARROWEST = 10, 4


def printable(text: str, kept: str = "") -> str:
    """The text with nothing in it that would move the cursor or hide the rest: that is shown escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter in kept or is_shown(letter) else escaped(letter) for letter in text)


def is_shown(letter: str) -> bool:
    return letter.isprintable() or letter in JOINERS or unicodedata.category(letter) == "Zs"


def escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def width(text: str) -> int:
    """How many cells a terminal needs for it: East Asian letters take two, combining ones none."""
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
            shown += part  # also behind the cut: it ends what has begun before
            continue
        for letter in part if left >= 0 else "":
            left -= width_of(letter)
            if left < 0:
                shown += "…"
                break
            shown += letter
    return shown if room > 0 else ""


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """How wide each column may be for all to fit, with a gap between; 0 for one that is left out.

    The first, the second and the last are left out only where the others are already.
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
