"""Whatever is sent to the dashboard, there is an answer: never a traceback, and each error is one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from chance import budget
from flask.testing import FlaskClient
from hypothesis import assume, example, given
from hypothesis import strategies as st
from test_fuzz import durations, jobs, numbers, rates, values

from queuectl.home import open_home
from queuectl.web.app import make_app
from queuectl.web.guard import Guard
from queuectl.web.here import Here

TOKEN = "a-token-of-the-test"
LOOKING = [
    "/",
    "/api/stats",
    "/api/overview",
    "/api/jobs",
    "/api/jobs/1",
    "/api/jobs/last/output",
    "/api/jobs/1/why",
    "/api/dead/groups",
    "/api/history",
    "/api/timeline",
    "/api/metrics",
    "/api/workers",
    "/api/queues",
    "/api/schedules",
    "/api/settings",
    "/api/openapi.json",
    "/metrics",
]
CHANGING = [
    "/api/enqueue",
    "/api/cancel/1",
    "/api/retry/1",
    "/api/promote/1",
    "/api/delete/2",
    "/api/queues/default",
    "/api/queues/default/pause",
    "/api/queues/default/resume",
    "/api/schedules/no/run",
    "/api/bulk/retry",
    "/api/bulk/cancel",
    "/api/bulk/delete",
]
QUERIES = [
    "state",
    "label",
    "match",
    "older_than",
    "queue",
    "reason",
    "limit",
    "cursor",
    "attempt",
    "stream",
    "offset",
    "minutes",
    "span",
    "recent",
    "token",
]

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
paths = st.one_of(
    st.sampled_from(LOOKING + CHANGING),
    st.builds("{}/{}".format, st.sampled_from(["/api/jobs", "/api/cancel", "/api/queues", "/static", "/api"]), words),
    words.map("/".__add__),
)
queries = st.dictionaries(
    st.sampled_from(QUERIES) | words,
    words | numbers | durations | st.sampled_from(["pending", "hour", "1:2:3"]),
    max_size=3,
)
queries = queries.map(lambda query: {name: text.encode("utf-8", "replace").decode() for name, text in query.items()})
bodies = st.one_of(
    values.map(json.dumps),
    jobs.map(json.dumps),
    st.lists(jobs, max_size=3).map(json.dumps),
    st.dictionaries(
        st.sampled_from(["ids", "select", "limit", "cursor", "reason", "rate"]), values | rates, max_size=3
    ).map(json.dumps),
    st.binary(max_size=40),
)
headers = st.dictionaries(
    st.sampled_from(
        ["Host", "Origin", "Sec-Fetch-Site", "Authorization", "Cookie", "X-CSRF-Token", "If-None-Match", "Range"]
    )
    | st.from_regex(r"\A[A-Za-z-]{1,12}\Z"),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30),
    max_size=3,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    home = open_home(str(tmp_path_factory.mktemp("web")))
    here = Here(home, is_read_only=False)
    app = make_app(here, Guard(TOKEN, ["localhost"], 80))
    app.config["PROPAGATE_EXCEPTIONS"] = False
    with app.app_context():
        here.queue.enqueue_all([{"command": "true", "label": "nightly"}] * 3)
        yield app.test_client()
        here.queue.close()


def understood(client: FlaskClient, method: str, path: str, **given: Any) -> int:
    """The status of an answer, which is one that can be."""
    answer = client.open(quote(path), method=method, **given)
    assert answer.status_code < 500, answer.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    if answer.status_code >= 400 and answer.mimetype == "application/json" and method != "HEAD":
        assert set(answer.get_json()) == {"error"} and answer.get_json()["error"].strip()
    assert "Traceback" not in answer.text
    return answer.status_code


BEARER = {"Authorization": f"Bearer {TOKEN}"}


@budget(250)
@given(path=paths, query=queries)
@example(path="/api/jobs", query={"limit": "9" * 5000})
@example(path="/api/jobs", query={"cursor": "0:" + "9" * 5000 + ":1"})
@example(path="/api/jobs/" + "x" * 5000, query={})
def test_whatever_is_looked_for_there_is_an_answer(client: FlaskClient, path: str, query: dict[str, str]) -> None:
    understood(client, "GET", path, query_string=query, headers=BEARER)


@budget(250)
@given(
    path=st.sampled_from(CHANGING) | paths,
    body=bodies,
    kind=st.sampled_from(["application/json"] * 4 + ["text/plain", ""]),
)
@example(path="/api/enqueue", body="[" * 3_000, kind="application/json")
@example(path="/api/enqueue", body='{"command": "\\ud800"}', kind="application/json")
@example(path="/api/bulk/cancel", body='{"select": {"label": "\\ud800"}}', kind="application/json")
def test_whatever_is_sent_there_is_an_answer(client: FlaskClient, path: str, body: str | bytes, kind: str) -> None:
    understood(client, "POST", path, data=body, content_type=kind, headers=BEARER)


@budget(250)
@given(method=st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "X"]), path=paths, headers=headers)
def test_nobody_is_let_in_by_chance(client: FlaskClient, method: str, path: str, headers: dict[str, str]) -> None:
    assume(not any(TOKEN in text for text in headers.values()))
    with suppress(UnicodeError):  # it is the client that cannot send this
        status = understood(client, method, path, headers=headers)
        assert status >= 400
