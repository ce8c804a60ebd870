"""Errors as JSON: each with the same line as on the command line, and the status that fits."""

from __future__ import annotations

import sys
import traceback

from flask import Response, jsonify, request
from werkzeug.exceptions import HTTPException

from queuectl import errors
from queuectl.errors import QueueError, brief


class Refused(QueueError):
    """A refusal by this server itself, with the HTTP status."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


# The status of each error; all others are a conflict with the state of the queue.
STATUSES: dict[type[QueueError], int] = {
    errors.JobNotFound: 404,
    errors.NoJobs: 404,
    errors.TryNotFound: 404,
    errors.QueueNotFound: 404,
    errors.ScheduleNotFound: 404,
    errors.StorageError: 503,
}
CONFLICT = 409
# The texts for errors that Flask and waitress raise.
LINES = {
    400: "This is not a request that can be understood",
    404: "There is nothing here. See: /api/openapi.json",
    405: "This method is not allowed here. See: /api/openapi.json",
    413: "That is more than one request may carry. Send it in several",
    415: "Send JSON, with the header Content-Type: application/json",
    431: "These headers are longer than any that are needed here",
}


def line_of(status: int, name: str) -> str:
    return LINES.get(status, f"{name}. See: /api/openapi.json")


def refusal(error: Exception) -> Response:
    """The answer for any exception."""
    if isinstance(error, Refused):
        return told(error.status, str(error))
    if isinstance(error, errors.InvalidInput):
        # 422: the body could be read, and a value in it is refused. 400: a value in the address is refused.
        return told(422 if request.method == "POST" else 400, str(error))
    if isinstance(error, QueueError):
        found = [status for kind, status in STATUSES.items() if isinstance(error, kind)]
        return told(found[0] if found else CONFLICT, str(error))
    if isinstance(error, HTTPException):
        answer = told(error.code or 500, line_of(error.code or 500, error.name))
        if allowed := getattr(error, "valid_methods", None):
            answer.headers["Allow"] = ", ".join(sorted(allowed))
        return answer
    traceback.print_exception(error, file=sys.stderr)
    return told(500, f"Something unforeseen: {brief(error)}. What queuectl web printed says more")


def told(status: int, line: str) -> Response:
    answer = jsonify({"error": line})
    answer.status_code = status
    return answer
