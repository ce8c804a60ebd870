"""Windows: at logon the user's Run key starts a program; no administrator is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import winreg
from collections.abc import Sequence
from contextlib import suppress

assert sys.platform == "win32"

from queuectl.platforms.entry import Entry

RUN = r"Software\Microsoft\Windows\CurrentVersion\Run"
# Where Windows notes what its user has switched off in the Task Manager: an odd first byte.
APPROVED = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
KIND = "Run key"
LONGEST_LINE = 260


def quiet_python() -> str:
    """The interpreter that opens no window, if it is there."""
    quiet = os.path.join(os.path.dirname(sys.executable), "pythonw.exe")
    return quiet if os.path.exists(quiet) else sys.executable


def install(name: str, start: Sequence[str], stop: Sequence[str]) -> Entry:
    """Write what starts it at logon, in place of what was there before; Windows has no use for how to stop it."""
    line = wording(KIND, start, stop)
    if len(line) > LONGEST_LINE:
        raise ValueError(
            f"its command line would be {len(line)} characters long, and Windows takes {LONGEST_LINE} there: {line}"
        )
    remove(name)
    with winreg.CreateKey(winreg.HKEY_CURRENT_USER, RUN) as key:
        winreg.SetValueEx(key, name, 0, winreg.REG_SZ, line)
    return _entry(name, line)


def wording(kind: str, start: Sequence[str], stop: Sequence[str]) -> str:
    """What is written to start it at logon."""
    return subprocess.list2cmdline(start)


def find(name: str) -> Entry | None:
    line = _value(RUN, name)
    return _entry(name, line) if isinstance(line, str) else None


def remove(name: str) -> Entry | None:
    """Take away what starts it at logon; what runs now goes on."""
    found = find(name)
    for path in (RUN, APPROVED):
        with suppress(FileNotFoundError), winreg.OpenKey(winreg.HKEY_CURRENT_USER, path, 0, winreg.KEY_WRITE) as key:
            winreg.DeleteValue(key, name)
    return found


def _entry(name: str, line: str) -> Entry:
    approved = _value(APPROVED, name)
    is_active = not (isinstance(approved, bytes) and approved[:1] and approved[0] % 2)
    return Entry(KIND, rf"HKEY_CURRENT_USER\{RUN}\{name}", line, is_active)


def _value(path: str, name: str) -> object:
    with suppress(OSError), winreg.OpenKey(winreg.HKEY_CURRENT_USER, path) as key:
        return winreg.QueryValueEx(key, name)[0]
    return None
