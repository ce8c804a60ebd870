"""One interface to the operating system: process identity, waiting, locks, detached workers; runs.py has runs.

posix and windows define the same names. Outside this package, no code about processes asks which platform it is on.
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
