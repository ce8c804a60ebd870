"""One interface to the operating system: who is who, waiting, locks, detached workers; in runs.py a run's processes.

posix and windows offer the same names. Nothing that has to do with processes asks elsewhere which platform it is.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from queuectl.platforms.windows import (
        CODE_PAGE,
        Watcher,
        began_before_logon,
        boot_id,
        create_private,
        default_shell,
        is_builtin,
        is_console,
        locked,
        own_interpreter,
        pid_space,
        spawn_detached,
        start_time,
        understands_escapes,
    )
else:
    from queuectl.platforms.posix import (
        CODE_PAGE,
        Watcher,
        began_before_logon,
        boot_id,
        create_private,
        default_shell,
        is_builtin,
        is_console,
        locked,
        own_interpreter,
        pid_space,
        spawn_detached,
        start_time,
        understands_escapes,
    )

__all__ = [
    "CODE_PAGE",
    "Watcher",
    "began_before_logon",
    "boot_id",
    "create_private",
    "default_shell",
    "is_builtin",
    "is_console",
    "locked",
    "own_interpreter",
    "pid_space",
    "spawn_detached",
    "start_time",
    "understands_escapes",
]
