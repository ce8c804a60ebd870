"""Whether a worker must stop: it may be told by a signal or through the database."""

from __future__ import annotations

import signal
import time
from typing import Any

from queuectl.config import Settings
from queuectl.event_log import EventLog
from queuectl.storage import Storage

HANG_UP = getattr(signal, "SIGHUP", None)


class StopRequest:
    """Whether the worker must stop, and how long the job in hand may still run."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._grace_seconds = float(Settings().stop_grace)  # the setting, as it was when the database was last asked
        self._granted_seconds = 0.0
        self._is_told = False
        self.deadline: float | None = None
        self.signals = 0

    def on_signal(self, number: int, frame: Any) -> None:
        # A closing terminal may send SIGHUP twice; the second one must not count as a second signal.
        if number != HANG_UP or not self.signals:
            self.signals += 1
            # A second signal ends the job in hand at once.
            self.ask(self._grace_seconds if self.signals == 1 else 0)

    def ask(self, grace_seconds: float) -> None:
        deadline = time.monotonic() + grace_seconds
        if self.deadline is None or deadline < self.deadline:
            self.deadline, self._granted_seconds = deadline, grace_seconds

    @property
    def asked(self) -> bool:
        return self.deadline is not None

    @property
    def overdue(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def read(self, storage: Storage, worker: str) -> None:
        """Read a stop request from the database; log and store one that a signal made, as a signal handler must not."""
        grace = storage.stop_grace(worker)
        if grace is not None:
            self.ask(grace)
        if self.deadline is not None and not self._is_told:
            if grace is None:
                storage.ask_to_stop(worker, self._granted_seconds)
            self._is_told = True
            self._log.say("worker_stopping", grace_seconds=self._granted_seconds)
        self._grace_seconds = storage.known_settings.stop_grace
