"""Text for people: tables, and the details of a job."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import click

from queuectl.cells import cut, fitting, printable, width
from queuectl.estimates import Expected, Forecast
from queuectl.job import Job, State
from queuectl.liveness import Standing
from queuectl.metrics import Metrics, Spread
from queuectl.shapes import Past, worker_state
from queuectl.storage import Link, Schedule
from queuectl.times import Millis, as_typed, clock_time, short, spoken
from queuectl.tracing import trace_id

COLOURS = {
    State.PENDING: "cyan",
    State.PROCESSING: "blue",
    State.COMPLETED: "green",
    State.FAILED: "yellow",
    State.DEAD: "red",
    State.CANCELLED: "magenta",
}
MOST_NAMED = 20  # of a job's dependencies, and of its dependents


def state_text(state: State) -> str:
    return click.style(state.value, fg=COLOURS[state])


def table(rows: Sequence[Sequence[Any]], headers: Sequence[str]) -> str:
    """A table that fits the terminal: on a narrow one, columns are cut or left out."""
    import tabulate

    # tabulate counts letters by default; with these it calls `width`, which counts the cells of the terminal.
    vars(tabulate).update(MIN_PADDING=0, wcwidth=SimpleNamespace(wcswidth=width), WIDE_CHARS_MODE=True)
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
    if sys.stdout.isatty():
        widths = fitting([max(map(width, column)) for column in zip(*cells)], shutil.get_terminal_size().columns)
        cells = [[cut(cell, room) for cell, room in zip(row, widths) if room] for row in cells]
    return tabulate.tabulate(cells[1:], headers=cells[0], tablefmt="simple", disable_numparse=True)


def recent(moment: Millis | None) -> str:
    """Local time for a table, with the date only if it is not today's."""
    return "" if moment is None else clock_time(moment, round(time.time() * 1000))


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))


# --- jobs ---


def job_table(jobs: Sequence[Job], forecast: Forecast | None = None) -> str:
    labelled = any(job.label for job in jobs)
    several = len({job.queue for job in jobs}) > 1
    rows = [
        (
            job.id,
            state_text(job.state),
            priority_text(job),
            tries_text(job),
            when_text(job) + (expected_text(forecast.of(job), forecast.now) if forecast else ""),
            *([job.queue] if several else []),
            *([job.label or ""] if labelled else []),
            one_line(job.command),
        )
        for job in jobs
    ]
    more = ["queue"] * several + ["label"] * labelled
    return table(rows, ["id", "state", "priority", "tries", "when", *more, "command"])


def dead_table(jobs: Sequence[Job]) -> str:
    rows = [
        (job.id, tries_text(job), recent(job.finished_at), one_line(job.error_message or ""), one_line(job.command))
        for job in jobs
    ]
    return table(rows, ["id", "tries", "died", "why", "command"])


def priority_text(job: Job) -> str:
    return f"{job.priority}+{job.waiting_time}" if job.waiting_time else str(job.priority)


def tries_text(job: Job) -> str:
    return f"{job.attempts}/{job.max_retries + 1}"


def when_text(job: Job) -> str:
    if job.state is State.PROCESSING:
        return f"since {recent(job.started_at)}"
    if job.waits_for:
        return "waits for 1 job" if job.waits_for == 1 else f"waits for {job.waits_for:,} jobs"
    if job.state in (State.PENDING, State.FAILED):
        return f"from {recent(job.due_at)}" if job.due_at else f"waiting since {recent(job.since_at)}"
    return f"ended {recent(job.finished_at)}"


def expected_text(expected: Expected, now: Millis) -> str:
    """The next expected time, with a ~ that marks it as an estimate."""
    if expected.start_at is not None:
        return f", starts ~{clock_time(expected.start_at, now)}"
    return "" if expected.end_at is None else f", ends ~{clock_time(expected.end_at, now)}"


def names_text(links: Sequence[Link]) -> str:
    """Linked jobs, each with its state, and how it must end unless that is the usual `completed`."""
    ends = {"any": ", whatever its end", "dead": ", only if it dies"}
    names = [f"{link.id} ({link.state}{ends.get(link.wanted, '')})" for link in links[:MOST_NAMED]]
    return ", ".join(names) + (", …" if len(links) > MOST_NAMED else "")


