"""Rates: never more starts than they allow, hardly fewer; and when an idle worker looks for work again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import SetClock, eventually, open_database
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_order import new_job
from test_queues import DONE, add, claim, claimed, gpu, only_sqlite

from queuectl.config import Rate, parse_rate
from queuectl.errors import InvalidInput
from queuectl.job import Job, Outcome
from queuectl.storage import QueueRow, Storage, Worker

__all__ = ["gpu"]


# --- rates ---


def starts(storage: Storage, clock: SetClock, seconds: float, step: float = 0.01) -> list[tuple[float, str]]:
    """When a job of which queue was started, where somebody looks every so often and each run takes no time."""
    found, began = [], clock.now()
    while clock.now() - began < seconds * 1000:
        while (job := storage.claim("w")) is not None:
            found.append(((clock.now() - began) / 1000, job.queue))
            storage.finish(job, DONE)
        clock.pass_seconds(step)
    return found


def most_within(times: list[float], seconds: float) -> int:
    """How many at most come within any span of that length."""
    return max(sum(begin <= time < begin + seconds for time in times) for begin in times)


@only_sqlite
@pytest.mark.parametrize("step", [0.001, 0.03])
def test_ten_a_second_over_ten_seconds_are_a_hundred_give_or_take_a_burst(
    gpu: Storage, clock: SetClock, step: float
) -> None:
    gpu.set_queue("gpu", rate_text="10/s")
    gpu.add([new_job(10, queue="gpu") for _ in range(150)])
    gpu.add([new_job(1, queue="default") for _ in range(20)])
    found = starts(gpu, clock, 10, step)
    times = [time for time, queue in found if queue == "gpu"]
    assert 99 <= len(times) <= 101
    assert most_within(times, 1) <= 11
    assert [time for time, queue in found if queue == "default"] == [0.0] * 20, "nobody else waits for it"


@only_sqlite
@pytest.mark.parametrize(("rate", "seconds", "most"), [("7/s", 10, 71), ("600/s", 1, 661), ("1000/s", 1, 1101)])
def test_a_rate_that_does_not_go_into_a_second_is_not_rounded_up(
    gpu: Storage, clock: SetClock, rate: str, seconds: int, most: int
) -> None:
    gpu.set_queue("gpu", rate_text=rate)
    gpu.add([new_job(queue="gpu") for _ in range(most + 50)])
    found = starts(gpu, clock, seconds, 0.005)
    assert most - 10 * seconds - 60 <= len(found) <= most


@only_sqlite
def test_slow_rates_keep_their_distance_to_the_millisecond(gpu: Storage, clock: SetClock) -> None:
    gpu.set_queue("gpu", rate_text="3/m")
    add(gpu, *["gpu"] * 9)
    assert [time for time, _ in starts(gpu, clock, 60, 1)] == [0, 20, 40]


def test_a_rate_and_a_limit_hold_both(gpu: Storage, clock: SetClock) -> None:
    gpu.set_queue("gpu", run_limit=2, rate_text="1/s")
    add(gpu, *["gpu"] * 9)
    running = [claim(gpu)]
    assert gpu.claim("w") is None, "the rate"
    clock.pass_seconds(1)
    running += [claim(gpu)]
    clock.pass_seconds(60)
    assert gpu.claim("w") is None, "the limit"
    assert gpu.next_due() is None and not gpu.has_work(), "no time brings a place: nobody looks before one is free"
    gpu.finish(running[0], DONE)
    assert gpu.has_work()
    claim(gpu)
    gpu.finish(running[1], DONE)
    assert gpu.claim("w") is None, "the rate again, which a long wait has saved nothing up for"


def test_the_rate_over_all_queues_holds_for_all_and_takes_the_best_first(gpu: Storage, clock: SetClock) -> None:
    gpu.set_setting("rate", "2/m")
    gpu.set_queue("mail", rate_text="1/m")
    add(gpu, "default", "mail", "gpu")
    add(gpu, "mail", priority=9)
    assert starts(gpu, clock, 180, 1) == [(0, "mail"), (30, "default"), (60, "mail"), (90, "gpu")]


def test_a_paused_queue_uses_nothing_up_of_the_rate_over_all(gpu: Storage, clock: SetClock) -> None:
    gpu.set_setting("rate", "1/m")
    gpu.set_queue("gpu", is_paused=1)
    add(gpu, "gpu", "default")
    assert not gpu.known_queues["default"].is_bounded
    assert claimed(gpu) == ["default"]
    assert gpu.next_due() is None, "nobody that may start waits for a rate"


def test_another_rate_holds_at_once_and_owes_nothing_to_the_old_one(gpu: Storage, clock: SetClock) -> None:
    gpu.set_queue("gpu", rate_text="1/h")
    gpu.set_setting("rate", "1/h")
    add(gpu, *["gpu"] * 5)
    claim(gpu)
    assert gpu.claim("w") is None
    gpu.set_queue("gpu", rate_text="1/m")
    assert gpu.claim("w") is None, "the one over all still holds"
    gpu.set_setting("rate", "1/s")
    assert claimed(gpu) == ["gpu"]
    gpu.set_queue("gpu", run_limit=9)
    assert gpu.claim("w") is None, "another limit is no other rate"
    gpu.set_queue("gpu", rate_text=None)
    gpu.set_setting("rate", None)
    assert claimed(gpu) == ["gpu"] * 3


@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_a_clock_that_is_set_neither_stalls_a_rate_nor_opens_it(gpu: Storage, clock: SetClock, seconds: int) -> None:
    gpu.set_queue("gpu", rate_text="1/m")
    add(gpu, *["gpu"] * 3)
    claim(gpu)
    if gpu.url.startswith("sqlite"):
        clock.be_set(seconds)
        assert gpu.claim("w") is None
        clock.pass_seconds(60)
    else:  # a server's clock is kept right by whoever runs it; if not, nothing stalls for longer than it must
        clock.be_set(-7200)
    assert claimed(gpu) == ["gpu"]


@pytest.mark.parametrize("text", ["10/s", "100/m", "5/h", " 7 / min ", "1000/s", "3600000/h", "2/hour"])
def test_rates_that_are_understood(text: str) -> None:
    assert isinstance(parse_rate(text), Rate)


@pytest.mark.parametrize("text", ["10", "0/s", "-1/s", "1001/s", "10/d", "10/sausage", "1.5/s", "s", "10/s/s", "1_0/s"])
def test_rates_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="rate cannot be"):
        parse_rate(text)
    assert parse_rate("  ") is None


# --- when to look again ---


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_who_sleeps_until_the_next_time_misses_nothing_and_never_looks_in_vain(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    clock = SetClock()
    storage = open_database(f"sqlite:///{tmp_path_factory.mktemp('q')}/queuectl.db", clock)
    rates = st.sampled_from([None, "10/s", "3/s", "20/m"])
    storage.set_setting("rate", data.draw(rates))
    for name in ("a", "b"):
        limit = data.draw(st.sampled_from([None, 1, 3]))
        storage.add_queue(QueueRow(name, data.draw(st.sampled_from([0, 0, 1])), limit, data.draw(rates)))
    storage.add(
        [
            new_job(queue=queue, run_at=None if delay is None else clock.now() + delay)
            for queue, delay in data.draw(
                st.lists(
                    st.tuples(st.sampled_from(["a", "b", "default"]), st.none() | st.integers(1, 9_000)),
                    min_size=1,
                    max_size=12,
                )
            )
        ]
    )
    for _ in range(40):
        while storage.has_work():
            storage.claim("w")
        assert storage.claim("w") is None
        due = storage.next_due()
        if due is None:
            clock.pass_seconds(86_400)
            assert not storage.has_work()
            break
        left = due - clock.now()
        assert left > 0, "it would look without end"
        clock.pass_seconds((left - 1) / 1000)
        assert not storage.has_work(), "it would be late"
        clock.pass_seconds(0.001)
        assert storage.has_work(), "it would look in vain"
    storage.close()


@pytest.fixture
def sleepers(database: str, clock: SetClock) -> Iterator[Callable[[str | None], list[str]]]:
    """Three workers that sleep until there is something for them to do; and which of them have been woken by now."""
    threads: list[threading.Thread] = []
    awake: list[str] = []

    def start(queues: str | None) -> list[str]:
        for name in ("w1", "w2", "w3"):
            threads.append(threading.Thread(target=sleep, args=(name, queues)))
            threads[-1].start()
        together.wait(timeout=30)
        return awake

    def sleep(name: str, queues: str | None) -> None:
        storage = open_database(database, clock)
        storage.serves = frozenset(queues.split(",")) if queues else None
        storage.add_worker(Worker(name, 1, "1", "this boot", "", "here", 0, 0, 0, None, queues))
        storage.wait(0)  # from here on it hears of every change
        storage.changed()
        assert not storage.has_work()
        together.wait(timeout=30)
        while not (over or storage.has_work()):
            storage.wait(30 if storage.is_shared else 1)  # a file tells of a slow commit too early
            storage.changed()
        awake.append(name)
        storage.close()

    together = threading.Barrier(4)
    over: list[str] = []
    yield start
    over.append("yes")
    storage = open_database(database, clock)
    storage.set_queue("default", is_paused=0)  # which wakes everybody
    for thread in threads:
        thread.join(timeout=60)
    storage.close()


def finish_one(storage: Storage, job: Job) -> None:
    storage.finish(job, DONE)


CHANGES: dict[str, Callable[[Storage, Job], Any]] = {
    "a run ends": finish_one,
    "a run fails": lambda storage, job: storage.finish(job, Outcome(1, 0.1)),
    "its worker is lost": lambda storage, job: storage.lose(job, rebooted=False),
    "the limit is raised": lambda storage, job: storage.set_queue("gpu", run_limit=2),
    "the limit is taken away": lambda storage, job: storage.set_queue("gpu", run_limit=None),
    "a job moves to an open queue": lambda storage, job: storage.edit(storage.glance("2"), {"queue": "mail"}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("queues", [None, "gpu,mail"])
def test_an_idle_worker_wakes_up_when_a_full_queue_may_go_on(
    gpu: Storage, sleepers: Callable[[str | None], list[str]], queues: str | None, change: str
) -> None:
    gpu.set_queue("gpu", run_limit=1)
    add(gpu, *["gpu"] * 3, max_retries=9)
    running = claim(gpu)
    awake = sleepers(queues)
    CHANGES[change](gpu, running)
    eventually(lambda: awake)


@pytest.mark.parametrize("queues", [None, "gpu"])
def test_idle_workers_all_wake_up_when_a_queue_is_resumed(
    gpu: Storage, sleepers: Callable[[str | None], list[str]], queues: str | None
) -> None:
    gpu.set_queue("gpu", is_paused=1)
    add(gpu, *["gpu"] * 3)
    awake = sleepers(queues)
    gpu.set_queue("gpu", is_paused=0)
    eventually(lambda: len(awake) == 3)
