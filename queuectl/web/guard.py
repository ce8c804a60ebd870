"""Access control: a client of this server can run commands, so every request is checked here before all else.

A request needs the token, or the cookie that it was exchanged for. Requests by pages of other sites are refused,
whatever host name they use; and no answer can be run as a script or shown in a frame.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Iterable

from flask import Response, redirect, request

from queuectl.web.peer import is_ours
from queuectl.web.refusals import Refused

LARGEST_BODY = 1_000_000
INVITED_SECONDS = 60.0
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NO_TOKEN = "The token is missing or wrong. It is in the file web-token; send it as: Authorization: Bearer TOKEN"
LOOKS = "/static/page.css"  # also used by the sign-in page, so it needs no token
ENTRANCE = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>queuectl</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{LOOKS}">
<main class="body entrance"><h1>queuectl</h1>
<p>This page needs the token of this queue. Open the address that <code>queuectl web</code> printed when it was started:
the token is in it.</p></main></html>
"""


class Guard:
    def __init__(self, token: str, hosts: Iterable[str], port: int, is_read_only: bool = False) -> None:
        self._token = token.encode()
        self._hosts = {name for host in hosts for name in names_of(host, port)}
        self._is_read_only = is_read_only
        self._port = port
        self._invitation, self._invited_until = b"", 0.0
        # Browsers do not keep cookies of different ports apart: the name does it for two dashboards on one machine.
        self.cookie = f"queuectl-{port}"
        self.csrf_token = self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        """A value that only this server can compute, and from which the token cannot be computed."""
        return hmac.new(self._token, purpose.encode(), "sha256").hexdigest()

    def invite(self) -> str:
        """A token for one use within a minute: other users of the machine can read it in the browser's command line."""
        invitation = secrets.token_urlsafe(32)
        self._invitation, self._invited_until = invitation.encode(), time.monotonic() + INVITED_SECONDS
        return invitation

    # --- before a request ---

    def check(self) -> Response | None:
        """Refuse the request, or answer it if it is about signing in; None lets it pass."""
        if request.headers.get("Host", "").lower() not in self._hosts:
            raise Refused(403, "This server does not go by that name. Use the address that it printed")
        if request.path == "/" and request.method == "GET" and "token" in request.args:
            return self._let_in(request.args["token"])
        has_token = self._has_token()
        if not has_token and not self._has_cookie() and request.path != LOOKS:
            if request.path == "/":
                return Response(ENTRANCE, 401, {"WWW-Authenticate": "Bearer"}, content_type="text/html; charset=utf-8")
            raise Refused(401, NO_TOKEN)
        if request.path != "/":
            self._must_be_our_own_page()
        if (request.content_length or 0) > LARGEST_BODY:
            raise Refused(413, f"That is more than {LARGEST_BODY:,} bytes. Send it in several requests")
        if request.method not in ("GET", "HEAD"):
            self._may_change(has_token)
        return None

    def _let_in(self, given: str) -> Response:
        """Exchange the token for a cookie, and redirect to an address without it, because of the browser's history."""
        if not same(given.encode("utf-8", "replace"), self._token) and not self._is_invited(given):
            return Response(ENTRANCE, 401, content_type="text/html; charset=utf-8")
        answer = redirect("/", 303)
        answer.set_cookie(self.cookie, self._derived("cookie"), path="/", httponly=True, samesite="Strict")
        assert isinstance(answer, Response)
        return answer

    def _is_invited(self, given: str) -> bool:
        """Accept only a program of this user: another user may have read the invitation and be first to use it."""
        if time.monotonic() > self._invited_until or not same(given.encode("utf-8", "replace"), self._invitation):
            return False
        if not is_ours(int(request.environ["REMOTE_PORT"]), self._port):
            return False
        self._invited_until = 0.0
        return True

    def _has_token(self) -> bool:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and same(given.strip().encode("utf-8", "replace"), self._token)

    def _has_cookie(self) -> bool:
        given = request.cookies.get(self.cookie, "")
        return same(given.encode("utf-8", "replace"), self._derived("cookie").encode())

    def _must_be_our_own_page(self) -> None:
        """Refuse other sites' pages. Browsers send the origin of a request; other programs send none, but the token."""
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Refused(403, "Another site's page may not ask for this")
        if request.headers.get("Origin", f"http://{request.host}").lower() != f"http://{request.host}".lower():
            raise Refused(403, "Another site's page may not ask for this")

    def _may_change(self, has_token: bool) -> None:
        if self._is_read_only:
            raise Refused(403, "This server only shows: it was started with --read-only")
        if not has_token and not same(
            request.headers.get("X-CSRF-Token", "").encode("utf-8", "replace"), self.csrf_token.encode()
        ):
            raise Refused(403, "The header X-CSRF-Token is missing or wrong. Reload the page")
        if request.content_length and request.mimetype != "application/json":
            raise Refused(415, "Send JSON, with the header Content-Type: application/json")

    # --- after it ---

    def seal(self, answer: Response) -> Response:
        """Add the security headers to every answer, errors included."""
        answer.headers.update(HEADERS)
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer


def same(one: bytes, other: bytes) -> bool:
    """Compare in constant time, so that an attacker learns nothing from the time it takes."""
    return hmac.compare_digest(one, other)


def names_of(host: str, port: int) -> list[str]:
    """How a Host header may name this server."""
    name = f"[{host}]" if ":" in host else host.lower()
    return [f"{name}:{port}", *([name] if port == 80 else [])]
