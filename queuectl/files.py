"""Writing, renaming and removing files that another program may have open, which Windows forbids meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

TRIES, TRY_SECONDS = 25, 0.02


def replace(path: str, to: str) -> None:
    """Give the file another name, however often somebody looks at it for a moment."""
    _insist(lambda: os.replace(path, to))


def write_private(path: str, text: str) -> None:
    """Write the file whole, for its owner's eyes only; a power cut leaves it as it was, or as it is to be."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    replace(new, path)


def remove(path: str) -> bool:
    """Remove the file if it can be, and say whether it is gone: a file too many is no reason to fail."""
    try:
        _insist(lambda: os.remove(path))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _insist(action: Callable[[], None]) -> None:
    for _ in range(TRIES - 1 if os.name == "nt" else 0):
        try:
            return action()
        except PermissionError:
            time.sleep(TRY_SECONDS)
    action()
