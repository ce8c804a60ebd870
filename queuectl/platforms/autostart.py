"""One interface to what starts a program when its user logs on: systemd or the desktop on Linux, Windows's Run key."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from queuectl.platforms.windows_autostart import find, install, quiet_python, remove, wording
else:
    from queuectl.platforms.posix_autostart import find, install, quiet_python, remove, wording

__all__ = ["find", "install", "quiet_python", "remove", "wording"]
