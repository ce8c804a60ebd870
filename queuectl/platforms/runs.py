"""One interface to the processes of a run: start them, guard them, end all of them."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from queuectl.platforms.windows_runs import (
        Command,
        Guardian,
        as_given,
        ask_to_end,
        hard_kill,
        is_written,
        kill_marked,
        list_argv,
        shell_argv,
    )
else:
    from queuectl.platforms.posix_runs import (
        Command,
        Guardian,
        as_given,
        ask_to_end,
        hard_kill,
        is_written,
        kill_marked,
        list_argv,
        shell_argv,
    )

__all__ = [
    "Command",
    "Guardian",
    "as_given",
    "ask_to_end",
    "hard_kill",
    "is_written",
    "kill_marked",
    "list_argv",
    "shell_argv",
]
