"""Windows: start a program at logon by the user's Run key, which needs no administrator."""

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
# Windows notes here which entries the user has switched off in the Task Manager: their first byte is odd.
APPROVED = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
KIND = "Run key"
LONGEST_LINE = 260
# A command line longer than LONGEST_LINE is written to this file, and the Run key starts the file.
LAUNCHER = """# Written by `queuectl worker autostart enable`: the Run key takes no line as long as this one.
import subprocess, sys
sys.exit(subprocess.call({line!r}))
"""


def quiet_python() -> str:
    """The interpreter that opens no window, if it exists."""
    quiet = os.path.join(os.path.dirname(sys.executable), "pythonw.exe")
    return quiet if os.path.exists(quiet) else sys.executable


def install(name: str, start: Sequence[str], stop: Sequence[str]) -> Entry:
    """Write the entry that runs `start` at logon, in place of an earlier one; Windows has no use for `stop`."""
    if "\\windowsapps\\" in sys.base_prefix.lower():
        raise ValueError(
            "the Python of the Microsoft Store has a registry of its own, which Windows does not read at logon. "
            "Use the Python of python.org"
        )
    remove(name)
    line = text = wording(KIND, start, stop)
    if len(line) > LONGEST_LINE:
        path = _launcher(name)
        line = subprocess.list2cmdline([start[0], path])
        if len(line) > LONGEST_LINE:
            raise ValueError(f"Windows takes {LONGEST_LINE} characters there, and this is longer: {line}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with winreg.CreateKey(winreg.HKEY_CURRENT_USER, RUN) as key:
        winreg.SetValueEx(key, name, 0, winreg.REG_SZ, line)
    return _entry(name, line)


def wording(kind: str, start: Sequence[str], stop: Sequence[str]) -> str:
    """The text of the entry: the command line, or the launcher file if the line is too long."""
    line = subprocess.list2cmdline(start)
    return line if len(line) <= LONGEST_LINE else LAUNCHER.format(line=line)


def find(name: str) -> Entry | None:
    line = _value(RUN, name)
    return _entry(name, line) if isinstance(line, str) else None


def remove(name: str) -> Entry | None:
    """Remove the entry; running workers go on."""
    found = find(name)
    for path in (RUN, APPROVED):
        with suppress(FileNotFoundError), winreg.OpenKey(winreg.HKEY_CURRENT_USER, path, 0, winreg.KEY_WRITE) as key:
            winreg.DeleteValue(key, name)
    with suppress(FileNotFoundError):
        os.remove(_launcher(name))
    return found


def _launcher(name: str) -> str:
    local = os.environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    return os.path.join(local, "queuectl", f"{name}.pyw")


def _entry(name: str, line: str) -> Entry:
    text = line
    if line.rstrip('"').endswith(_launcher(name)):
        with suppress(FileNotFoundError), open(_launcher(name), encoding="utf-8") as file:
            text = file.read()
    approved = _value(APPROVED, name)
    is_active = not (isinstance(approved, bytes) and approved[:1] and approved[0] % 2)
    return Entry(KIND, rf"HKEY_CURRENT_USER\{RUN}\{name}", text, is_active)


def _value(path: str, name: str) -> object:
    with suppress(OSError), winreg.OpenKey(winreg.HKEY_CURRENT_USER, path) as key:
        return winreg.QueryValueEx(key, name)[0]
    return None
