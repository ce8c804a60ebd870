"""The input of a request: read from the query string or from JSON, and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flask import request

from queuectl.errors import InvalidInput, JobNotFound, brief
from queuectl.fields import ID, clean
from queuectl.job import State
from queuectl.selection import Selection
from queuectl.times import parse_duration
from queuectl.web.refusals import Refused

WHOLE_NUMBER = r"-?[0-9]{1,15}"


def known_id(job_id: str) -> str:
    """Raise JobNotFound for a text that cannot be an id."""
    if not re.fullmatch(ID, job_id):
        raise JobNotFound(job_id)
    return job_id


def selection(given: Mapping[str, Any]) -> Selection:
    """The selected jobs, by the same names as the options of the command line."""
    state, older_than = text(given, "state"), text(given, "older_than")
    return Selection(
        state=None if state is None else State(one_of("state", state, [state.value for state in State])),
        label=text(given, "label"),
        match=text(given, "match"),
        older_than_seconds=None if older_than is None else parse_duration(older_than),
        queue=text(given, "queue"),
        reason=text(given, "reason"),
    )


def text(given: Mapping[str, Any], name: str) -> str | None:
    """The text of this name; an empty text counts as not given, like a form field that was not filled in."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{name} cannot be {brief(value)}. It takes text")
    return clean(name, value) if value else None


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise InvalidInput(f"{name} cannot be {brief(value)}. It takes one of: {', '.join(known)}")
    return value


def choice(name: str, known: Sequence[str]) -> str:
    """A query parameter that is one of these words; the first if it is not given."""
    return one_of(name, request.args.get(name) or known[0], known)


def number(name: str, usual: int, least: int, most: int) -> int:
    """A query parameter that is a whole number."""
    given = request.args.get(name) or str(usual)
    if not re.fullmatch(WHOLE_NUMBER, given) or not least <= int(given) <= most:
        raise InvalidInput(f"{name} cannot be {brief(given)}. It takes a whole number from {least} to {most}")
    return int(given)


def body() -> Any:
    """The body of the request, as JSON."""
    try:
        return request.get_json()
    except RecursionError:
        raise Refused(400, "That JSON is nested too deeply to be read") from None


def fields(*known: str) -> dict[str, Any]:
    """The body of the request, if there is one: an object with no other keys than these."""
    given = body() if request.content_length else {}
    if not isinstance(given, dict):
        raise InvalidInput("Send an object, or nothing")
    only(given, known)
    return given


def only(given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise InvalidInput(f"Unknown key {brief(name)}. Known are: {', '.join(known) or 'none'}")
