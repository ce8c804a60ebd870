"""The REST API that changes many jobs: those with given ids, or a part of a selection and a cursor for the rest."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flask import Blueprint, Response, jsonify

from queuectl.errors import InvalidInput, brief
from queuectl.job import Job, State
from queuectl.selection import Selection
from queuectl.web.asked import fields, known_id, only, selection, text
from queuectl.web.here import here

in_bulk = Blueprint("in_bulk", __name__, url_prefix="/api/bulk")

MOST = 10_000  # changed by one call
BATCH = 500
PAUSE_SECONDS = 0.01  # between two batches, so that workers get the database's lock
SELECTORS = ("state", "queue", "label", "match", "reason", "older_than")
UNENDED = (State.PENDING, State.FAILED, State.PROCESSING)
ENDED = (State.COMPLETED, State.DEAD, State.CANCELLED)
CURSOR = r"([0-9]):(.*)"

Change = Callable[[Sequence[Job]], int]


@in_bulk.post("/retry")
def retry() -> Response:
    """Retry all jobs of the call at once: the dependencies between them decide the order."""
    return change(ENDED, here().queue.retry_all, fields("ids", "select", "limit", "cursor"), at_once=True)


@in_bulk.post("/cancel")
def cancel() -> Response:
    given = fields("ids", "select", "limit", "cursor", "reason")
    reason = text(given, "reason")
    cancel_all = here().queue.cancel_all
    return change(UNENDED, partial(cancel_all, reason=reason) if reason else cancel_all, given)


@in_bulk.post("/delete")
def delete() -> Response:
    return change((*ENDED, *UNENDED[:2]), here().queue.delete_all, fields("ids", "select", "limit", "cursor"))


def change(states: Sequence[State], do: Change, given: dict[str, Any], at_once: bool = False) -> Response:
    if ("ids" in given) == ("select" in given):
        raise InvalidInput('Send "ids", or "select" with what the jobs are, and one of them only')
    limit = given.get("limit", MOST)
    if type(limit) is not int or limit < 1:
        raise InvalidInput(f"limit cannot be {brief(limit)}. It takes a whole number from 1")
    if "ids" in given:
        jobs = [job for job in here().queue.named(checked_ids(given["ids"])) if job.state in states]
        size = MOST if at_once else BATCH
        changed, cursor = sum(do(jobs[n : n + size]) for n in range(0, len(jobs), size)), None
    else:
        found: list[Job] = []
        meet = partial(collect, found) if at_once else do
        changed, cursor = change_selected(states, meet, selected(given["select"]), limit, text(given, "cursor"))
        if at_once:
            changed = do(found)
    return jsonify({"changed": changed, "more": cursor is not None, "cursor": cursor})


def collect(found: list[Job], jobs: Sequence[Job]) -> int:
    found += jobs
    return len(jobs)


def checked_ids(given: Any) -> list[str]:
    if not isinstance(given, list) or len(given) > MOST or not all(isinstance(job_id, str) for job_id in given):
        raise InvalidInput(f"ids takes a list of ids, {MOST:,} at most")
    return [known_id(job_id) for job_id in given]


def selected(given: Any) -> Selection:
    """The selection; an empty object is refused, because it would select all jobs by mistake."""
    if not isinstance(given, dict):
        raise InvalidInput("select takes an object with what the jobs are")
    only(given, SELECTORS)
    wanted = selection(given)
    if wanted == Selection():
        raise InvalidInput(f"select is empty. Say what the jobs are, by some of: {', '.join(SELECTORS)}")
    return wanted


def change_selected(
    states: Sequence[State], do: Change, wanted: Selection, limit: int, cursor: str | None
) -> tuple[int, str | None]:
    """Change at most `limit` jobs; return how many were changed, and the cursor to go on, None after the last."""
    if wanted.state is not None:
        if wanted.state not in states:
            raise InvalidInput(f"This cannot be done to {wanted.state} jobs, only to {' or '.join(states)} ones")
        states = [wanted.state]
    number, place = begin(cursor, len(states))
    changed, most = 0, min(limit, MOST)
    while changed < most:
        size = min(BATCH, most - changed)
        jobs, following = here().queue.find(wanted._replace(state=states[number]), size, place)
        if jobs:
            changed += do(jobs)
        if following is None:
            number, place = number + 1, ""
            if number == len(states):
                return changed, None
        else:
            place = following
            if len(jobs) < size:  # the page has read as many rows as it may
                break
        time.sleep(PAUSE_SECONDS)
    return changed, f"{number}:{place}"


def begin(cursor: str | None, states: int) -> tuple[int, str]:
    """The number of the state, and the cursor within its jobs."""
    if cursor is None:
        return 0, ""
    found = re.fullmatch(CURSOR, cursor)
    if not found or int(found[1]) >= states:
        raise InvalidInput(f"{brief(cursor)} is not a cursor. Begin again without one")
    return int(found[1]), found[2]
