"""The JSON that programs get. docs/json.md documents it; it is stable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from queuectl.estimates import NOTHING, Expected, Forecast
from queuectl.job import Job, State
from queuectl.liveness import Standing
from queuectl.metrics import Metrics
from queuectl.storage import Link, QueueRow, Run, Schedule
from queuectl.times import iso
from queuectl.tracing import trace_id

if TYPE_CHECKING:
    from queuectl.autostart import Autostart


class Past(NamedTuple):
    """What `show` prints besides the job itself: its tries, its dependencies and its dependents."""

    runs: Sequence[Run]
    needs: Sequence[Link]
    dependents: Sequence[Link]


def to_json(value: Any) -> str:
    return json.dumps(value, indent=2)


def job_json(job: Job, past: Past | None = None, expected: Expected = NOTHING) -> dict[str, Any]:
    """A job without its output; with `past`, as for `show`, also its output, tries, dependencies and dependents."""
    found: dict[str, Any] = {
        "id": job.id,
        "command": json.loads(job.argv) if job.argv else job.command,
        "state": job.state.value,
        "priority": job.priority,
        "waiting_time": job.waiting_time,
        "effective_priority": job.effective_priority,
        "attempts": job.attempts,
        "max_retries": job.max_retries,
        "timeout": job.timeout,
        "backoff_base": job.backoff_base,
        "created_at": iso(job.created_at),
        "updated_at": iso(job.updated_at),
        "run_at": iso(job.run_at),
        "started_at": iso(job.started_at),
        "finished_at": iso(job.finished_at),
        "duration_seconds": job.duration_seconds,
        "exit_code": job.exit_code,
        "error_message": job.error_message,
        "lease": job.lease,
        "worker": job.worker,
        "cwd": job.cwd,
        "queue": job.queue,
        "shell": job.shell,
        "no_retry_on": [int(code) for code in job.no_retry_on.split(",")] if job.no_retry_on else [],
        "jitter": job.jitter,
        "no_rerun": bool(job.no_rerun),
        "label": job.label,
        "unique": job.unique_key,
        "waits_for": job.waits_for,
        "trace_id": trace_id(job.traceparent),
        "expected_start_at": iso(expected.start_at),
        "expected_end_at": iso(expected.end_at),
    }
    if past is not None:
        found.update(output=job.output, stderr=job.stderr, runs=[run_json(run) for run in past.runs])
        found.update(
            needs=[link_json(link) for link in past.needs], dependents=[link_json(link) for link in past.dependents]
        )
    return found


def link_json(link: Link) -> dict[str, Any]:
    return dict(link._asdict(), is_met=bool(link.is_met))


def run_json(run: Run) -> dict[str, Any]:
    return dict(run._asdict(), started_at=iso(run.started_at), finished_at=iso(run.finished_at))


def worker_json(standing: Standing, forecast: Forecast) -> dict[str, Any]:
    worker, job = standing.worker, standing.job
    return {
        "name": worker.name,
        "pid": worker.pid,
        "host": worker.host,
        "state": worker_state(standing),
        "job": job.id if job else None,
        "started_at": iso(worker.started_at),
        "heartbeat_at": iso(worker.heartbeat_at),
        "heartbeat_age_seconds": max(0, forecast.now - worker.heartbeat_at) / 1000,
        "processed": worker.processed,
        "queues": worker.queues.split(",") if worker.queues else None,
        "memory_bytes": standing.memory_bytes,
        "expected_end_at": iso(forecast.of(job).end_at) if job else None,
    }


def worker_state(standing: Standing) -> str:
    if standing.is_lost:
        return "lost"
    if standing.worker.stop_grace is not None:
        return "stopping"
    return "busy" if standing.job else "idle"


def queue_json(found: QueueRow, totals: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": found.name,
        "paused": bool(found.is_paused),
        "limit": found.run_limit,
        "rate": found.rate_text,
        "jobs": {state.value: totals.get(state.value, 0) for state in State},
    }


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "every_seconds": schedule.every_seconds,
        "tz": schedule.tz or None,
        "command": json.loads(schedule.fields)["command"],
        "cwd": schedule.cwd,
        "missed": schedule.missed,
        "overlap": bool(schedule.may_overlap),
        "paused": bool(schedule.is_paused),
        "created_at": iso(schedule.created_at),
        "next_at": None if schedule.is_paused else iso(schedule.next_at),
        "last_at": iso(schedule.last_at),
        "note": schedule.note,
    }


def autostart_json(found: Autostart | None) -> dict[str, Any]:
    if found is None:
        return {"enabled": False, "current": None, "count": None, "kind": None, "place": None}
    return {
        "enabled": found.is_active,
        "current": found.is_current,
        "count": found.workers,
        "kind": found.kind,
        "place": found.place,
    }


def why_json(job: Job, reasons: Sequence[str]) -> dict[str, Any]:
    return {"id": job.id, "state": job.state.value, "reasons": list(reasons)}


def metrics_json(metrics: Metrics) -> dict[str, Any]:
    return {
        "events": metrics.events,
        "run_seconds": metrics.run_seconds._asdict(),
        "waiting_seconds": metrics.waiting_seconds._asdict(),
        "jobs_per_minute": round(metrics.jobs_per_minute, 3),
        "recent": [dict(event._asdict(), at=iso(event.at)) for event in metrics.recent],
    }
