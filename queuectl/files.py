"""Write, rename and remove files; on Windows this fails while another program has the file open, so it is retried."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

TRIES, TRY_SECONDS = 25, 0.02


def replace(path: str, to: str) -> None:
    """Rename the file; retry while another program has it open for a moment."""
    _insist(lambda: os.replace(path, to))


def write_private(path: str, text: str) -> None:
    """Replace the file, readable by its owner only; after a power cut it has either the old or the new content."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    replace(new, path)


def remove(path: str) -> bool:
    """Remove the file and say whether it is gone; a file that cannot be removed is not an error."""
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
