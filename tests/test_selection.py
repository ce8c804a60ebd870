"""Which jobs are meant: by state, label, text and age; a page at a time, while the queue changes."""

from __future__ import annotations

import pytest
from conftest import SetClock
from test_acts import DONE, FAILED, ran
from test_chains import after
from test_order import new_job

from queuectl import selection
from queuectl.errors import InvalidInput
from queuectl.job import DEFAULT_QUEUE, Job, State
from queuectl.selection import Selection, find, find_all
from queuectl.storage.base import Storage
from queuectl.storage.rows import QueueRow


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


def everything(storage: Storage, wanted: Selection, limit: int) -> list[str]:
    """All that is found a page of so many at a time."""
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        jobs, cursor = find(storage, wanted, limit, cursor)
        assert len(jobs) <= limit
        found += ids(jobs)
    return found


@pytest.fixture
def filled(storage: Storage, clock: SetClock) -> Storage:
    """A job of every kind, each a minute after the one before."""
    storage.add([new_job(id="done", label="web", command="make Web")])
    ran(storage, DONE)
    clock.pass_seconds(60)
    storage.add([new_job(id="dead", max_retries=0, command="make db")])
    ran(storage, FAILED)
    clock.pass_seconds(60)
    storage.add([new_job(id="backs-off", max_retries=5, label="web")])
    ran(storage, FAILED)
    storage.add([new_job(10, id="runs")])
    storage.claim("w")
    clock.pass_seconds(60)
    storage.add([new_job(5, id="second"), new_job(9, id="first", label="web")])
    storage.add([new_job(id="later", run_at=clock.now() + 1000), new_job(id="latest", run_at=clock.now() + 2000)])
    storage.add([after("runs", id="blocked")])
    return storage


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Selection(), "blocked latest later first second runs backs-off dead done"),
        (Selection(State.PENDING), "first second later latest blocked"),
        (Selection(State.PROCESSING), "runs"),
        (Selection(State.FAILED), "backs-off"),
        (Selection(State.DEAD), "dead"),
        (Selection(label="web"), "first backs-off done"),
        (Selection(State.FAILED, "web"), "backs-off"),
        (Selection(State.PENDING, "web"), "first"),
        (Selection(label="nothing"), ""),
        (Selection(match="MAKE"), "dead done"),
        (Selection(match="web"), "done"),
        (Selection(match="%"), ""),
        (Selection(older_than_seconds=60), "runs backs-off dead done"),
        (Selection(older_than_seconds=120), "dead done"),
        (Selection(State.COMPLETED, "web", "make", 180), "done"),
        (Selection(State.COMPLETED, "web", "make", 181), ""),
    ],
    ids=str,
)
def test_what_is_wanted_is_found_once_and_in_order_whatever_the_page(
    filled: Storage, clock: SetClock, wanted: Selection, expected: str, limit: int
) -> None:
    assert everything(filled, wanted, limit) == expected.split()
    assert [job.id for page in find_all(filled, wanted) for job in page] == expected.split()
    assert [job.id for page in find_all(filled, wanted, limit) for job in page] == expected.split()[:limit]


@pytest.fixture
def two_queues(storage: Storage, clock: SetClock) -> Storage:
    """In each of two queues a job in every state, one by turns in this and that, the named one's with a g."""
    storage.add_queue(QueueRow("gpu"))
    for queue, prefix in ((DEFAULT_QUEUE, ""), ("gpu", "g-")):
        storage.add([new_job(id=f"{prefix}done", queue=queue, label="web")])
        ran(storage, DONE)
        storage.add([new_job(id=f"{prefix}dead", queue=queue, max_retries=0)])
        ran(storage, FAILED)
        storage.add([new_job(id=f"{prefix}backs-off", queue=queue, max_retries=5)])
        ran(storage, FAILED)
        storage.add([new_job(id=f"{prefix}runs", queue=queue)])
        storage.claim("w")
        storage.add([new_job(id=f"{prefix}called-off", queue=queue)])
        storage.cancel(storage.glance(f"{prefix}called-off"), "x")
    for queue, prefix in ((DEFAULT_QUEUE, ""), ("gpu", "g-")):
        storage.add([new_job(5, id=f"{prefix}second", queue=queue), new_job(9, id=f"{prefix}first", queue=queue)])
        storage.add([new_job(id=f"{prefix}later", queue=queue, run_at=clock.now() + 1000)])
        storage.add([after("runs", id=f"{prefix}blocked", queue=queue)])
    return storage


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("queue", [DEFAULT_QUEUE, "gpu"])
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Selection(), "blocked later first second called-off runs backs-off dead done"),
        (Selection(State.PENDING), "first second later blocked"),
        (Selection(State.PROCESSING), "runs"),
        (Selection(State.FAILED), "backs-off"),
        (Selection(State.DEAD), "dead"),
        (Selection(State.CANCELLED), "called-off"),
        (Selection(label="web"), "done"),
        (Selection(State.COMPLETED, match="true"), "done"),
    ],
    ids=str,
)
def test_what_is_wanted_of_a_queue_is_found_and_nothing_of_another(
    two_queues: Storage, wanted: Selection, expected: str, queue: str, limit: int
) -> None:
    prefix = "" if queue == DEFAULT_QUEUE else "g-"
    names = [prefix + name for name in expected.split()]
    assert sorted(everything(two_queues, wanted._replace(queue=queue), limit)) == sorted(names)
    if wanted.state is not State.PENDING or limit == 100:
        assert everything(two_queues, wanted._replace(queue=queue), limit) == names


