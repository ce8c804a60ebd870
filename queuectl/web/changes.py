"""Whether anything has changed since a page last asked: one mark for all threads, used as ETag for status 304."""

from __future__ import annotations

import os
import threading
import time

from queuectl.database import database_url
from queuectl.home import Home
from queuectl.storage import Storage, open_storage

# How often facts are shown that change without a commit: the state of workers, and waiting times.
REFRESH_SECONDS = 5


class Changes:
    """A connection that only reads, so that it notices every commit of other connections, also of this process's."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._storage: Storage | None = None
        self._url = ""
        self._connected = ""  # the marks of two connections are never the same

    def mark(self) -> str:
        """A mark that changes with every commit. The caller must ask for it before it reads the data."""
        with self._lock:
            url = database_url(self._home)
            if self._storage is not None and (url != self._url or not self._storage.is_there()):
                self.close()
            if self._storage is None:
                self._storage, self._url = open_storage(self._home), url
                self._connected = os.urandom(4).hex()
            return f"{self._connected}-{self._storage.version()}-{time.monotonic() // REFRESH_SECONDS:.0f}"

    def close(self) -> None:
        if self._storage is not None:
            self._storage.close()
            self._storage = None
