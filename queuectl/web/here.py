"""What every request can reach: the queue, and what the server keeps between requests."""

from __future__ import annotations

import threading

from flask import current_app

from queuectl.database import database_url
from queuectl.home import Home
from queuectl.queue import Queue
from queuectl.web.changes import Changes
from queuectl.web.usage import Usage


class Here:
    def __init__(self, home: Home, is_read_only: bool) -> None:
        self.home = home
        self.is_read_only = is_read_only
        self.changes = Changes(home)
        self.usage = Usage()
        self._own = threading.local()

    @property
    def queue(self) -> Queue:
        """This thread's queue: an SQLite connection belongs to the thread that opened it."""
        url = database_url(self.home)
        if not hasattr(self._own, "queue"):
            self._own.queue, self._own.url = Queue(self.home.root), url
        queue: Queue = self._own.queue
        if url != self._own.url or not queue.storage.is_there():
            queue.close()  # the queue has moved, or its file was replaced: the next use opens the current one
            self._own.url = url
        return queue


def here() -> Here:
    found: Here = current_app.extensions["queuectl"]
    return found
