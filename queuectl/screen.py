"""The live view of a queue: its data, and its drawing for a terminal of a given size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from queuectl.cells import cut, fitting, width
from queuectl.estimates import Forecast, forecast
from queuectl.job import Job, State
from queuectl.liveness import Standing
from queuectl.render import (
    COLOURS,
    expected_text,
    one_line,
    priority_text,
    queue_rows,
)
from queuectl.shapes import worker_state
from queuectl.storage import EndedRun, Storage
from queuectl.times import clock_time, short, spoken

Cells = Sequence[str]
NO_WORKER = "No worker is running. Start one with: queuectl worker start"


class View(NamedTuple):
    """The data of the live view at one moment."""

    counts: Mapping[str, int]
    standings: Sequence[Standing]
    line: Sequence[Job]
    ended: Sequence[EndedRun]
    forecast: Forecast
    queues: Sequence[Mapping[str, Any]] = ()


def look(
    storage: Storage,
    counts: Mapping[str, int],
    standings: Sequence[Standing],
    most: int,
    queues: Sequence[Mapping[str, Any]] = (),
) -> View:
    """Read the view's data: no more jobs than `most`, the rows of the screen."""
    line = [job for job in storage.page(most, State.PENDING)[0] if job.rank is not None]
    return View(counts, standings, line, storage.newest_runs(most), forecast(storage), queues)


def draw(view: View, columns: int, rows: int) -> list[str]:
    """The lines of the screen, cut to its columns and rows."""
    sections = [*([named(view)] if len(view.queues) > 1 else []), workers(view), front(view), lately(view)]
    head = [title(view), counted(view.counts)]
    room = rows - len(head) - 2 * len(sections)  # an empty line and a heading for each
    shown = list(head)
    for (heading, cells), share in zip(sections, shares([len(cells) for _, cells in sections], room)):
        shown += ["", click.style(heading, bold=True), *aligned(cells[:share], columns)]
    return [cut(text, columns) for text in shown[:rows]]


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """How many rows each section gets: as many as it wants, or an equal share of the rows that the others leave."""
    given = [0] * len(wanted)
    for turn, place in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        given[place] = max(0, min(wanted[place], room // (len(wanted) - turn)))
        room -= given[place]
    return given


def title(view: View) -> str:
    left = sum(view.counts[state.value] for state in State if not state.has_ended)
    end_at = view.forecast.end_of_all(left)
    all_ended = f"   all will have ended ~{clock_time(end_at, view.forecast.now)}" if end_at is not None else ""
    return f"queuectl   {short(view.forecast.now)}{all_ended}   Ctrl+C to leave"


def counted(counts: Mapping[str, int]) -> str:
    return "   ".join(f"{click.style(name, fg=COLOURS[State(name)])} {count:,}" for name, count in counts.items())


def named(view: View) -> tuple[str, list[Cells]]:
    """The number of waiting and running jobs in each queue."""
    return "queues", [
        (name, state, f"{waiting} waiting", f"{running} running", rate)
        for name, state, waiting, running, rate in queue_rows(view.queues)
    ]


def workers(view: View) -> tuple[str, list[Cells]]:
    """What each worker does, and since when."""
    now = view.forecast.now
    found: list[Cells] = []
    for standing in view.standings:
        job = standing.job
        since = now - (job.started_at or now) if job else 0
        doing = f"{spoken(max(0, since) / 1000)}{expected_text(view.forecast.of(job), now)}" if job else ""
        command = one_line(job.command) if job else ""
        found.append((standing.worker.name, worker_state(standing), job.id if job else "", doing, command))
    return "workers", found or [(NO_WORKER,)]


def front(view: View) -> tuple[str, list[Cells]]:
    """The first jobs in line, with the effective priority that determines their order."""
    found: list[Cells] = []
    for number, job in enumerate(view.line, 1):
        start_at = view.forecast.of(job).start_at
        start = "" if start_at is None else f"~{clock_time(start_at, view.forecast.now)}"
        found.append(
            (f"{number}.", job.id, f"{priority_text(job)} = {job.effective_priority}", start, one_line(job.command))
        )
    return "in line", found or [("nobody",)]


def lately(view: View) -> tuple[str, list[Cells]]:
    now = view.forecast.now
    found: list[Cells] = [
        (
            clock_time(run.finished_at, now),
            run.job_id,
            outcome(run.outcome),
            spoken(run.duration_seconds),
            one_line(run.command),
        )
        for run in view.ended
    ]
    return "ended lately", found or [("nothing",)]


def outcome(text: str) -> str:
    known = [state for state in State if state.value == text]
    return click.style(text, fg=COLOURS[known[0]]) if known else text


def aligned(rows: Sequence[Cells], columns: int) -> list[str]:
    """The rows as lines of text with aligned columns, as wide as the screen allows."""
    if not rows:
        return []
    widths = fitting([max(map(width, column)) for column in zip(*rows)], columns)
    return ["  ".join(pad(cut(cell, room), room) for cell, room in zip(row, widths) if room).rstrip() for row in rows]


def pad(text: str, room: int) -> str:
    return text + " " * (room - width(text))