@pytest.mark.parametrize("state", [None, *State])
def test_the_jobs_of_a_named_queue_are_found_without_looking_at_others(
    two_queues: Storage, monkeypatch: pytest.MonkeyPatch, state: State | None
) -> None:
    two_queues.add([new_job(5) for _ in range(300)])
    looked_at: list[str] = []
    page = two_queues.page
    monkeypatch.setattr(two_queues, "page", lambda *args: (found := page(*args), looked_at.extend(ids(found[0])))[0])
    assert everything(two_queues, Selection(state, queue="gpu"), 5)
    assert {job_id for job_id in looked_at if not job_id.startswith("g-")} <= {"later", "blocked", "backs-off"}


def test_the_ways_to_a_queues_jobs_go_by_an_index(two_queues: Storage) -> None:
    values = {"queue": "gpu", "state": "dead", "before": 99, "limit": 5, "key": 0, "seq": 0}
    for query, index in {"jobs_of_queue": "jobs_of_queue", "in_line": "jobs_ready"}.items():
        if two_queues.url.startswith("sqlite"):
            sql = f"EXPLAIN QUERY PLAN {two_queues.sql[query]}"
        else:
            sql = f"EXPLAIN {two_queues.sql[query]}"
            two_queues.begin(durable=False)
            two_queues.statement("SET LOCAL enable_seqscan = off", {})  # which a short table would be read by
        plan = str(two_queues.statement(sql, values).fetchall())
        two_queues.rollback()
        assert f" {index} " in plan and "TEMP B-TREE" not in plan and "Sort" not in plan, plan


def test_age_counts_from_the_end_or_from_the_beginning_of_what_has_not_ended(storage: Storage, clock: SetClock) -> None:
    storage.add([new_job(id="ended"), new_job(1, id="waits")])
    clock.pass_seconds(100)
    ran(storage, DONE)
    clock.pass_seconds(10)
    assert everything(storage, Selection(older_than_seconds=11), 10) == ["waits"]
    assert everything(storage, Selection(older_than_seconds=10), 10) == ["waits", "ended"]


def test_a_search_looks_at_so_many_jobs_and_then_says_where_to_go_on(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "MOST_LOOKED_AT", 20)
    monkeypatch.setattr(selection, "CHUNK", 10)
    storage.add([new_job(id="needle", command="a needle"), *(new_job() for _ in range(50))])
    looks, cursor, found = 0, "", []
    while cursor is not None:
        page = find(storage, Selection(match="needle"), 5, cursor)
        looks, cursor, found = looks + 1, page.cursor, found + ids(page.jobs)
    assert (looks, found) == (3, ["needle"])


def test_jobs_that_come_go_and_move_while_pages_are_turned_do_no_harm(storage: Storage) -> None:
    storage.add([new_job(5, id=f"job{number}") for number in range(6)])
    first = find(storage, Selection(State.PENDING), 2)
    assert ids(first.jobs) == ["job0", "job1"]
    storage.claim("w"), storage.claim("w")
    storage.delete([storage.glance("job3")])
    storage.add([new_job(1, id="new")])
    storage.promote(storage.glance("job5"))  # to before where the cursor stands
    rest = find(storage, Selection(State.PENDING), 10, first.cursor or "")
    assert ids(rest.jobs) == ["job2", "job4", "new"]
    newest = find(storage, Selection(), 2)
    storage.add([new_job(id="newer")])
    storage.delete([storage.glance(newest.jobs[-1].id)])
    assert "newer" not in everything(storage, Selection(), 3)[1:]
    assert ids(find(storage, Selection(), 10, newest.cursor or "").jobs) == ["job4", "job2", "job1", "job0"]


def test_bulk_changes_while_pages_are_turned_reach_every_job(storage: Storage) -> None:
    storage.add([new_job(max_retries=0) for _ in range(25)])
    for _ in range(25):
        ran(storage, FAILED)
    retried = sum(storage.retry(jobs) for jobs in find_all(storage, Selection(State.DEAD)))
    assert retried == 25
    cancelled = sum(storage.cancel(job, "x") for jobs in find_all(storage, Selection(State.PENDING)) for job in jobs)
    assert cancelled == 25


@pytest.mark.parametrize("cursor", ["x", "1", "1:2", "1:2:3:4", "9:0:0", "-1:0:0", "0:0:x", "0:0:" + "9" * 30])
def test_what_is_no_cursor_is_refused(storage: Storage, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="is not a cursor"):
        find(storage, Selection(), 10, cursor)
