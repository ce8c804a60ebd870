"""The REST API as an OpenAPI document, written by hand; docs/json.md says what the keys of jobs and the like mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, jsonify

from queuectl import __version__
from queuectl.fields import CHECKS
from queuectl.job import State
from queuectl.metrics import EVENTS

describing = Blueprint("describing", __name__, url_prefix="/api")

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
STATE: Schema = {"type": "string", "enum": [state.value for state in State]}
ID: Schema = {"type": "string", "maxLength": 100}


def or_null(schema: Schema) -> Schema:
    return dict(schema, type=[schema["type"], "null"])


def array(of: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": of, **more}


def answer_of(properties: Mapping[str, Schema]) -> Schema:
    """An object that has these keys; others may come to be added."""
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def sent_as(properties: Mapping[str, Schema], *required: str) -> Schema:
    """An object that may have these keys and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# --- the shapes ---

COUNTS = answer_of({state.value: COUNT for state in State})
JOB_KEYS: dict[str, Schema] = {
    "id": STRING,
    "command": {"oneOf": [STRING, array(STRING)]},
    "state": STATE,
    "priority": INTEGER,
    "waiting_time": COUNT,
    "effective_priority": INTEGER,
    "attempts": COUNT,
    "max_retries": COUNT,
    "timeout": COUNT,
    "backoff_base": NUMBER,
    "created_at": TIME,
    "updated_at": TIME,
    "run_at": or_null(TIME),
    "started_at": or_null(TIME),
    "finished_at": or_null(TIME),
    "duration_seconds": or_null(NUMBER),
    "exit_code": or_null(INTEGER),
    "error_message": or_null(STRING),
    "lease": COUNT,
    "worker": or_null(STRING),
    "cwd": STRING,
    "queue": STRING,
    "shell": or_null(STRING),
    "no_retry_on": array(INTEGER),
    "jitter": NUMBER,
    "no_rerun": BOOLEAN,
    "label": or_null(STRING),
    "unique": or_null(STRING),
    "waits_for": COUNT,
    "trace_id": or_null(STRING),
    "expected_start_at": or_null(TIME),
    "expected_end_at": or_null(TIME),
}
LINK = answer_of({"id": STRING, "state": STATE, "wanted": STRING, "is_met": BOOLEAN})
RUN = answer_of(
    {
        "lease": INTEGER,
        "attempt": INTEGER,
        "worker": or_null(STRING),
        "started_at": TIME,
        "finished_at": TIME,
        "duration_seconds": NUMBER,
        "outcome": STRING,
        "exit_code": or_null(INTEGER),
        "error_message": or_null(STRING),
    }
)
WORKER_KEYS: dict[str, Schema] = {
    "name": STRING,
    "pid": INTEGER,
    "host": STRING,
    "state": {"type": "string", "enum": ["idle", "busy", "stopping", "lost"]},
    "job": or_null(STRING),
    "started_at": TIME,
    "heartbeat_at": TIME,
    "heartbeat_age_seconds": NUMBER,
    "processed": COUNT,
    "queues": or_null(array(STRING)),
    "memory_bytes": or_null(COUNT),
    "cpu_percent": or_null(NUMBER),
    "expected_end_at": or_null(TIME),
}
QUEUE_KEYS: dict[str, Schema] = {
    "name": STRING,
    "paused": BOOLEAN,
    "limit": or_null(INTEGER),
    "rate": or_null(STRING),
    "jobs": COUNTS,
}
SCHEDULE_KEYS: dict[str, Schema] = {
    "name": STRING,
    "cron": or_null(STRING),
    "every_seconds": or_null(NUMBER),
    "tz": or_null(STRING),
    "command": {"oneOf": [STRING, array(STRING)]},
    "cwd": STRING,
    "missed": STRING,
    "overlap": BOOLEAN,
    "paused": BOOLEAN,
    "created_at": TIME,
    "next_at": or_null(TIME),
    "last_at": or_null(TIME),
    "note": or_null(STRING),
    "last_job": or_null(STRING),
    "next_times": array(TIME),
}
SPREAD = answer_of({"average": or_null(NUMBER), "p50": or_null(NUMBER), "p95": or_null(NUMBER)})
EVENT = answer_of({"at": TIME, "event": STRING, "job_id": STRING, "worker": or_null(STRING)})
EVENT_COUNTS = answer_of(dict.fromkeys(EVENTS, COUNT))
BAR = answer_of({"job": STRING, "command": STRING, "started_at": TIME, "finished_at": or_null(TIME), "outcome": STRING})
JOBS = array(ref("Job"))
SCHEMAS: dict[str, Schema] = {
    "Error": answer_of({"error": STRING}),
    "Counts": COUNTS,
    "Job": answer_of(JOB_KEYS),
    "WholeJob": answer_of(
        {
            **JOB_KEYS,
            "output": or_null(STRING),
            "stderr": or_null(STRING),
            "runs": array(RUN),
            "needs": array(LINK),
            "dependents": array(LINK),
            "worker_is_here": BOOLEAN,
        }
    ),
    "Worker": answer_of(WORKER_KEYS),
    "Queue": answer_of(QUEUE_KEYS),
    "Schedule": answer_of(SCHEDULE_KEYS),
    "Metrics": answer_of(
        {
            "events": EVENT_COUNTS,
            "run_seconds": SPREAD,
            "waiting_seconds": SPREAD,
            "jobs_per_minute": NUMBER,
            "recent": array(EVENT),
        }
    ),
    "Overview": answer_of(
        {
            "now": TIME,
            "stats": ref("Counts"),
            "workers": array(ref("Worker")),
            "queues": array(ref("Queue")),
            "line": JOBS,
            "held": JOBS,
            "running": JOBS,
            "recent": JOBS,
            "later": JOBS,
            "blocked": JOBS,
            "waiting": answer_of(dict.fromkeys(("line", "held", "later", "blocked"), COUNT)),
            "cursors": answer_of(dict.fromkeys(("later", "blocked"), or_null(STRING))),
            "schedules": array(ref("Schedule")),
            "events": EVENT_COUNTS,
            "jobs_per_minute": NUMBER,
            "read_only": BOOLEAN,
            "aging": STRING,
            "points_a_second": or_null(NUMBER),
            "database": {"type": "string", "enum": ["sqlite", "postgresql"]},
        }
    ),
    "Output": answer_of(
        {
            "text": STRING,
            "start": COUNT,
            "offset": COUNT,
            "size": COUNT,
            "running": BOOLEAN,
            "cut": BOOLEAN,
            "host": or_null(STRING),
            "lease": COUNT,
        }
    ),
    "DeadGroups": answer_of(
        {
            "groups": array(
                answer_of({"reason": STRING, "count": COUNT, "examples": array(STRING), "newest_at": TIME})
            ),
            "looked_at": COUNT,
            "more": BOOLEAN,
        }
    ),
    "History": answer_of(
        {
            "step_seconds": INTEGER,
            "points": array(
                answer_of(
                    {
                        "at": TIME,
                        **dict.fromkeys(("completed", "failed", "dead"), INTEGER),
                        "waiting": COUNT,
                        "running": COUNT,
                    }
                )
            ),
        }
    ),
    "Timeline": answer_of(
        {"from": TIME, "to": TIME, "workers": array(answer_of({"name": STRING, "runs": array(BAR)}))}
    ),
    "Changed": answer_of({"changed": COUNT, "more": BOOLEAN, "cursor": or_null(STRING)}),
    # What a job may be given. What it may hold is checked, and said in docs/json.md; here is what it takes at least.
    "NewJob": sent_as(
        {
            **{key: {} for key in CHECKS},
            "command": {"oneOf": [STRING, array(STRING, minItems=1)]},
            "id": or_null(ID),
            "priority": or_null({"type": "integer", "minimum": 1, "maximum": 10}),
            "label": or_null(STRING),
            "queue": or_null(STRING),
        },
        "command",
    ),
    "Selected": sent_as(
        {
            "state": or_null(STRING),
            **dict.fromkeys(("queue", "label", "match", "reason", "older_than"), or_null(STRING)),
        }
    ),
}

