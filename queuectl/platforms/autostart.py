"""One interface for starting a program at logon: by systemd or the desktop on Linux, by the Run key on Windows."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from queuectl.platforms.windows_autostart import find, install, quiet_python, remove, wording
else:
    from queuectl.platforms.posix_autostart import find, install, quiet_python, remove, wording

__all__ = ["find", "install", "quiet_python", "remove", "wording"]
