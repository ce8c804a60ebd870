"""Workers at logon: write, remove and inspect the operating system's entry that starts at_logon.py."""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import NamedTuple

from queuectl.errors import QueueError
from queuectl.home import Home, usual_home
from queuectl.platforms.autostart import find, install, quiet_python, remove, wording

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "at_logon.py")
COUNT = re.compile(r'--count"? "?(\d+)')


class Autostart(NamedTuple):
    """The operating system's entry that starts the workers of a home at logon."""

    kind: str
    place: str
    workers: int
    is_active: bool  # the user has not switched it off in the operating system
    is_current: bool  # its text is what `enable` would write now
    remark: str


def enable(home: Home, count: int) -> Autostart:
    """From the next logon on, have this many workers in total, including those that already run then."""
    try:
        install(name(home), *commands(home, str(count)))
    except (OSError, ValueError) as error:
        raise QueueError(f"Cannot have workers start at logon: {error}") from error
    found = status(home)
    if found is None or not found.is_active:
        raise QueueError("Cannot have workers start at logon: the entry that was written is missing or switched off")
    return found


def disable(home: Home) -> str | None:
    """Remove the entry; return its file or registry value, or None if there was no entry."""
    found = remove(name(home))
    return found.place if found else None


def status(home: Home) -> Autostart | None:
    found = find(name(home))
    if found is None:
        return None
    count = COUNT.search(found.text)
    number = count[1] if count else "0"
    is_current = found.text == wording(found.kind, *commands(home, number))
    return Autostart(found.kind, found.place, int(number), found.is_active, is_current, found.remark)


def name(home: Home) -> str:
    """The name of the home's entry: each home has its own."""
    root, usual = (os.path.normcase(path) for path in (home.root, usual_home()))
    return "queuectl" if root == usual else f"queuectl-{blake2b(os.fsencode(root), digest_size=4).hexdigest()}"


def commands(home: Home, count: str) -> tuple[list[str], list[str]]:
    """The command lines that start and stop the workers. An entry sets no environment variables, so --home is given."""
    common = [quiet_python(), "-X", "utf8", PROGRAM, "--home", home.root]
    return [*common, "--count", count], [*common, "--stop"]
