"""Whether a worker is to stop: signals and the database both say so."""

from __future__ import annotations

import signal
import time
from typing import Any

from queuectl.config import Settings
from queuectl.event_log import EventLog
from queuectl.storage import Storage

HANG_UP = getattr(signal, "SIGHUP", None)


class StopRequest:
    """Whether to stop, and until when the job in hand may go on."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._grace_seconds = float(Settings().stop_grace)  # the setting, as it was when the database was last asked
        self._granted_seconds = 0.0
        self._is_told = False
        self.deadline: float | None = None
        self.signals = 0

    def on_signal(self, number: int, frame: Any) -> None:
        # A terminal that goes away may say so twice, and means it once.
        if number != HANG_UP or not self.signals:
            self.signals += 1
            # A second signal means: at once.
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
        """What the database says. What a signal said is made known, to the log and there: no signal may write."""
        grace = storage.stop_grace(worker)
        if grace is not None:
            self.ask(grace)
        if self.deadline is not None and not self._is_told:
            if grace is None:
                storage.ask_to_stop(worker, self._granted_seconds)
            self._is_told = True
            self._log.say("worker_stopping", grace_seconds=self._granted_seconds)
        self._grace_seconds = storage.known_settings.stop_grace