# --- the routes ---

ERRORS = {
    400: "What was asked for cannot be understood",
    401: "The token is missing or wrong",
    403: "It comes from elsewhere, or the server only shows",
    404: "There is no such thing",
    405: "This is not how it is asked for",
    409: "The state of things does not allow it",
    413: "That is more than one request may carry",
    415: "What was sent is not JSON",
    422: "What was sent is JSON, and a value in it is refused",
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
        "ids": array(ID, maxItems=10_000),
        "select": ref("Selected"),
        "limit": {"type": "integer", "minimum": 1},
        "cursor": or_null(STRING),
        **more,
    }
    about = "; the jobs of some ids, or a part of all that are selected: go on with the cursor while there is more"
    return post(summary + about, ref("Changed"), sent_as(selected), required=True)


def counted(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


PATHS: dict[str, dict[str, Any]] = {
    "/api/stats": get("How many jobs are in each state", ref("Counts")),
    "/api/overview": get("What there is to see at first sight; with ETag and If-None-Match", ref("Overview")),
    "/api/jobs": get(
        "Jobs, the newest first, or pending ones as they will run; a page at a time",
        answer_of({"jobs": JOBS, "cursor": or_null(STRING)}),
        {**SELECTORS, "limit": counted(1, 200), "cursor": STRING},
        404,
    ),
    "/api/jobs/{job_id}": get("All about one job, with what it printed", ref("WholeJob"), {}, 404),
    "/api/jobs/{job_id}/output": get(
        "A part of what a try printed, also while it runs; 256,000 bytes at most",
        ref("Output"),
        {
            "stream": {"type": "string", "enum": ["stdout", "stderr"]},
            "lease": counted(0, 10**15 - 1),
            "offset": counted(-(10**15 - 1), 10**15 - 1),
        },
        404,
    ),
    "/api/jobs/{job_id}/why": get(
        "Why it has not run yet, or ran when it did", answer_of({"sentences": array(STRING)}), {}, 404
    ),
    "/api/dead/groups": get("The newest 1,000 dead jobs by how they failed", ref("DeadGroups")),
    "/api/history": get(
        "What ended, waited and ran, step by step",
        ref("History"),
        {"span": {"type": "string", "enum": ["hour", "day"]}},
    ),
    "/api/timeline": get(
        "What each worker ran when: the newest 500 runs at most", ref("Timeline"), {"minutes": counted(1, 24 * 60)}
    ),
    "/api/metrics": get("Figures and events", ref("Metrics"), {"recent": counted(0, 1_000)}),
    "/api/workers": get("The workers", array(ref("Worker"))),
    "/api/queues": get("The queues", array(ref("Queue"))),
    "/api/schedules": get("The recurring jobs", array(ref("Schedule"))),
    "/api/settings": get("The settings", {"type": "object"}),
    "/api/openapi.json": get("This document", {"type": "object"}),
    "/api/enqueue": post(
        "Enqueue a job, or up to 1,000, all or none",
        answer_of({"ids": array(STRING), "warnings": array(STRING)}),
        {"oneOf": [ref("NewJob"), array(ref("NewJob"), minItems=1, maxItems=1_000)]},
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
        sent_as({"limit": or_null(counted(1, 100_000)), "rate": or_null(STRING)}),
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


@describing.get("/openapi.json")
def openapi() -> Response:
    return jsonify(document())
