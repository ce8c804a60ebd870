"""Retry while the database cannot be used, so that a full disk or a server's restart does not lose the job in hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from queuectl.errors import StorageError
from queuectl.event_log import EventLog
from queuectl.stopping import StopRequest
from queuectl.storage import Storage

SHORTEST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.25, 4.0
COMPLAIN_SECONDS = 10.0  # the same error is logged again only after this time

Result = TypeVar("Result")


class Patience:
    """Runs a worker's actions on the database, and retries them after errors."""

    def __init__(self, storage: Storage, stop: StopRequest, log: EventLog) -> None:
        self._storage = storage
        self._stop = stop
        self._log = log
        self.longest_pause = LONGEST_RETRY_SECONDS
        self.has_failed = False  # an action failed; it may have been committed, and only the answer been lost
        self._pause = self._retry_at = 0.0
        self._complaint, self._complained_at = "", 0.0

    def insist(self, action: Callable[[], Result], until_overdue: bool = False) -> Result:
        """Retry until the database answers; give up once a signal has asked the worker to stop.

        With `until_overdue`, as for storing a run's outcome, it goes on after a signal until the grace time is over.
        """
        while True:
            try:
                result = action()
            except (StorageError, OSError) as error:
                self.has_failed = True
                pause = self._be_away(error)
                gives_up = self._stop.overdue if until_overdue else self._stop.signals
                if gives_up or not self._storage.is_there():
                    raise
                time.sleep(pause)
            else:
                if self._pause:
                    self._be_back()
                return result

    def attempt(self, action: Callable[[], Result]) -> Result | None:
        """Try once, without waiting; None while the database cannot be used."""
        if time.monotonic() < self._retry_at:
            return None
        try:
            result = action()
        except (StorageError, OSError) as error:
            self._retry_at = time.monotonic() + self._be_away(error)
            return None
        if self._pause:
            self._be_back()
        return result

    def _be_away(self, error: Exception) -> float:
        """Log the error, but not the same one at every retry; return the pause before the next retry in seconds."""
        said = str(error)
        if said != self._complaint or time.monotonic() - self._complained_at >= COMPLAIN_SECONDS:
            self._log.say("database_away", error=said)
            self._complaint, self._complained_at = said, time.monotonic()
        self._pause = min(2 * self._pause, LONGEST_RETRY_SECONDS, self.longest_pause) or SHORTEST_RETRY_SECONDS
        return self._pause

    def _be_back(self) -> None:
        self._pause, self._complaint = 0.0, ""
        self._log.say("database_back")
