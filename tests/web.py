"""A dashboard of a test's own: `queuectl web` as a user starts it, and requests as anybody could send them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from conftest import Cli


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Web:
    """A server in a process of its own, on a port that was free."""

    def __init__(self, cli: Cli, *options: str) -> None:
        self.process = subprocess.Popen(
            cli.argv(["web", "--port", "0", *options]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cli.cwd,
            env=cli.env,
            encoding="utf-8",
            preexec_fn=None if os.name == "nt" else hear_ctrl_c,
        )
        assert self.process.stdout is not None
        self.said: list[str] = []
        while not (found := re.search(r"http://(\S+):(\d+)/\?token=(\S+)", "".join(self.said))):
            line = self.process.stdout.readline()
            assert line, self.said
            self.said.append(line)
        self.host, self.port, self.token = found[1], int(found[2]), found[3]
        self.url = found[0]
        self.origin = f"http://{self.host}:{self.port}"

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | bytes | None = None
    ) -> Answer:
        """A request with these headers, and with none that would let it in."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, body, {"Host": f"{self.host}:{self.port}", **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode("utf-8", "replace"))
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, {**self.bearer, **headers})

    def post(self, path: str, value: Any = None) -> Answer:
        if value is None:
            return self.ask("POST", path, self.bearer)
        return self.ask("POST", path, {**self.bearer, "Content-Type": "application/json"}, json.dumps(value))

    def enter(self) -> dict[str, str]:
        """The headers that the page sends once its browser was let in."""
        cookie = self.ask("GET", f"/?token={self.token}").headers["Set-Cookie"].partition(";")[0]
        page = self.ask("GET", "/", {"Cookie": cookie}).text
        [csrf_token] = re.findall(r'<meta name="csrf-token" content="([^"]+)">', page)
        return {"Cookie": cookie, "X-CSRF-Token": csrf_token, "Origin": self.origin, "Sec-Fetch-Site": "same-origin"}

    def raw(self, sent: bytes) -> bytes:
        """What comes back for these bytes, until the server closes the connection."""
        with socket.create_connection((self.host, self.port), timeout=30) as connection:
            connection.sendall(sent)
            received = b""
            while part := connection.recv(65536):
                received += part
        return received

    def end(self) -> str:
        """Stop it, and return all that it has said."""
        self.process.terminate()
        return "".join(self.said) + self.rest()

    def rest(self) -> str:
        """What it says from now on, until it has ended."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(30, self.process.kill)
        watchdog.start()
        said = self.process.stdout.read()
        self.process.wait()
        watchdog.cancel()
        return said


def hear_ctrl_c() -> None:
    """Also where the tests run in the background, whose children are told to pass it over."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def start_web(cli: Cli) -> Iterator[Callable[..., Web]]:
    """Starts a dashboard of the home of `cli`, with these options."""
    started: list[Web] = []

    def start(*options: str) -> Web:
        started.append(Web(cli, *options))
        return started[-1]

    yield start
    for web in started:
        if web.process.poll() is None:
            web.end()


@pytest.fixture
def web(start_web: Callable[..., Web]) -> Web:
    return start_web()
