"""Linux: start a program at logon by a systemd user unit or, without systemd, by the desktop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

assert sys.platform != "win32"

from queuectl.platforms.entry import Entry

UNIT, DESKTOP = "systemd user unit", "XDG autostart entry"
# The workers detach but stay in the unit's cgroup, and RemainAfterExit keeps the unit active until it is stopped. Then
# ExecStop stops the workers gently first, for as long as stop_grace allows; systemd kills what is left after that.
UNIT_TEXT = """[Unit]
Description=queuectl workers

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={start}
ExecStop={stop}
TimeoutStopSec=infinity

[Install]
WantedBy=default.target
"""
DESKTOP_TEXT = """[Desktop Entry]
Type=Application
Name=queuectl workers
Exec={start}
Terminal=false
NoDisplay=true
"""
LINGER = (
    "They start when you first log on and stop when you have logged out everywhere. To have them from the start of the "
    "machine until its end: loginctl enable-linger"
)


def quiet_python() -> str:
    """The interpreter that opens no window."""
    return sys.executable


def install(name: str, start: Sequence[str], stop: Sequence[str]) -> Entry:
    """Write the entry that runs `start` at logon, in place of an earlier one."""
    if any("\n" in word for word in (*start, *stop)):
        raise ValueError("there is a line break in the path of queuectl, of Python or of the home")
    remove(name)
    if _systemctl("daemon-reload"):
        path = _unit(name)
        _write(path, wording(UNIT, start, stop))
        if _systemctl("daemon-reload") and _systemctl("enable", os.path.basename(path)):
            return _entry(UNIT, path, _is_enabled(name))
        os.remove(path)
    _write(_desktop(name), wording(DESKTOP, start, stop))
    return _entry(DESKTOP, _desktop(name))


def wording(kind: str, start: Sequence[str], stop: Sequence[str]) -> str:
    """The text of the entry."""
    if kind == UNIT:
        return UNIT_TEXT.format(start=_unit_line(start), stop=_unit_line(stop))
    return DESKTOP_TEXT.format(start=_desktop_line(start))


def find(name: str) -> Entry | None:
    if os.path.exists(_unit(name)):
        return _entry(UNIT, _unit(name), _is_enabled(name))
    if os.path.exists(_desktop(name)):
        return _entry(DESKTOP, _desktop(name))
    return None


def remove(name: str) -> Entry | None:
    """Remove the entry; running workers go on."""
    found = find(name)
    if os.path.lexists(_wanted(name)) or os.path.exists(_unit(name)):
        _systemctl("disable", os.path.basename(_unit(name)))
    for path in (_wanted(name), _unit(name), _desktop(name)):
        with suppress(FileNotFoundError):
            os.remove(path)
    if found and found.kind == UNIT:
        _systemctl("daemon-reload")
    return found


def _entry(kind: str, path: str, is_active: bool = True) -> Entry:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    lingers = os.path.exists(f"/var/lib/systemd/linger/{os.environ.get('USER', '')}") and "USER" in os.environ
    return Entry(kind, path, text, is_active, LINGER if kind == UNIT and not lingers else "")


def _config(*parts: str) -> str:
    root = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(root, *parts)


def _unit(name: str) -> str:
    return _config("systemd", "user", f"{name}.service")


def _wanted(name: str) -> str:
    """The symbolic link that makes the unit enabled."""
    return _config("systemd", "user", "default.target.wants", f"{name}.service")


def _is_enabled(name: str) -> bool:
    return os.path.lexists(_wanted(name))


def _desktop(name: str) -> str:
    return _config("autostart", f"{name}.desktop")


def _systemctl(*words: str) -> bool:
    """Run systemctl for the user; True if it exists and succeeded."""
    try:
        return subprocess.run(["systemctl", "--user", *words], capture_output=True).returncode == 0
    except OSError:
        return False


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _unit_line(argv: Sequence[str]) -> str:
    """Quote for systemd, which reads escapes as C does, and expands %specifiers and $VARIABLES even within quotes."""
    return " ".join(
        '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$") + '"'
        for word in argv
    )


def _desktop_line(argv: Sequence[str]) -> str:
    """Quote for a desktop entry: backslashes are unescaped twice, as the key's value and then as its command line."""
    words = []
    for word in argv:
        for letter in '\\"`$':
            word = word.replace(letter, "\\" + letter)
        words.append('"' + word.replace("%", "%%") + '"')
    return " ".join(words).replace("\\", "\\\\")
