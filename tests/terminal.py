"""A command on a terminal of a given size, whose screen is read while the command runs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import SCRIPT, Cli


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self.shown = ""

    def until(self, text: str, seconds: float = 30) -> str:
        """Read until this was shown; all that was shown by then."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(0.1) or self.process.poll() is None, self.shown
        return self.shown

    def to_the_end(self, seconds: float = 30) -> int:
        """Read until the command has ended; its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.1) or self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
        return self.process.wait()

    def _read(self, seconds: float) -> bool:
        if not self._poll.poll(seconds * 1000):
            return False
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.shown += part.decode("utf-8", "replace")
        return bool(part)


@contextmanager
def terminal(cli: Cli, *args: str, columns: int = 120, rows: int = 30) -> Iterator[Terminal]:
    if os.name != "posix":
        pytest.skip("this platform has no pseudo-terminals")
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    known = {name: value for name, value in cli.env.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cli.cwd,
        env={**known, "TERM": "xterm"},
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
