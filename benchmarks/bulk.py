"""Enqueue many jobs from a file of JSON lines, against inserting the same lines in a bare table with sqlite3 alone."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator

from benchmarks.harness import Figure, Scale, alternate, at_least, python, queuectl, ratio, seconds, time_process
from benchmarks.queues import Shelf

BARE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[2])
database.execute("PRAGMA journal_mode = WAL")
database.execute("CREATE TABLE lines (line TEXT)")
with open(sys.argv[1], encoding="utf-8") as file, database:
    database.executemany("INSERT INTO lines VALUES (?)", ((line,) for line in file))
"""


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    path = os.path.join(shelf.root, "jobs.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for number in range(scale.bulk):
            file.write(json.dumps({"command": f"echo {number}", "priority": 1 + number % 10}) + "\n")

    def enqueue() -> float:
        with shelf.queue() as home:
            time_process(queuectl("status"), home)  # makes the database
            return scale.bulk / time_process(queuectl("enqueue", "--file", path), home)

    def insert() -> float:
        with shelf.queue() as home:
            return scale.bulk / time_process(python(BARE, path, home.database), home)

    found = alternate({"enqueue": enqueue, "insert": insert}, scale.rounds)
    rate, bare = (statistics.median(found[side]) for side in ("enqueue", "insert"))
    what = f"enqueue --file, {scale.bulk:,} jobs"
    yield Figure("bulk", what, rate, "jobs/s", at_least(50_000), f"{seconds(scale.bulk / rate)} in all")
    rates = f"{rate:,.0f} : {bare:,.0f} a second"
    yield Figure("bulk_bare", f"{what} : bare executemany", ratio(found["enqueue"], found["insert"]), aside=rates)