def job_details(job: Job, past: Past) -> str:
    facts = [
        ("job", job.id),
        ("command", printable(job.command, "\n")),
        ("state", state_text(job.state) + (f": {printable(job.error_message)}" if job.error_message else "")),
        ("priority", f"{job.priority} + {job.waiting_time} for waiting = {job.effective_priority}"),
        ("tries", f"{job.attempts} of {job.max_retries + 1}" + (", never run twice" if job.no_rerun else "")),
        ("no retry on", (job.no_retry_on or "").replace(",", ", ")),
        ("jitter", f"{job.jitter:g}" if job.jitter else ""),
        ("time limit", f"{job.timeout} s" if job.timeout else "none"),
        ("queue", job.queue),
        ("directory", printable(job.cwd)),
        ("shell", job.shell or ""),
        ("created", short(job.created_at)),
        ("not before", short(job.run_at)),
        ("started", short(job.started_at)),
        ("ended", short(job.finished_at)),
        ("took", spoken(job.duration_seconds) if job.duration_seconds is not None else ""),
        ("exit code", "" if job.exit_code is None else str(job.exit_code)),
        ("worker", job.worker or ""),
        ("label", job.label or ""),
        ("unique key", printable(job.unique_key or "")),
        ("trace", trace_id(job.traceparent) or ""),
        ("waits for" if job.waits_for else "waited for", names_text(past.needs)),
        ("before", ", ".join(link.id for link in past.dependents[:MOST_NAMED])),
    ]
    text = facts_text(facts)
    if len(past.runs) > 1:
        rows = [
            (
                run.lease,
                run.outcome,
                short(run.started_at),
                spoken(run.duration_seconds),
                one_line(run.error_message or ""),
            )
            for run in past.runs
        ]
        text += "\n\n" + table(rows, ["try", "outcome", "started", "took", "why"])
    for title, printed in (("output", job.output), ("stderr", job.stderr)):
        if printed:
            text += f"\n\n{click.style(title, bold=True)}\n{printed.rstrip()}"
    return text


def facts_text(facts: Sequence[tuple[str, str]]) -> str:
    """One line for each fact that has a value."""
    return "\n".join(f"{click.style(name, bold=True):<{12 + 8}} {value}" for name, value in facts if value)


# --- schedules ---


def schedule_table(schedules: Sequence[Schedule]) -> str:
    rows = [
        (
            one.name,
            rule_text(one),
            "paused" if one.is_paused else recent(one.next_at),
            f"none: {one.note}" if one.note else recent(one.last_at),
            one_line(one.command),
        )
        for one in schedules
    ]
    return table(rows, ["schedule", "when", "next", "last", "command"])


def rule_text(schedule: Schedule) -> str:
    if schedule.every_seconds is not None:
        return f"every {as_typed(schedule.every_seconds)}"
    return f"{schedule.cron} ({schedule.tz})"


def coming_text(schedules: Sequence[Schedule], now: Millis) -> str:
    """A table of the schedules' next times, which is shown below the list of jobs."""
    rows = [(clock_time(one.next_at, now), one.name, rule_text(one), one_line(one.command)) for one in schedules]
    return table(rows, ["next", "schedule", "when", "command"])


# --- queues ---


def queue_rows(queues: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    """One row per queue: open or paused, waiting jobs, running jobs and their limit, and the rate."""
    return [
        (
            queue["name"],
            click.style("paused", fg="yellow") if queue["paused"] else "open",
            f"{queue['jobs']['pending'] + queue['jobs']['failed']:,}",
            f"{queue['jobs']['processing']}" + (f" of {queue['limit']}" if queue["limit"] else ""),
            queue["rate"] or "",
        )
        for queue in queues
    ]


def queue_table(queues: Sequence[Mapping[str, Any]]) -> str:
    return table(queue_rows(queues), ["queue", "state", "waiting", "running", "rate"])


# --- workers ---


def worker_table(standings: Sequence[Standing], forecast: Forecast) -> str:
    colours = {"lost": "red", "stopping": "yellow", "busy": "blue", "idle": "green"}
    several = len({standing.worker.host for standing in standings}) > 1
    bound = any(standing.worker.queues for standing in standings)
    rows = []
    for standing in standings:
        worker, state = standing.worker, worker_state(standing)
        rows.append(
            (
                worker.name,
                *([worker.host] if several else []),
                worker.pid,
                click.style(state, fg=colours[state]),
                standing.job.id + expected_text(forecast.of(standing.job), forecast.now) if standing.job else "",
                *([(worker.queues or "all").replace(",", ", ")] if bound else []),
                worker.processed,
                "" if standing.memory_bytes is None else f"{standing.memory_bytes / 1_000_000:.0f} MB",
                f"{spoken(max(0, forecast.now - worker.heartbeat_at) / 1000)} ago",
                recent(worker.started_at),
            )
        )
    hosts = ["host"] if several else []
    queues = ["queues"] if bound else []
    headers = ["worker", *hosts, "pid", "state", "job", *queues, "jobs done", "memory", "heartbeat", "started"]
    return table(rows, headers)


# --- figures ---


def metrics_text(metrics: Metrics) -> str:
    events = table([list(metrics.events.values())], list(metrics.events))
    spreads = table(
        [spread_row("run time", metrics.run_seconds), spread_row("waiting time", metrics.waiting_seconds)],
        ["of the last 1,000 runs", "average", "median", "95th percentile"],
    )
    parts = [events, spreads, f"{metrics.jobs_per_minute:.1f} jobs a minute lately"]
    if metrics.recent:
        rows = [(recent(event.at), event.event, event.job_id, event.worker or "") for event in metrics.recent]
        parts.append(table(rows, ["when", "event", "job", "worker"]))
    return "\n\n".join(parts)


def spread_row(name: str, spread: Spread) -> list[str]:
    return [name, *("–" if value is None else spoken(value) for value in spread)]
