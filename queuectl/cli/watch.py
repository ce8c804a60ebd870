"""`status --watch`: a live view, drawn over itself when something has changed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from queuectl import platforms
from queuectl.errors import InvalidInput
from queuectl.queue import Queue
from queuectl.screen import draw, look
from queuectl.shapes import queue_json
from queuectl.storage import Storage

SOONEST_SECONDS, LATEST_SECONDS = 0.25, 1.0  # between two drawings; the latest because the view shows ages
# The alternate screen, so that the old content comes back; and no cursor, which would jump about.
OPEN, CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, END_OF_LINE, END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def can_watch() -> bool:
    return sys.stdout.isatty() and platforms.understands_escapes()


def watch(queue: Queue, until: Callable[[], bool] = lambda: False) -> None:
    """Show the live view until `until()` is true, or for ever."""
    if not can_watch():
        raise InvalidInput("--watch needs a terminal to draw on. Here use: queuectl status")
    storage = queue.storage
    storage.wait(0)  # from here on the storage notices every change
    with screen():
        while not until():
            storage.changed()
            columns, rows = shutil.get_terminal_size()
            queues = [queue_json(*found) for found in queue.queues()]
            show(draw(look(storage, *queue.status(), rows, queues), columns, rows))
            pause(storage)


def pause(storage: Storage) -> None:
    """Wait until something has changed, or until the latest time for the next drawing."""
    drawn_at = time.monotonic()
    time.sleep(SOONEST_SECONDS)
    while (left := drawn_at + LATEST_SECONDS - time.monotonic()) > 0 and not storage.changed():
        storage.wait(left)


def show(lines: list[str]) -> None:
    """Draw over the old content, in one write: nothing is cleared first, so nothing flickers."""
    if os.environ.get("NO_COLOR"):
        lines = [click.unstyle(line) for line in lines]
    sys.stdout.write(HOME + f"{END_OF_LINE}\n".join(lines) + END_OF_LINE + END_OF_SCREEN)
    sys.stdout.flush()


@contextmanager
def screen() -> Iterator[None]:
    """Use the alternate screen, and restore the terminal however the view ends."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.stdout.write(OPEN)
        yield
    finally:
        sys.stdout.write(CLOSE)
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, before)
