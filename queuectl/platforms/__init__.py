"""One interface to the operating system: who is who, detached workers, a command's processes and their end.

posix.py and windows.py offer the same names. Nothing that has to do with processes asks elsewhere which platform it is.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from queuectl.platforms.windows import (
        Command,
        Guardian,
        Watcher,
        ask_to_end,
        boot_id,
        default_shell,
        hard_kill,
        is_written,
        kill_marked,
        locked,
        needs_shell,
        pid_space,
        shell_argv,
        spawn_detached,
        start_time,
    )
else:
    from queuectl.platforms.posix import (
        Command,
        Guardian,
        Watcher,
        ask_to_end,
        boot_id,
        default_shell,
        hard_kill,
        is_written,
        kill_marked,
        locked,
        needs_shell,
        pid_space,
        shell_argv,
        spawn_detached,
        start_time,
    )

__all__ = [
    "Command",
    "Guardian",
    "Watcher",
    "ask_to_end",
    "boot_id",
    "default_shell",
    "hard_kill",
    "is_written",
    "kill_marked",
    "locked",
    "needs_shell",
    "pid_space",
    "shell_argv",
    "spawn_detached",
    "start_time",
]
