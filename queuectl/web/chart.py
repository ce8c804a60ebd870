"""The data of the charts: the counters minute by minute, and what each worker ran when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from queuectl.job import State
from queuectl.storage import COMMAND_LETTERS, MOST_COUNTED, Sample, Storage
from queuectl.times import Millis, iso

MINUTE: Millis = 60_000
MOST_RUNS = 500
LOOKED_AT = 10_000  # newest runs, searched for long ones


class Span(NamedTuple):
    step_minutes: int
    steps: int


SPANS = {"hour": Span(1, 60), "day": Span(15, 96)}


def history(storage: Storage, span: Span) -> dict[str, Any]:
    """Points at equal intervals, the newest last; the newest interval is not complete yet."""
    now = storage.clock.now() // MINUTE
    first = (now // span.step_minutes + 1 - span.steps) * span.step_minutes
    samples = storage.samples(first, now)
    found = minutes(samples, storage.standing(now), first)
    points = [
        dict(point(found[begin : begin + span.step_minutes]), at=iso((first + begin) * MINUTE))
        for begin in range(0, len(found), span.step_minutes)
    ]
    return {"step_seconds": span.step_minutes * 60, "points": points}


def minutes(samples: Sequence[Sample], last: Sample, first: int) -> list[Sample]:
    """The number of events in each minute, and of waiting and running jobs at its end.

    Only workers cause these events, and every running worker stores samples: so the events between two samples belong
    to the minute of the first, and a minute without a sample has no events.
    """
    ends = [*samples[1:], last]
    known = {
        one.minute: Sample(
            one.minute,
            end.completed - one.completed,
            end.failed - one.failed,
            end.dead - one.dead,
            end.waiting,
            end.running,
        )
        for one, end in zip(samples, ends)
    }
    found: list[Sample] = []
    stood = samples[0] if samples else last
    for minute in range(first, last.minute + 1):
        stood = known.get(minute, stood)
        happened = stood if minute in known else stood._replace(completed=0, failed=0, dead=0)
        found.append(happened._replace(minute=minute))
    return found


def point(found: Sequence[Sample]) -> dict[str, Any]:
    return {
        "completed": sum(one.completed for one in found),
        "failed": sum(one.failed for one in found),
        "dead": sum(one.dead for one in found),
        "waiting": found[-1].waiting,
        "running": found[-1].running,
    }


def timeline(storage: Storage, minutes: int) -> dict[str, Any]:
    """What each worker ran in the last minutes: what runs now, the newest runs, and of those before them the long ones.

    It is complete from `complete_from` on; before that it contains only long runs.
    """
    now = storage.clock.now()
    begin = now - minutes * MINUTE
    found = storage.newest_runs(MOST_RUNS)
    complete_from = begin
    if len(found) == MOST_RUNS and found[-1].finished_at > begin:
        complete_from = found[-1].finished_at
        known = {(run.job_id, run.started_at) for run in found}
        long = storage.long_runs(minutes * 60 / MOST_RUNS, LOOKED_AT, MOST_RUNS)
        found += [run for run in long if (run.job_id, run.started_at) not in known]
    workers: dict[str, list[dict[str, Any]]] = {worker.name: [] for worker in storage.workers()}
    for run in sorted(found, key=lambda run: run.finished_at):
        if run.finished_at >= begin:
            workers.setdefault(run.worker or "", []).append(
                bar(run.job_id, run.command, run.started_at, run.finished_at, run.outcome)
            )
    for job in storage.jobs(State.PROCESSING, MOST_COUNTED):
        workers.setdefault(job.worker or "", []).append(
            bar(job.id, job.command[:COMMAND_LETTERS], job.started_at, None, job.state.value)
        )
    shown = [{"name": name, "runs": runs} for name, runs in sorted(workers.items())]
    return {"from": iso(begin), "to": iso(now), "complete_from": iso(complete_from), "workers": shown}


def bar(
    job_id: str, command: str, started_at: Millis | None, finished_at: Millis | None, outcome: str
) -> dict[str, Any]:
    return {
        "job": job_id,
        "command": command,
        "started_at": iso(started_at),
        "finished_at": iso(finished_at),
        "outcome": outcome,
    }
