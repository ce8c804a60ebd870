"""The API against its own document: every route is in it, and no answer is one that it does not say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from unittest import SkipTest

import pytest
from conftest import Cli
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import sampled_from
from web import Web

from queuectl.home import open_home
from queuectl.web.app import make_app
from queuectl.web.guard import Guard
from queuectl.web.here import Here
from queuectl.web.openapi import PATHS, SCHEMAS, document

schemathesis = pytest.importorskip("schemathesis", reason="the API is tested against its document on Linux")

EXAMPLES = 10
HEALTH = list(HealthCheck)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A queue in which there is something of everything, and nobody who runs it."""
    place = tmp_path_factory.mktemp("described")
    cli = Cli(place / "home", place)
    cli.ok("queue", "add", "gpu", "--limit", "1", "--rate", "10/m")
    cli.ok("schedule", "add", "default", "--every", "1h", "echo 1")
    cli.ok("enqueue", "--id", "one", "echo 1")
    cli.ok("enqueue", "--after", "one", "--label", "red", "echo 2")
    cli.ok("enqueue", "--delay", "1h", "echo 3")
    cli.ok("enqueue", "--queue", "gpu", "--", "echo", "4")
    described = Web(cli)
    yield described
    described.end()


@pytest.fixture(scope="module")
def api(web: Web) -> Any:
    return schemathesis.openapi.from_url(f"{web.origin}/api/openapi.json", headers=web.bearer)


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("path", PATHS)
def test_no_answer_is_an_error_of_the_server_or_one_that_the_document_does_not_know(
    api: Any, web: Web, path: str, mode: str
) -> None:
    """Asked for as the document says, and also as it does not allow."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    [method] = PATHS[path]
    asked = api[path][method.upper()].as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=HEALTH)
    @given(case=asked, known=sampled_from([None, "one", "default"]))
    def ask(case: Any, known: str | None) -> None:
        if known and case.path_parameters:  # of what can be thought of there is mostly nothing
            case.path_parameters = dict.fromkeys(case.path_parameters, known)
        case.call_and_validate(headers=web.bearer, checks=wanted)

    try:
        ask()
    except (Unsatisfiable, SkipTest):  # there is nothing that could be sent wrongly
        assert mode == "negative"


def test_every_route_is_in_the_document_and_every_path_of_the_document_is_a_route(tmp_path: Any) -> None:
    app = make_app(Here(open_home(str(tmp_path)), False), Guard("token", ["127.0.0.1"], 1))
    routes = {
        (re.sub(r"<(\w+)>", r"{\1}", rule.rule), method.lower())
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD"}
        if rule.rule.startswith("/api")
    }
    assert routes == {(path, method) for path, found in PATHS.items() for method in found}


def test_every_reference_of_the_document_leads_somewhere() -> None:
    wanted = set(re.findall(r"#/components/schemas/(\w+)", str(document())))
    assert wanted <= SCHEMAS.keys() and {"Job", "Error"} <= wanted


def test_the_document_is_served(web: Web) -> None:
    assert web.get("/api/openapi.json").json["info"]["title"] == "queuectl"
