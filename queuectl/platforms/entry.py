"""The operating system's entry that starts a program when its user logs on."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    kind: str
    place: str  # the file, or the value in the registry
    text: str
    is_active: bool = True  # the user has not switched it off in the operating system
    remark: str = ""  # a note for the user
