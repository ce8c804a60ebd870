"""The invitation that `web --open` gives to a browser: for a program of this user, once and soon."""

from __future__ import annotations

import os
import socket
import time

import pytest
from flask import Flask
from werkzeug.test import EnvironBuilder

from queuectl.web import guard, peer


class Door:
    """A guard that has invited somebody, and who comes with the invitation from this port."""

    def __init__(self) -> None:
        self.guard = guard.Guard("token", ["127.0.0.1"], 80)
        self.invitation = self.guard.invite()

    def lets_in(self, client_port: int = 50_000) -> bool:
        asked = EnvironBuilder("/", query_string={"token": self.invitation}, base_url="http://127.0.0.1")
        with Flask(__name__).request_context({**asked.get_environ(), "REMOTE_PORT": str(client_port)}):
            answer = self.guard.check()
        return answer is not None and "Set-Cookie" in answer.headers


def test_an_invitation_is_good_for_a_program_of_this_user_once(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    monkeypatch.setattr(guard, "is_ours", lambda client_port, server_port: (client_port, server_port) == (50_000, 80))
    assert not door.lets_in(50_001), "another user's, who has read the command line of the browser"
    assert door.lets_in(), "who came too early has not used it up"
    assert not door.lets_in()


def test_an_invitation_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    monkeypatch.setattr(guard, "is_ours", lambda client_port, server_port: True)
    later = time.monotonic() + guard.INVITED_SECONDS + 1
    monkeypatch.setattr(guard.time, "monotonic", lambda: later)
    assert not door.lets_in()


@pytest.mark.skipif(
    os.name == "nt" or not os.path.exists("/proc/net/tcp"),
    reason="there is no table of sockets, although Wine shows one",
)
@pytest.mark.parametrize("family, host", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_kernel_tells_who_has_made_a_connection(family: int, host: str) -> None:
    with socket.socket(family) as server:
        try:
            server.bind((host, 0))
        except OSError:
            pytest.skip(f"there is no {host} here")
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection((host, port)) as client:
            ports = client.getsockname()[1], port
            assert peer.owners_of(*ports) == {os.getuid()} and peer.is_ours(*ports)
            assert not peer.is_ours(ports[0], 1) and not peer.is_ours(1, port), "no such connection"
        assert not peer.is_ours(*ports), "whoever has closed it may have been anybody"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can be somebody else")
def test_a_connection_of_another_user_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        os.seteuid(12346)
        try:
            client = socket.create_connection(("127.0.0.1", port))
        finally:
            os.seteuid(0)
        with client:
            ports = client.getsockname()[1], port
            assert peer.owners_of(*ports) == {12346} and not peer.is_ours(*ports)
