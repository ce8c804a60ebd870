"""What starts a program when its user logs on, as it was written."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    kind: str
    place: str  # the file, or the value in the registry
    text: str
    is_active: bool = True  # not switched off by other means
    remark: str = ""  # what a person should know of it
