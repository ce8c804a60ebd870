"""Whether the queue is as it should be: the database's own files, and what we promise of what is in them."""

from __future__ import annotations

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
        counted = dict(storage.run("count_jobs").fetchall())
        totals = storage.totals()
        _, seq = storage.counters()
        for state in State:
            if totals[state.value] != counted.get(state.value, 0):
                problems.append(
                    f"{counted.get(state.value, 0):,} jobs are {state}, and the counter says {totals[state.value]:,}"
                )
        problems += [f"{counted[name]:,} jobs are {name}, which is no state" for name in counted.keys() - set(State)]
        for query, line in CHECKS.items():
            seq_if_asked = {"seq": seq} if query == "check_numbers" else {}
            problems += [line.format(*row) for row in storage.run(query, most=MOST_SHOWN, **seq_if_asked).fetchall()]
        return Checked(sum(counted.values()), storage.one("count_runs"), problems)
