"""`db check`: what is not as it should be is said."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

import pytest
from conftest import Cli
from test_order import new_job
from whole_queue import DONE, HERE

from queuectl import checking
from queuectl.home import Home
from queuectl.storage import Storage
from queuectl.storage.transactions import NOTHING

BROKEN = {
    "check_waiting": "UPDATE jobs SET rank = NULL WHERE id = 'ok'",
    "check_blocked": "UPDATE jobs SET waits_for = 2, rank = NULL WHERE id = 'ok'",
    "check_line": "UPDATE jobs SET since_at = NULL WHERE id = 'ok'",
    "check_due": "UPDATE jobs SET due_at = 1 WHERE id = 'done'",
    "check_held": "UPDATE jobs SET state = 'processing', worker = 'nobody' WHERE id = 'done'",
    "check_runs": "UPDATE runs SET seq = 99",
    "check_leases": "UPDATE runs SET lease = 9",
    "check_environments": "DELETE FROM environments",
    "check_queues": "UPDATE jobs SET queue = 'nowhere' WHERE id = 'ok'",
    "check_numbers": "UPDATE jobs SET seq = 1000 WHERE id = 'ok'",
}


@pytest.mark.parametrize("query", BROKEN)
def test_what_is_wrong_is_said(storage: Storage, query: str) -> None:
    storage.add([new_job(id="done")])
    job = storage.claim("w")
    assert job
    storage.finish(job, DONE)
    storage.add([new_job(id="ok")], HERE)
    assert checking.check(storage) == (2, 1, [])
    storage.statement(BROKEN[query], {})
    beginning = checking.CHECKS[query].split("{1}")[0].split(",")[0].split("{0}")[0]
    found = checking.check(storage).problems
    assert any(line.startswith(beginning) for line in found), found
    known = [line for line in found if line.startswith(beginning) or "the counter says" in line]
    assert len(known) == len(found) or query in ("check_held", "check_numbers"), found


def test_every_check_is_tried() -> None:
    assert BROKEN.keys() == checking.CHECKS.keys()


def test_totals_that_are_not_what_counting_gives_are_said(storage: Storage) -> None:
    storage.add([new_job(), new_job()])
    with storage.transaction():
        storage._count({"default": {**NOTHING, "pending": 3, "dead": 1}})
    assert checking.check(storage).problems == [
        "2 jobs are pending in queue default, and the counter says 5",
        "0 jobs are dead in queue default, and the counter says 1",
    ]
    storage.statement("UPDATE jobs SET state = 'asleep' WHERE seq = 1", {})
    assert "1 jobs are asleep, which is no state" in checking.check(storage).problems


def test_check_prints_a_line_a_problem_and_exits_with_1(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    assert cli.ok("db", "check") == "All is well: 1 jobs and 0 runs.\n"
    with sqlite3.connect(cli.home / "queuectl.db") as raw:
        raw.execute("UPDATE jobs SET rank = NULL")
    raw.close()
    found = cli("db", "check")
    assert (found.returncode, found.stdout.count("\n")) == (1, 1) and found.stdout.startswith("job 1 is pending, but")
    as_json = cli("db", "check", "--json")
    assert as_json.returncode == 1 and len(json.loads(as_json.stdout)["problems"]) == 1


def test_an_index_that_has_lost_a_row_is_noticed(home: Home, opened: Callable[[str], Storage]) -> None:
    storage = opened(f"sqlite:///{home.database}")
    storage.add([new_job(id="hidden"), new_job(id="seen")])
    assert storage.damage() == []
    storage.statement("PRAGMA writable_schema = ON", {})
    storage.statement("DELETE FROM sqlite_master WHERE name = 'jobs_ready'", {})
    storage.close()
    with sqlite3.connect(home.database) as raw:
        raw.execute("CREATE INDEX jobs_ready ON jobs (rank, seq) WHERE rank IS NOT NULL AND id <> 'hidden'")
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute(
            "UPDATE sqlite_master SET sql = REPLACE(sql, ' AND id <> ''hidden''', '') WHERE name = 'jobs_ready'"
        )
    raw.close()
    damage = opened(f"sqlite:///{home.database}").damage()
    assert any("jobs_ready" in line for line in damage), damage
