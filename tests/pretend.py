"""What the processes of a test are made to believe: that they are on another machine, that the clock was set, that time
flies, that the disk is full.

It is said by a sitecustomize, which every Python reads that starts with its directory on the path.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

AHEAD = """
import sys, time
sys.path.append({root!r})
_time_ns = time.time_ns
def _ahead():
    with open({ahead!r}) as file:
        return int(file.read())
time.time_ns = lambda: _time_ns() + _ahead()
time.time = lambda: time.time_ns() / 1e9
"""
MACHINE = """
import socket
socket.gethostname = lambda: {name!r}
from queuectl import platforms
platforms.boot_id = lambda: {name!r} + "'s boot"
"""
# All clocks gain on the real ones alike, from one moment on that is the same for everybody.
FAST = """
_steady, _get, _get_ns, _monotonic = time.monotonic_ns, time.clock_gettime, time.clock_gettime_ns, time.monotonic
_gained = lambda: (_steady() - {began}) * ({rate} - 1)
_set = time.time_ns
time.time_ns = lambda: _set() + _gained()
time.monotonic = lambda: _monotonic() + _gained() / 1e9
time.monotonic_ns = lambda: _steady() + _gained()
time.clock_gettime = lambda clock: _get(clock) + _gained() / 1e9
time.clock_gettime_ns = lambda clock: _get_ns(clock) + _gained()
"""
# While the file is there nothing can be committed.
FULL = """
import os, sqlite3
from functools import partial
class _Cursor(sqlite3.Cursor):
    def execute(self, sql, *parameters):
        if sql == "COMMIT" and os.path.exists({full!r}):
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *parameters)
class _Connection(sqlite3.Connection):
    def cursor(self):
        return super().cursor(_Cursor)
sqlite3.connect = partial(sqlite3.connect, factory=_Connection)
"""


def pretend(
    directory: Path, name: str = "", ahead_seconds: float = 0, rate: int = 1, may_be_full: bool = False
) -> dict[str, str]:
    """The environment in which Python is another machine's, or at another time; only what is named."""
    set_clock(directory, ahead_seconds)
    code = AHEAD.format(root=str(ROOT), ahead=str(directory / "ahead"))
    if rate != 1:
        code += FAST.format(began=time.monotonic_ns(), rate=rate)
    if name:
        code += MACHINE.format(name=name)
    if may_be_full:
        code += FULL.format(full=str(directory / "full"))
    (directory / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": str(directory)}


def set_clock(directory: Path, ahead_seconds: float) -> None:
    """Set the wall clock of who believes this directory."""
    (directory / "ahead.new").write_text(str(round(ahead_seconds * 1e9)))
    os.replace(directory / "ahead.new", directory / "ahead")
