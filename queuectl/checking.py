"""Check the queue: the integrity of the database file, and the invariants of its rows."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from queuectl.job import State
from queuectl.storage import Storage

MOST_SHOWN = 100  # problems of one kind; the same fault may be in a million rows

# The name of each query, and the message for each row that the query returns.
CHECKS = {
    "check_waiting": "job {0} is {1}, but must either be in line, or wait for its time, or wait for other jobs",
    "check_blocked": "job {0} waits for {1} jobs by its own count, but for another number by its dependencies",
    "check_line": "job {0} is {1} and in line, but only a job that waits, and since a known time, may be in line",
    "check_due": "job {0} is {1}, but has a time at which it comes due",
    "check_held": "job {0} is processing, and the queue does not know its worker {1}",
    "check_runs": "run {0} belongs to job number {1}, which does not exist",
    "check_leases": "job {0} has two runs with lease {1}, or one run whose lease was never given",
    "check_environments": "job {0} needs the stored environment {1}, which does not exist",
    "check_queues": "job {0} waits in queue {1}, which does not exist",
    "check_numbers": "job {0} has number {1}, which the counter of numbers has not reached",
}


class Checked(NamedTuple):
    jobs: int
    runs: int
    problems: list[str]


def check(storage: Storage) -> Checked:
    """Read the whole queue in one snapshot; nothing is changed."""
    with storage.snapshot():
        problems = storage.damage()
        counted = {(queue, state): count for queue, state, count in storage.run("count_jobs").fetchall()}
        totals = storage.totals_by_queue()
        _, seq = storage.counters()
        for queue, state in product(sorted(totals.keys() | {queue for queue, _ in counted}), State):
            count, total = counted.get((queue, state.value), 0), totals.get(queue, {}).get(state.value, 0)
            if count != total:
                problems.append(f"{count:,} jobs are {state} in queue {queue}, and the counter says {total:,}")
        for (_, name), count in counted.items():
            if name not in set(State):
                problems.append(f"{count:,} jobs are {name}, which is no state")
        for query, line in CHECKS.items():
            seq_if_asked = {"seq": seq} if query == "check_numbers" else {}
            problems += [line.format(*row) for row in storage.run(query, most=MOST_SHOWN, **seq_if_asked).fetchall()]
        return Checked(sum(counted.values()), storage.one("count_runs"), problems)
