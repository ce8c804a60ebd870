"""The REST API that only reads: the cost of an answer does not depend on the length of the queue."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from flask import Blueprint, Response, jsonify, request

from queuectl import shapes
from queuectl.errors import TryNotFound
from queuectl.estimates import forecast_of
from queuectl.follow import elsewhere
from queuectl.job import Job, State
from queuectl.metrics import measure
from queuectl.printed import part_of_try
from queuectl.times import iso
from queuectl.web import chart
from queuectl.web.asked import choice, known_id, number, selection
from queuectl.web.here import here
from queuectl.web.overview import overview, queue_shapes, schedule_shapes, worker_shapes
from queuectl.why import gather, reasons

looking = Blueprint("looking", __name__, url_prefix="/api")

MOST_JOBS = 200
MOST_OUTPUT = 256_000  # bytes per answer
FARTHEST = 10**15 - 1
MOST_DEAD = 1_000
MOST_EVENTS = 1_000
LONGEST_TIMELINE = 24 * 60  # minutes
EXAMPLES = 5


@looking.get("/stats")
def stats() -> Response:
    return jsonify(here().queue.counts())


@looking.get("/overview")
def overview_now() -> Response:
    mark = here().changes.mark()  # read before the data, so that a change in between is shown next time
    answer = Response(status=304) if mark in request.if_none_match else jsonify(overview(here()))
    answer.set_etag(mark)
    return answer


# --- jobs ---


@looking.get("/jobs")
def jobs() -> Response:
    queue = here().queue
    page = queue.find(selection(request.args), number("limit", 50, 1, MOST_JOBS), request.args.get("cursor", ""))
    expected = forecast_of(queue.storage, page.jobs)
    shown = [shapes.job_json(job, expected=expected.of(job)) for job in page.jobs]
    return jsonify({"jobs": shown, "cursor": page.cursor})


@looking.get("/jobs/<job_id>")
def job(job_id: str) -> Response:
    queue = here().queue
    has_output = choice("output", ("1", "0")) == "1"
    found = queue.get(known_id(job_id)) if has_output else glanced(known_id(job_id))
    past = shapes.Past(queue.runs(found), queue.needs(found), queue.dependents(found))
    shape = shapes.job_json(found, past, forecast_of(queue.storage, [found]).of(found))
    if not has_output:
        del shape["output"], shape["stderr"]
    is_here = found.state is State.PROCESSING and elsewhere(queue, found) is None
    return jsonify(dict(shape, worker_is_here=is_here))


def glanced(job_id: str) -> Job:
    """The job without its output, which may be megabytes: for clients that poll, and read the output in parts."""
    queue = here().queue
    [found] = queue.storage.aged([*queue.named([job_id])])
    return found


@looking.get("/jobs/<job_id>/output")
def output(job_id: str) -> Response:
    queue = here().queue
    [found] = queue.named([known_id(job_id)])
    stream = ("stdout", "stderr").index(choice("stream", ("stdout", "stderr")))
    lease = number("lease", found.lease, 0, FARTHEST)  # not the try: its number starts again when the job is retried
    if lease != found.lease and lease not in {run.lease for run in queue.runs(found)}:
        raise TryNotFound(found.id, lease, "run")
    part = part_of_try(queue, found, lease, stream, number("offset", 0, -FARTHEST, FARTHEST), MOST_OUTPUT)
    return jsonify(
        {
            "text": part.text,
            "start": part.start,
            "offset": part.offset,
            "size": part.size,
            "running": part.is_running,
            "cut": part.is_cut,
            "host": part.host,
            "lease": lease,
        }
    )


@looking.get("/jobs/<job_id>/why")
def why(job_id: str) -> Response:
    queue = here().queue
    [found] = queue.named([known_id(job_id)])
    return jsonify({"sentences": reasons(gather(queue.storage, found))})


@looking.get("/dead/groups")
def dead_groups() -> Response:
    """The newest dead jobs, grouped by error message."""
    dead = here().queue.storage.jobs(State.DEAD, MOST_DEAD)
    groups: defaultdict[str, list[Job]] = defaultdict(list)
    for one in dead:
        groups[one.error_message or ""].append(one)
    shown = [
        {
            "reason": reason,
            "count": len(found),
            "examples": [one.id for one in found[:EXAMPLES]],
            "newest_at": iso(max(one.finished_at or one.updated_at for one in found)),
        }
        for reason, found in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]
    return jsonify({"groups": shown, "looked_at": len(dead), "more": len(dead) == MOST_DEAD})


# --- figures ---


@looking.get("/history")
def history() -> Response:
    return jsonify(chart.history(here().queue.storage, chart.SPANS[choice("span", tuple(chart.SPANS))]))


@looking.get("/timeline")
def timeline() -> Response:
    return jsonify(chart.timeline(here().queue.storage, number("minutes", 15, 1, LONGEST_TIMELINE)))


@looking.get("/metrics")
def metrics() -> Response:
    return jsonify(shapes.metrics_json(measure(here().queue.storage, number("recent", 10, 0, MOST_EVENTS))))


# --- workers, queues, schedules, settings ---


@looking.get("/workers")
def workers() -> Response:
    return listed(worker_shapes(here()))


@looking.get("/queues")
def queues() -> Response:
    return listed(queue_shapes(here().queue))


@looking.get("/schedules")
def schedules() -> Response:
    return listed(schedule_shapes(here().queue.storage))


@looking.get("/settings")
def settings() -> Response:
    return jsonify(here().queue.all_settings())


def listed(found: list[dict[str, Any]]) -> Response:
    return jsonify(found)
