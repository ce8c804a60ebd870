"""Attacks on the dashboard, each tried for real, over a socket: whoever gets in runs commands."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from act import act
from conftest import Cli, eventually
from flask import Flask
from web import Answer, Web

from queuectl.web import guard
from queuectl.web.server import LONGEST_HEADERS, server_on

JSON = {"Content-Type": "application/json"}
JOB = json.dumps({"command": "echo owned"})
PATHS = ["/api/stats", "/api/overview", "/api/jobs", "/api/openapi.json", "/metrics", "/static/app.js", "/nothing"]


def enqueue(web: Web, **headers: str) -> Answer:
    """An enqueue as the page would send it, but for these headers."""
    sent = {**web.enter(), **JSON, **headers}
    return web.ask("POST", "/api/enqueue", {name: value for name, value in sent.items() if value}, JOB)


def nothing_was_stored(web: Web) -> bool:
    return all(count == 0 for count in web.get("/api/stats").json.values())


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """One for all attacks: none of them is to leave a trace."""
    place = tmp_path_factory.mktemp("attacked")
    attacked = Web(Cli(place / "home", place))
    yield attacked
    attacked.end()


def test_the_page_itself_may_do_what_the_attacks_below_try(start_web: Callable[..., Web]) -> None:
    """Or they would prove nothing."""
    web = start_web()
    assert enqueue(web).status == 201 and not nothing_was_stored(web)


# --- the token ---


@pytest.mark.parametrize("path", ["/", *PATHS])
def test_without_the_token_nothing_is_told(web: Web, path: str) -> None:
    answer = web.ask("GET", path)
    assert answer.status == 401 and web.token not in answer.text
    assert "queuectl web" in answer.text if path == "/" else "web-token" in answer.json["error"]


@pytest.mark.parametrize(
    "given", ["Bearer", "Bearer ", "Bearer x", "Basic {token}", "{token}", "Bearer {token}x", "Bearer ä"]
)
def test_a_wrong_token_lets_nobody_in(web: Web, given: str) -> None:
    wrong = given.format(token=web.token)
    assert web.ask("GET", "/api/stats", {"Authorization": wrong.encode("latin-1").decode("latin-1")}).status == 401


@pytest.mark.parametrize("query", ["token=", "token=x", "token=%00", "token=%C3%A4", "token[]=x"])
def test_a_wrong_token_in_the_address_gets_no_cookie(web: Web, query: str) -> None:
    answer = web.ask("GET", f"/?{query}")
    assert answer.status == 401 and "Set-Cookie" not in answer.headers


def test_the_token_opens_only_the_front_door_by_address(web: Web) -> None:
    """Where it would stay in logs and histories."""
    assert web.ask("GET", f"/api/stats?token={web.token}").status == 401
    assert web.ask("POST", f"/?token={web.token}").status == 401


def test_a_wrong_cookie_lets_nobody_in(web: Web) -> None:
    name = web.enter()["Cookie"].partition("=")[0]
    for value in ("", "x", web.token, "0" * 64):
        assert web.ask("GET", "/api/stats", {"Cookie": f"{name}={value}"}).status == 401


def test_secrets_are_compared_in_constant_time() -> None:
    assert guard.same(b"a", b"a") and not guard.same(b"a", b"b")
    with open(guard.__file__, encoding="utf-8") as file:
        source = file.read()
    assert source.count("hmac.compare_digest") == 1
    assert not re.search(r"[!=]= *(self\._token|self\._derived|self\.csrf_token|self\._invitation)", source)


def test_the_cookie_is_for_the_browser_alone_and_is_not_the_token(web: Web) -> None:
    answer = web.ask("GET", f"/?token={web.token}")
    assert (answer.status, answer.headers["Location"]) == (303, "/"), "and the token is gone from the address"
    name, *flags = answer.headers["Set-Cookie"].split("; ")
    assert set(flags) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    assert web.token not in name and name.startswith(f"queuectl-{web.port}=")


def test_the_token_is_in_a_file_of_its_owner_alone_and_stays_the_same(cli: Cli, start_web: Callable[..., Web]) -> None:
    first = start_web()
    path = cli.home / "web-token"
    assert path.read_text() == first.token and len(first.token) >= 43
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert start_web().token == first.token


@pytest.mark.skipif(os.name == "nt", reason="there the mode says nothing; the file has a list of its own")
def test_a_token_that_others_could_read_is_replaced(cli: Cli, start_web: Callable[..., Web]) -> None:
    old = start_web()
    (cli.home / "web-token").chmod(0o644)
    new = start_web()
    assert new.token != old.token
    assert new.ask("GET", "/api/stats", old.bearer).status == 401


# --- other sites ---


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "", "127.0.0.1.evil.example:{port}"]
)
def test_a_name_that_was_made_to_point_here_is_refused(web: Web, host: str) -> None:
    answer = web.ask("GET", "/api/stats", {**web.bearer, "Host": host.format(port=web.port)})
    assert answer.status in (400, 403) and "pending" not in answer.text
    assert web.ask("GET", f"/?token={web.token}", {"Host": host.format(port=web.port)}).status in (400, 403)


def test_it_goes_by_the_names_of_this_machine(web: Web) -> None:
    for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert web.get("/api/stats", Host=f"{host}:{web.port}").status == 200


def test_two_hosts_in_one_request_are_refused(web: Web) -> None:
    host = f"Host: 127.0.0.1:{web.port}\r\n"
    request = f"GET /api/stats HTTP/1.1\r\n{host}Host: evil.example\r\nAuthorization: Bearer {web.token}\r\n"
    assert b"pending" not in web.raw(f"{request}Connection: close\r\n\r\n".encode())


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_sites_page_can_neither_ask_nor_change(web: Web, origin: str) -> None:
    theirs = origin.format(port=web.port)
    assert enqueue(web, Origin=theirs).status == 403
    assert web.ask("GET", "/api/stats", {**web.enter(), "Origin": theirs}).status == 403
    assert nothing_was_stored(web)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "whatever"])
def test_what_a_browser_says_comes_from_another_site_is_refused(web: Web, site: str) -> None:
    theirs = {"Sec-Fetch-Site": site, "Origin": ""}
    assert enqueue(web, **theirs).status == 403
    assert web.ask("GET", "/api/overview", {**web.enter(), "Sec-Fetch-Site": site}).status == 403
    assert nothing_was_stored(web)


@pytest.mark.parametrize("token", ["", "x", "0" * 64])
def test_a_change_with_the_cookie_needs_the_csrf_token(web: Web, token: str) -> None:
    answer = enqueue(web, **{"X-CSRF-Token": token})
    assert answer.status == 403 and nothing_was_stored(web)


def test_the_cookie_is_no_csrf_token(web: Web) -> None:
    assert enqueue(web, **{"X-CSRF-Token": web.enter()["Cookie"].partition("=")[2]}).status == 403


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""])
def test_what_a_form_can_send_is_refused(web: Web, kind: str) -> None:
    assert enqueue(web, **{"Content-Type": kind}).status == 415
    assert (
        web.ask("POST", "/api/enqueue", {**web.bearer, **({"Content-Type": kind} if kind else {})}, JOB).status == 415
    )
    assert nothing_was_stored(web)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
def test_nothing_is_changed_but_by_post(web: Web, method: str) -> None:
    for path in ("/api/cancel/one", "/api/delete/one", "/api/promote/one", "/api/bulk/cancel", "/api/enqueue"):
        answer = web.ask(method, path, web.bearer)
        assert answer.status in (405, 501), (path, answer)
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert nothing_was_stored(web)


def test_what_only_shows_changes_nothing(cli: Cli, start_web: Callable[..., Web]) -> None:
    cli.ok("enqueue", "--id", "one", "echo 1")
    web = start_web("--read-only")
    for path in ("/api/cancel/one", "/api/delete/one", "/api/promote/one", "/api/enqueue", "/api/bulk/cancel"):
        assert web.post(path).status == 403
    assert enqueue(web).status == 403
    page = web.ask("GET", "/", web.enter()).text
    assert '<meta name="read-only" content="1">' in page and web.get("/api/overview").json["read_only"] is True
    assert web.get("/api/jobs/one").json["state"] == "pending"


# --- sizes ---


def test_a_body_that_is_too_large_is_refused_before_it_is_read(web: Web) -> None:
    large = json.dumps({"command": "x" * 1_000_001}).encode()
    answer = web.ask("POST", "/api/enqueue", {**web.bearer, **JSON}, large)
    assert answer.status == 413 and answer.json["error"]
    head = f"POST /api/enqueue HTTP/1.0\r\nHost: 127.0.0.1:{web.port}\r\nAuthorization: Bearer {web.token}\r\n"
    promised = f"{head}Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
    assert b" 413 " in web.raw(promised.encode()).splitlines()[0], "and not waited for"
    chunks = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    chunked = f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    assert (
        b" 413 "
        in web.raw(chunked.replace(b"/1.0", b"/1.1\r\nConnection: close") + chunks * 16 + b"0\r\n\r\n").splitlines()[0]
    )


def test_headers_that_are_too_long_are_refused(web: Web) -> None:
    begin = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nX: ".encode()
    request = begin.ljust(LONGEST_HEADERS - 4, b"x") + b"\r\n\r\n"  # what comes beyond would reset the connection
    assert b" 431 " in web.raw(request).splitlines()[0]


def test_counts_that_are_too_large_are_refused(web: Web) -> None:
    for path in (
        "/api/jobs?limit=201",
        "/api/jobs?limit=-1",
        "/api/timeline?minutes=99999",
        "/api/metrics?recent=1001",
    ):
        assert web.get(path).status == 400, path
    assert web.get("/api/jobs?limit=" + "9" * 5000).status == 400
    assert web.post("/api/enqueue", [{"command": "x"}] * 1_001).status == 422
    assert web.post("/api/bulk/delete", {"ids": ["a"] * 10_001}).status == 422
    assert nothing_was_stored(web)


def test_json_that_is_nested_too_deeply_or_is_none_is_refused(web: Web) -> None:
    for sent in ("[" * 100_000, "{", "", "nan", "\x00", '{"command": "x"', "[" * 5_000 + "]" * 5_000):
        answer = web.ask("POST", "/api/enqueue", {**web.bearer, **JSON}, sent)
        assert answer.status in (400, 422), sent[:20]
    assert nothing_was_stored(web)


def test_who_says_nothing_keeps_nobody_else_waiting(web: Web) -> None:
    silent = []
    try:
        for _ in range(120):
            connection = socket.create_connection((web.host, web.port))
            connection.sendall(b"POST /api/enqueue HTTP/1.1\r\nContent-Length: 1000\r\n")
            silent.append(connection)
        began = time.monotonic()
        assert web.get("/api/stats").status == 200
        assert time.monotonic() - began < 20, "a deadline, far above what it takes"
    finally:
        for connection in silent:
            connection.close()


def test_a_request_that_comes_drop_by_drop_is_not_waited_for() -> None:
    """With a deadline that is shorter than the usual one, and that each byte must not begin anew."""
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    server = server_on(listening, Flask(__name__), patience_seconds=1)
    threading.Thread(target=server.run, daemon=True).start()
    try:
        with socket.create_connection(address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nX: ")

            def is_sent_away() -> bool:
                try:
                    client.sendall(b"x")
                except OSError:
                    return True
                return False

            eventually(is_sent_away)
    finally:
        server.close()


# --- paths and headers ---


@pytest.mark.parametrize(
    "path",
    [
        "/static/../web-token",
        "/static/..%2f..%2fweb-token",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static/..%5c..%5capp.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/C:%5cWindows%5cwin.ini",
        "/api/jobs/..%2f..%2fweb-token",
        "/api/jobs/../../web-token/output",
        "/api/jobs/%2e%2e/output",
        "/api/jobs/..%5c..%5cx/output",
        "/api/jobs/a%00b",
        "/api/jobs/%C3%A4",
        "/api/jobs/a%0d%0aSet-Cookie:%20x",
        "/api/jobs/" + "a" * 5000,
        "/api/queues/..%2fx",
    ],
)
def test_a_path_leads_nowhere_but_to_what_is_there(web: Web, path: str) -> None:
    answer = web.get(path)
    assert answer.status in (404, 405) and web.token not in answer.text and "root:" not in answer.text
    assert "Set-Cookie" not in answer.headers


def test_nobody_can_put_headers_into_an_answer(web: Web) -> None:
    for path in ("/?token=%0d%0aSet-Cookie:%20x=y", "/%0d%0aSet-Cookie:%20x=y", "/api/jobs?cursor=%0d%0aX-Evil:%20y"):
        answer = web.ask("GET", path, web.bearer)
        assert "Set-Cookie" not in answer.headers and "X-Evil" not in answer.headers


def test_two_requests_cannot_be_made_of_one(web: Web) -> None:
    """A length and chunks at once is how a request is smuggled past a proxy."""
    both = (
        f"POST /api/enqueue HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nContent-Length: 6\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /api/stats HTTP/1.1\r\n\r\n"
    )
    assert b"pending" not in web.raw(both.encode())


# --- answers ---


@pytest.mark.parametrize("path", ["/", *PATHS, f"/?token={'x' * 10}", "/api/jobs/nobody", "/api/jobs?limit=x"])
@pytest.mark.parametrize("lets_in", [True, False])
def test_every_answer_is_sealed_also_when_it_is_an_error(web: Web, path: str, lets_in: bool) -> None:
    sealed(web.ask("GET", path, web.bearer if lets_in else {}))
    sealed(web.ask("POST", path, web.bearer if lets_in else {}))


def test_what_cannot_be_read_as_a_request_gets_a_sealed_answer(web: Web) -> None:
    for request in (
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nA B: c\r\n\r\n",
    ):
        head = web.raw(request).partition(b"\r\n\r\n")[0].decode()
        assert re.match(r"HTTP/1\.\d 400 ", head)
        for name, value in guard.HEADERS.items():
            assert f"{name}: {value}" in head


def sealed(answer: Answer) -> None:
    headers = answer.headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in headers["Content-Security-Policy"] and len(headers.get_all("Content-Security-Policy")) == 1
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"].split(",")[0] in ("no-store", "no-cache")
    assert "Access-Control-Allow-Origin" not in headers


def test_no_proxy_keeps_what_the_api_answers(web: Web) -> None:
    for path in ("/api/stats", "/api/overview", "/", "/api/nothing"):
        assert web.get(path).headers["Cache-Control"] == "no-store"


def test_output_with_html_and_escapes_in_it_stays_text(cli: Cli, start_web: Callable[..., Web]) -> None:
    web = start_web()
    nasty = "<script>alert(1)</script>\x1b[31m\x1b]0;owned\x07</pre>&amp;"
    cli.ok("enqueue", "--id", "nasty", act("bytes " + nasty.encode().hex()))
    cli.ok("enqueue", "--id", "later", "--label", "<b>", "echo '<img src=x onerror=alert(1)>'")
    cli.ok("worker", "start")
    eventually(lambda: web.get("/api/jobs/nasty").json["state"] == "completed")
    for path in ("/api/jobs/nasty/output", "/api/jobs/nasty", "/api/jobs", "/api/overview"):
        answer = web.get(path)
        assert answer.headers["Content-Type"] == "application/json"
    assert web.get("/api/jobs/nasty/output").json["text"] == nasty
    answer = web.get("/api/jobs/%3Cscript%3E")
    assert answer.headers["Content-Type"] == "application/json" and answer.json["error"].startswith("No job '<script>'")
