"""The shapes of what the REST API takes and answers, as JSON Schema; docs/json.md says what the keys mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queuectl.fields import CHECKS, LONGEST_ID
from queuectl.job import State
from queuectl.metrics import EVENTS

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
STATE: Schema = {"type": "string", "enum": [state.value for state in State]}
ID: Schema = {"type": "string", "maxLength": LONGEST_ID}


def or_null(schema: Schema) -> Schema:
    return dict(schema, type=[schema["type"], "null"])


def array(of: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": of, **more}


def answer_of(properties: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these required and optional keys; later versions may add others."""
    return {"type": "object", "properties": {**properties, **(optional or {})}, "required": list(properties)}


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


def counted(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


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
ENQUEUED = answer_of({"ids": array(STRING), "new": COUNT, "warnings": array(STRING)})
BAR = answer_of({"job": STRING, "command": STRING, "started_at": TIME, "finished_at": or_null(TIME), "outcome": STRING})
JOBS = array(ref("Job"))
SCHEMAS: dict[str, Schema] = {
    "Error": answer_of({"error": STRING}),
    "Counts": COUNTS,
    "Job": answer_of(JOB_KEYS),
    "WholeJob": answer_of(
        {
            **JOB_KEYS,
            "runs": array(RUN),
            "needs": array(LINK),
            "dependents": array(LINK),
            "worker_is_here": BOOLEAN,
        },
        {"output": or_null(STRING), "stderr": or_null(STRING)},
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
        {
            "from": TIME,
            "to": TIME,
            "complete_from": TIME,
            "workers": array(answer_of({"name": STRING, "runs": array(BAR)})),
        }
    ),
    "Changed": answer_of({"changed": COUNT, "more": BOOLEAN, "cursor": or_null(STRING)}),
    # The keys of a new job. Their values are checked elsewhere and described in docs/json.md; here are the basic types.
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
