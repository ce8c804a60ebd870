"""Serve the dashboard until it is stopped: waitress, with limits on what a client may send and how slowly."""

from __future__ import annotations

import gc
import json
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask

from queuectl.errors import QueueError
from queuectl.files import remove
from queuectl.home import Home
from queuectl.web.address import Address, listen, running_file, tell_who_serves, token_of, who_serves
from queuectl.web.app import make_app
from queuectl.web.guard import HEADERS, LARGEST_BODY, Guard
from queuectl.web.here import Here
from queuectl.web.refusals import line_of

THREADS = 8
CONNECTIONS = 400  # Windows's select takes at most 512
PATIENCE_SECONDS = 30  # for a request to begin, and for a request to be complete
LONGEST_HEADERS = 32_768
SAMPLE_SECONDS = 10.0


class Refusal(ErrorTask):  # type: ignore[misc]
    """The answer to a request that cannot be parsed: JSON, with the same headers as every other refusal."""

    def execute(self) -> None:
        error: Any = self.request.error
        body = json.dumps({"error": line_of(error.code, error.reason)}).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers += [*HEADERS.items(), ("Cache-Control", "no-store"), ("Content-Type", "application/json")]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Channel(HTTPChannel):  # type: ignore[misc]
    error_task_class = Refusal
    last_activity: float

    def handle_read(self) -> None:
        """A request must be complete in time: a byte now and then does not restart the timeout."""
        request, heard_at = self.request, self.last_activity
        super().handle_read()
        if request is not None and self.request is request:
            self.last_activity = heard_at


def serve(home: Home, address: Address, is_read_only: bool, tell: Callable[[str, Guard, Address], None]) -> None:
    """Serve until Ctrl+C or SIGTERM; `tell` is called when the address can be opened."""
    gc.enable()  # the command line disables it, because a command is short-lived
    logging.getLogger("waitress").setLevel(logging.ERROR)
    listening = listen(home, address)
    address = address._replace(port=listening.getsockname()[1])
    token = token_of(home)
    guard = Guard(token, address.names, address.port, is_read_only)
    here = Here(home, is_read_only)
    server = server_on(listening, make_app(here, guard))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    ended = threading.Event()
    threading.Thread(target=sample, args=(here, ended), daemon=True).start()
    tell_who_serves(home, address)
    try:
        tell(address.url(token), guard, address)
        server.run()
    except KeyboardInterrupt:
        pass
    finally:
        ended.set()
        if who_serves(home) in (None, address):  # unless another dashboard was started since
            remove(running_file(home))


def server_on(listening: socket.socket, app: Callable[..., Any], patience_seconds: int = PATIENCE_SECONDS) -> Any:
    """A server with a limited number of connections; it closes connections on which no request comes."""
    server = create_server(
        app,
        sockets=[listening],
        threads=THREADS,
        connection_limit=CONNECTIONS,
        asyncore_use_poll=True,  # select fails on file descriptors from 1,024 on
        channel_timeout=patience_seconds,
        cleanup_interval=max(1, patience_seconds // 3),
        max_request_header_size=LONGEST_HEADERS,
        max_request_body_size=2 * LARGEST_BODY,  # between the two limits it is read, and the guard explains the refusal
        ident="queuectl",
    )
    server.channel_class = Channel
    return server


def sample(here: Here, ended: threading.Event) -> None:
    """Store a sample every minute, also while no worker does."""
    while True:
        with suppress(QueueError):
            here.queue.storage.sample()
        if ended.wait(SAMPLE_SECONDS):
            return
