"""The REST API that changes the queue: each request does what one command does."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify

from queuectl import config, recurring, shapes
from queuectl.errors import InvalidInput
from queuectl.fields import whole_number
from queuectl.job import Job
from queuectl.web.asked import body, fields, known_id, text
from queuectl.web.here import here
from queuectl.web.overview import schedule_shape

changing = Blueprint("changing", __name__, url_prefix="/api")

MOST_ENQUEUED = 1_000
MOST_AT_ONCE = 100_000
check_limit = whole_number("limit", 1, MOST_AT_ONCE, f"a whole number from 1 to {MOST_AT_ONCE}, or null for any number")


@changing.post("/enqueue")
def enqueue() -> tuple[Response, int]:
    wanted = body()
    jobs = wanted if isinstance(wanted, list) else [wanted]
    if not all(isinstance(job, dict) for job in jobs):
        raise InvalidInput('A job is an object, such as {"command": "echo hello"}. Send one, or a list of them')
    if not 1 <= len(jobs) <= MOST_ENQUEUED:
        raise InvalidInput(f"{len(jobs):,} jobs cannot be sent at once. Send 1 to {MOST_ENQUEUED:,}")
    warnings: list[str] = []
    added = here().queue.enqueue_all(jobs, warn=warnings.append)
    taken = [job.id for job in added if not job.is_new]
    warnings += [f"Job {job_id} waits or runs under this key already: no other was added." for job_id in taken]
    new = len(added) - len(taken)
    return jsonify({"ids": [job.id for job in added], "new": new, "warnings": warnings}), 201 if new else 200


# --- one job ---


@changing.post("/cancel/<job_id>")
def cancel(job_id: str) -> Response:
    reason = text(fields("reason"), "reason")
    [job] = here().queue.cancel([known_id(job_id)], **({"reason": reason} if reason else {}))
    return shown(job)


@changing.post("/retry/<job_id>")
def retry(job_id: str) -> Response:
    fields()
    [job] = here().queue.retry([known_id(job_id)])
    return shown(here().queue.storage.glance(job.id))


@changing.post("/promote/<job_id>")
def promote(job_id: str) -> Response:
    fields()
    return shown(here().queue.promote(known_id(job_id)))


@changing.post("/delete/<job_id>")
def delete(job_id: str) -> Response:
    fields()
    return jsonify({"deleted": len(here().queue.delete([known_id(job_id)]))})


def shown(job: Job) -> Response:
    [aged] = here().queue.storage.aged([job])
    return jsonify(shapes.job_json(aged))


# --- queues ---


@changing.post("/queues/<name>")
def set_queue(name: str) -> Response:
    given = fields("limit", "rate")
    changes: dict[str, Any] = {}
    if "limit" in given:
        changes["run_limit"] = None if given["limit"] is None else check_limit(given["limit"])
    if "rate" in given:
        changes["rate_text"] = config.rate(text(given, "rate") or "") or None
    return changed(name, **changes)


@changing.post("/queues/<name>/pause")
def pause_queue(name: str) -> Response:
    fields()
    return changed(name, is_paused=1)


@changing.post("/queues/<name>/resume")
def resume_queue(name: str) -> Response:
    fields()
    return changed(name, is_paused=0)


def changed(name: str, **changes: Any) -> Response:
    storage = here().queue.storage
    queue = storage.set_queue(name, **changes)
    return jsonify(shapes.queue_json(queue, storage.totals_by_queue().get(name, {})))


# --- recurring jobs ---


@changing.post("/schedules/<name>/pause")
def pause_schedule(name: str) -> Response:
    fields()
    storage = here().queue.storage
    storage.pause_schedule(name)
    return jsonify(schedule_shape(storage, storage.schedule(name)))


@changing.post("/schedules/<name>/resume")
def resume_schedule(name: str) -> Response:
    fields()
    storage = here().queue.storage
    return jsonify(schedule_shape(storage, recurring.resume(storage, name)))


@changing.post("/schedules/<name>/run")
def run_schedule(name: str) -> Response:
    fields()
    return jsonify({"id": recurring.run_now(here().queue.storage, name).id})
