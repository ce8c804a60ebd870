"""Retrying many jobs: who waited for others of them does so again, however many there are and in whatever state."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from test_acts import DONE, FAILED, order, ran
from test_chains import after, chain
from test_order import new_job
from test_storage import counted, totals

from queuectl.job import Job, Outcome
from queuectl.retrying import BATCH, retry_all
from queuectl.selection import Selection, find_all
from queuectl.storage import Storage


def wanted(storage: Storage) -> Iterable[Job]:
    return (job for jobs in find_all(storage, Selection(label="s")) for job in jobs)


def test_a_chain_of_more_than_a_batch_is_begun_anew_from_its_first_job(storage: Storage) -> None:
    links = [job._replace(label="s") for job in chain("c", BATCH + 200)]
    storage.add(links)
    storage.cancel(storage.glance("c0"), "not now")
    assert sum(retry_all(storage, wanted(storage))) == len(links)
    assert order(storage) == ["c0"]
    assert totals(storage) == counted(storage)


def test_who_waits_for_a_job_in_another_state_waits_for_it_again(storage: Storage) -> None:
    storage.add([new_job(id="a", label="s", max_retries=0), after("a", id="b", wanted="any", label="s")])
    ran(storage, FAILED)
    ran(storage, DONE)
    assert sum(retry_all(storage, wanted(storage))) == 2
    assert order(storage) == ["a"]


@pytest.mark.parametrize(("outcome", "becomes"), [(DONE, "pending"), (FAILED, "cancelled")], ids=["well", "badly"])
def test_a_need_that_ends_again_before_its_dependents_batch_counts_as_it_ended_this_time(
    storage: Storage, outcome: Outcome, becomes: str
) -> None:
    many = [after("need", label="s") for _ in range(BATCH + 1)]
    storage.add([new_job(id="need", label="s", max_retries=0), *many, after("need", id="leaf", label="s")])
    storage.cancel(storage.glance("need"), "not now")
    batches = retry_all(storage, wanted(storage))
    assert next(batches) == BATCH
    assert ran(storage, outcome).id == "need"
    assert sum(batches) == len(many) + 2 - BATCH
    found = totals(storage)
    assert found[becomes] == len(many) + 1 and found == counted(storage)


def test_a_job_that_has_changed_since_it_was_chosen_is_left_alone(storage: Storage) -> None:
    storage.add([new_job(id="a", label="s"), new_job(id="b", label="s"), new_job(id="c", label="s")])
    for job_id in "abc":
        storage.cancel(storage.glance(job_id), "not now")
    chosen = list(wanted(storage))
    storage.delete([storage.glance("a")])
    storage.retry([storage.glance("b")])
    ran(storage, DONE)
    assert sum(retry_all(storage, chosen)) == 1
    assert order(storage) == ["c"]
