"""Whether everything adds up in the end: what was accepted, what the queue says of it, what the jobs themselves did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from queuectl.job import State

from .load import Account


class Record(NamedTuple):
    """A line that a job wrote: that it began, that it ended with a code, or that another run of it was still there."""

    what: str
    seq: int
    lease: int
    batch: int
    job_id: str
    code: int | None

    @property
    def run(self) -> tuple[int, int]:
        return self.seq, self.lease


class Row(NamedTuple):
    seq: int
    id: str
    state: State
    lease: int
    label: str | None

    @property
    def batch(self) -> int:
        return int((self.label or "b0")[1:])


class Run(NamedTuple):
    seq: int
    lease: int
    outcome: str
    exit_code: int | None


class Books(NamedTuple):
    account: Account
    records: list[Record]
    rows: list[Row]
    runs: list[Run]
    enqueued: int  # what the counter of events says


def record(line: str) -> Record:
    what, key, batch, job_id, *code = line.split()
    seq, lease = key.split(".")
    return Record(what, int(seq), int(lease), int(batch), job_id, int(code[0]) if code else None)


def discrepancies(books: Books) -> list[str]:
    return [*twice(books), *lost(books), *unasked(books), *finishes(books)]


def twice(books: Books) -> Iterable[str]:
    """A job ran twice at the same time, or under the same lease, or under an older one after a newer."""
    begun: dict[int, int] = {}
    for one in books.records:
        if one.what == "twice":
            yield f"job {one.job_id} ran twice at once: lease {one.lease} began beside another"
        elif one.what == "begin":
            if one.lease <= begun.get(one.seq, 0):
                yield f"job {one.job_id} began under lease {one.lease} after it had under lease {begun[one.seq]}"
            begun[one.seq] = one.lease


def lost(books: Books) -> Iterable[str]:
    """An accepted job is not there, and nobody deleted it; or it has not come to an end."""
    rows = {row.id: row for row in books.rows}
    done = {one.job_id for one in books.records if one.what == "end" and one.code == 0}
    for job_id, batch in books.account.accepted.items():
        row = rows.get(job_id)
        if row is None:
            if job_id not in books.account.deleted and job_id not in done:
                yield f"job {job_id} of batch {batch} was accepted, and is lost"
        elif not row.state.has_ended:
            yield f"job {job_id} of batch {batch} is still {row.state}"
    gone = {*books.account.accepted, *(one.job_id for one in books.records)} - rows.keys()
    if books.enqueued != len(rows) + len(gone):
        yield f"{books.enqueued} jobs were counted, {len(rows)} are there and {len(gone)} were deleted"


def unasked(books: Books) -> Iterable[str]:
    """A job is there that was refused, or a half of those that came together."""
    stored: dict[int, set[str]] = defaultdict(set)
    for row in books.rows:
        stored[row.batch].add(row.id)
    for one in books.records:
        stored[one.batch].add(one.job_id)
    for batch in books.account.refused.keys() & stored.keys():
        yield f"batch {batch} was refused, and {len(stored[batch])} jobs of it are there"
    for batch, size in books.account.doubtful.items():
        if batch in stored and len(stored[batch]) != size:
            yield f"of batch {batch} only {len(stored[batch])} of {size} jobs are there"
    known = {*books.account.accepted.values(), *books.account.doubtful, *books.account.refused}
    for batch in stored.keys() - known:
        yield f"nobody has handed in batch {batch}"


def finishes(books: Books) -> Iterable[str]:
    """A run has a result that is not its own, or more than one, or none."""
    ended = {one.run: one.code for one in books.records if one.what == "end"}
    leases: dict[int, list[int]] = defaultdict(list)
    for found in books.runs:
        leases[found.seq].append(found.lease)
    for row in books.rows:
        if sorted(leases[row.seq]) != list(range(1, row.lease + 1)):
            yield f"job {row.id} was given {row.lease} leases, and has runs of {sorted(leases[row.seq])}"
    for found in books.runs:
        run = found.seq, found.lease
        if found.exit_code is not None and found.exit_code < 128 and ended.get(run) != found.exit_code:
            yield f"run {run} is {found.outcome} with code {found.exit_code}, and itself says {ended.get(run)}"
