"""Workers at logon: write, remove and look at what starts at_logon.py when the user logs on."""

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
    """What starts the workers of a home at logon."""

    kind: str
    place: str
    workers: int
    is_active: bool  # not switched off by other means
    is_current: bool  # what `enable` would write now
    remark: str


def enable(home: Home, count: int) -> Autostart:
    """From the next logon on there are so many workers, those that run by then included."""
    try:
        install(name(home), *commands(home, str(count)))
    except (OSError, ValueError) as error:
        raise QueueError(f"Cannot have workers start at logon: {error}") from error
    found = status(home)
    if found is None or not found.is_active:
        raise QueueError("Cannot have workers start at logon: what was written is not there, or not in use")
    return found


def disable(home: Home) -> str | None:
    """Returns where it was, if it was anywhere."""
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
    """Each home has an entry of its own."""
    root, usual = (os.path.normcase(path) for path in (home.root, usual_home()))
    return "queuectl" if root == usual else f"queuectl-{blake2b(os.fsencode(root), digest_size=4).hexdigest()}"


def commands(home: Home, count: str) -> tuple[list[str], list[str]]:
    """How to start the workers, and how to stop them. An entry has no environment, so the home is an option."""
    common = [quiet_python(), "-X", "utf8", PROGRAM, "--home", home.root]
    return [*common, "--count", count], [*common, "--stop"]
