"""The REST API as an OpenAPI document, written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, jsonify, request

from queuectl import __version__
from queuectl.errors import brief
from queuectl.web import api_bulk
from queuectl.web.api_change import MOST_AT_ONCE, MOST_ENQUEUED
from queuectl.web.api_look import FARTHEST, LONGEST_TIMELINE, MOST_DEAD, MOST_EVENTS, MOST_JOBS, MOST_OUTPUT
from queuectl.web.chart import MOST_RUNS, SPANS
from queuectl.web.openapi_shapes import (
    COUNT,
    ENQUEUED,
    ID,
    JOBS,
    SCHEMAS,
    STATE,
    STRING,
    Schema,
    answer_of,
    array,
    counted,
    or_null,
    ref,
    sent_as,
)
from queuectl.web.refusals import Refused

describing = Blueprint("describing", __name__, url_prefix="/api")

ERRORS = {
    400: "The request cannot be understood",
    401: "The token is missing or wrong",
    403: "The request comes from another site or by another name, or the server is read-only",
    404: "There is no such thing",
    405: "The method is not allowed here",
    409: "The state of the job or the queue does not allow it",
    413: "That is more than one request may carry",
    415: "The body is not JSON",
    422: "The body is JSON, but a value in it is refused",
    431: "The headers are too long",
    503: "The database cannot be used now",
}
ALWAYS = (400, 401, 403, 405, 431, 503)
SELECTORS = {
    "state": STATE,
    "queue": STRING,
    "label": STRING,
    "match": STRING,
    "reason": STRING,
    "older_than": STRING,
}


def answers(status: int, schema: Schema, *others: int) -> dict[str, Any]:
    found: dict[str, Any] = {str(status): {"description": "Done", "content": {"application/json": {"schema": schema}}}}
    for error in (*ALWAYS, *others):
        content = {"application/json": {"schema": ref("Error")}}
        found[str(error)] = {"description": ERRORS[error], "content": content}
    return found


def get(summary: str, schema: Schema, query: Mapping[str, Schema] | None = None, *others: int) -> dict[str, Any]:
    parameters = [{"name": name, "in": "query", "schema": of} for name, of in (query or {}).items()]
    return {"get": {"summary": summary, "parameters": parameters, "responses": answers(200, schema, *others)}}


def post(
    summary: str, schema: Schema, body: Schema | None = None, status: int = 200, required: bool = False
) -> dict[str, Any]:
    content = {"application/json": {"schema": sent_as({}) if body is None else body}}
    responses = answers(status, schema, 404, 409, 413, 415, 422)
    return {
        "post": {"summary": summary, "requestBody": {"required": required, "content": content}, "responses": responses}
    }


def in_bulk(summary: str, **more: Schema) -> dict[str, Any]:
    selected = {
        "ids": array(ID, maxItems=api_bulk.MOST),
        "select": ref("Selected"),
        "limit": {"type": "integer", "minimum": 1},
        "cursor": or_null(STRING),
        **more,
    }
    about = "; the jobs of some ids, or a part of all that are selected: go on with the cursor while there is more"
    return post(summary + about, ref("Changed"), sent_as(selected), required=True)


PATHS: dict[str, dict[str, Any]] = {
    "/api/stats": get("How many jobs are in each state", ref("Counts")),
    "/api/overview": get("What there is to see at first sight; with ETag and If-None-Match", ref("Overview")),
    "/api/jobs": get(
        "Jobs, the newest first, or pending ones as they will run; a page at a time",
        answer_of({"jobs": JOBS, "cursor": or_null(STRING)}),
        {**SELECTORS, "limit": counted(1, MOST_JOBS), "cursor": STRING},
        404,
    ),
    "/api/jobs/{job_id}": get(
        "All about one job, with what it printed unless output is 0",
        ref("WholeJob"),
        {"output": {"type": "string", "enum": ["1", "0"]}},
        404,
    ),
    "/api/jobs/{job_id}/output": get(
        f"A part of what a try printed, also while it runs; {MOST_OUTPUT:,} bytes at most",
        ref("Output"),
        {
            "stream": {"type": "string", "enum": ["stdout", "stderr"]},
            "lease": counted(0, FARTHEST),
            "offset": counted(-FARTHEST, FARTHEST),
        },
        404,
    ),
    "/api/jobs/{job_id}/why": get(
        "Why it has not run yet, or ran when it did", answer_of({"sentences": array(STRING)}), {}, 404
    ),
    "/api/dead/groups": get(f"The newest {MOST_DEAD:,} dead jobs by how they failed", ref("DeadGroups")),
    "/api/history": get(
        "What ended, waited and ran, step by step",
        ref("History"),
        {"span": {"type": "string", "enum": list(SPANS)}},
    ),
    "/api/timeline": get(
        f"What each worker ran when: the newest {MOST_RUNS} runs and the long ones at most",
        ref("Timeline"),
        {"minutes": counted(1, LONGEST_TIMELINE)},
    ),
    "/api/metrics": get("Figures and events", ref("Metrics"), {"recent": counted(0, MOST_EVENTS)}),
    "/api/workers": get("The workers", array(ref("Worker"))),
    "/api/queues": get("The queues", array(ref("Queue"))),
    "/api/schedules": get("The recurring jobs", array(ref("Schedule"))),
    "/api/settings": get("The settings", {"type": "object"}),
    "/api/openapi.json": get("This document", {"type": "object"}),
    "/api/enqueue": post(
        f"Enqueue a job, or up to {MOST_ENQUEUED:,}, all or none",
        ENQUEUED,
        {"oneOf": [ref("NewJob"), array(ref("NewJob"), minItems=1, maxItems=MOST_ENQUEUED)]},
        status=201,
        required=True,
    ),
    "/api/cancel/{job_id}": post("Cancel a job", ref("Job"), sent_as({"reason": or_null(STRING)})),
    "/api/retry/{job_id}": post("Put a job that has ended back in line", ref("Job")),
    "/api/promote/{job_id}": post("Put a job that waits before all others", ref("Job")),
    "/api/delete/{job_id}": post("Delete a job that does not run", answer_of({"deleted": COUNT})),
    "/api/bulk/retry": in_bulk("Retry jobs"),
    "/api/bulk/cancel": in_bulk("Cancel jobs", reason=or_null(STRING)),
    "/api/bulk/delete": in_bulk("Delete jobs"),
    "/api/queues/{name}": post(
        "Change a queue's limits",
        ref("Queue"),
        sent_as({"limit": or_null(counted(1, MOST_AT_ONCE)), "rate": or_null(STRING)}),
    ),
    "/api/queues/{name}/pause": post("Start no more jobs of a queue", ref("Queue")),
    "/api/queues/{name}/resume": post("Let a queue go on", ref("Queue")),
    "/api/schedules/{name}/pause": post("Stop a schedule from coming", ref("Schedule")),
    "/api/schedules/{name}/resume": post("Let a schedule come again", ref("Schedule")),
    "/api/schedules/{name}/run": post("Enqueue a schedule's job now", answer_of({"id": STRING})),
}


IN_PATHS = {"job_id": "last", "name": "default"}


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for path, found in PATHS.items():
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": STRING, "example": example}
            for name, example in IN_PATHS.items()
            if f"{{{name}}}" in path
        ]
        paths[path] = {**found, "parameters": parameters} if parameters else dict(found)
    nothing_new = {"description": "Nothing was added: jobs with these unique keys wait or run already"}
    done = paths["/api/enqueue"]["post"]["responses"]
    done["200"] = {**done["201"], **nothing_new}
    paths["/api/overview"]["get"]["responses"]["304"] = {"description": "Nothing has changed since that ETag"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "queuectl",
            "version": __version__,
            "description": 'A background job queue for shell commands. Errors are {"error": one line for people}.',
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def check_parameters() -> None:
    """Refuse parameters that are not in the document: a misspelt filter would otherwise match everything."""
    rule = re.sub("<(.*?)>", r"{\1}", request.url_rule.rule if request.url_rule else "")
    if rule in PATHS:
        described = PATHS[rule].get(request.method.lower(), {})
        known = [parameter["name"] for parameter in described.get("parameters", ())]
        for name in request.args:
            if name not in known:
                raise Refused(400, f"Unknown parameter {brief(name)}. Known are: {', '.join(known) or 'none'}")


@describing.get("/openapi.json")
def openapi() -> Response:
    return jsonify(document())
