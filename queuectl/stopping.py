"""Whether a worker is to stop: signals and the database both say so."""

from __future__ import annotations

import signal
import time
from typing import Any

from queuectl.event_log import EventLog
from queuectl.storage import Storage

HANG_UP = getattr(signal, "SIGHUP", None)


class StopRequest:
    """Whether to stop, and until when the job in hand may go on."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.deadline: float | None = None
        self.signals = 0

    def on_signal(self, number: int, frame: Any) -> None:
        # A terminal that goes away may say so twice, and means it once.
        if number != HANG_UP or not self.signals:
            self.signals += 1

    def ask(self, grace_seconds: float) -> None:
        deadline = time.monotonic() + grace_seconds
        if self.deadline is None:
            self._log.say("worker_stopping", grace_seconds=grace_seconds)
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)

    @property
    def asked(self) -> bool:
        return self.deadline is not None or self.signals > 0

    @property
    def overdue(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def read(self, storage: Storage, worker: str) -> None:
        """What signals and the database have said so far."""
        if self.signals:
            # A second signal means: at once.
            self.ask(storage.settings().stop_grace if self.signals == 1 else 0)
        grace = storage.stop_grace(worker)
        if grace is not None:
            self.ask(grace)
