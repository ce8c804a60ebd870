"""A background job queue for shell commands.

From Python: `from queuectl import Queue`; docs/python.md shows how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queuectl.errors import QueueError, WaitedTooLong
    from queuectl.job import Job, State
    from queuectl.queue import Queue, Status
    from queuectl.storage import Added, Run

__version__ = "0.1.0"
__all__ = ["Added", "Job", "Queue", "QueueError", "Run", "State", "Status", "WaitedTooLong", "__version__"]

_HOMES = {
    **dict.fromkeys(("Queue", "Status"), "queue"),
    **dict.fromkeys(("Job", "State"), "job"),
    **dict.fromkeys(("QueueError", "WaitedTooLong"), "errors"),
    **dict.fromkeys(("Added", "Run"), "storage"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first access: workers and the command line need only some of the modules."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"queuectl.{_HOMES[name]}"), name)
