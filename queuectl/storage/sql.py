"""The statements of schema.sql and queries.sql, by version and by name."""

from __future__ import annotations

import os
from collections.abc import Mapping

from queuectl.job import Job, State
from queuectl.ranking import PROMOTED

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOTALS = [
    *(state.value for state in State),
    *(f"event_{event}" for event in ("enqueued", "started", "completed", "failed", "dead", "cancelled")),
]
PARAMETER = r":(\w+)"
SCHEDULE_COLUMNS = (
    "name, cron, every_seconds, tz, fields, command, cwd, environment, missed, may_overlap, is_paused, created_at, "
    "next_at, last_at, last_seq, note"
)
JOB_COLUMNS = ", ".join(Job._fields[: Job._fields.index("output")])


def queries(dialect: Mapping[str, str]) -> dict[str, str]:
    """Each named statement of queries.sql, in this engine's dialect."""
    totals = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in TOTALS)
    words = dict(dialect, job=JOB_COLUMNS, schedule=SCHEDULE_COLUMNS, totals=totals, promoted=str(PROMOTED))
    found: dict[str, str] = {}
    for block in _read("queries.sql").split("\n\n"):
        heading, _, statement = block.partition("\n")
        name = heading[3:].partition(":")[0]
        lines = [line for line in statement.splitlines() if not line.startswith("--")]
        if lines:
            text = "\n".join(lines).rstrip(";")
            found[name] = text.format_map(words) if "{" in text else text
    return found


def migrations() -> list[list[str]]:
    """The statements of each version of schema.sql: the first list makes version 1."""
    steps = _read("schema.sql").split("\n-- version ")[1:]
    return [[part.strip() for part in step.partition("\n")[2].split(";\n") if part.strip()] for step in steps]


def _read(name: str) -> str:
    with open(os.path.join(PACKAGE, name), encoding="utf-8") as file:
        return file.read()
