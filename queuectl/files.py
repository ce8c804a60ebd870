"""Renaming and removing files that somebody else may have open, which Windows forbids meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

TRIES, TRY_SECONDS = 25, 0.02


def replace(path: str, to: str) -> None:
    """Give the file another name, however often somebody looks at it for a moment."""
    _insist(lambda: os.replace(path, to))


def remove(path: str) -> None:
    """Remove the file, if it is there and can be: a file too many is no reason to fail."""
    with suppress(OSError):
        _insist(lambda: os.remove(path))


def _insist(action: Callable[[], None]) -> None:
    for _ in range(TRIES - 1 if os.name == "nt" else 0):
        try:
            return action()
        except PermissionError:
            time.sleep(TRY_SECONDS)
    action()
