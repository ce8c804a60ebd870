"""Whether the queue is as it should be: the database's own files, and what we promise of what is in them."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from queuectl.job import State
from queuectl.storage import Storage

MOST_SHOWN = 100  # of a kind: what is wrong a million times is wrong once

# By query: what is said of each row that it finds.
CHECKS = {
    "check_waiting": "job {0} is {1}, and is not either in line, or waiting for its time or for others",
    "check_blocked": "job {0} waits for {1} jobs, and not for as many as are written down",
    "check_line": "job {0} is {1}, and stands in line without having begun to wait",
    "check_due": "job {0} is {1}, and waits for its time",
    "check_held": "job {0} is processing, and the queue does not know its worker {1}",
    "check_runs": "run {0} is of job number {1}, which is not there",
    "check_leases": "job {0} has a run with lease {1} twice, or one that was never given",
    "check_environments": "job {0} is to run in an environment that is not there, {1}",
    "check_queues": "job {0} waits in queue {1}, which is not there",
    "check_numbers": "job {0} has number {1}, which is still to be given",
}


class Checked(NamedTuple):
    jobs: int
    runs: int
    problems: list[str]


def check(storage: Storage) -> Checked:
    """Read everything, as it is at one moment, and change nothing."""
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
