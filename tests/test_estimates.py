"""Estimates: from how long runs took lately, the same command's first; and none where there is no history."""

from __future__ import annotations

import json
import os
import re

import pytest

from queuectl import platforms
from queuectl.estimates import Expected, Lane, Typical, forecast, foresee
from queuectl.job import Job, NewJob, Outcome, State
from queuectl.storage import EndedRun, QueueRow, Storage, Turn, Worker

from .act import act
from .conftest import Cli, SetClock, eventually
from .processes import open_queue, state

NOW = 1_000_000
ROW = dict.fromkeys(Job._fields)


def a_job(seq: int, command: str = "make", started_at: int | None = None, worker: str | None = None) -> Job:
    state = State.PENDING if started_at is None else State.PROCESSING
    return Job(**{**ROW, "seq": seq, "command": command, "state": state, "started_at": started_at, "worker": worker})


def a_run(command: str, seconds: float, outcome: str = "completed") -> EndedRun:
    return EndedRun("x", "w", 0, 0, seconds, 0, outcome, command)


HISTORY = Typical([a_run("make", 10), a_run("make", 20), a_run("make", 90), a_run("ls", 1), a_run("ls", 1)])


def test_the_same_command_counts_first_and_then_all_of_the_queue_by_their_median() -> None:
    assert HISTORY.seconds(a_job(1, "make")) == 20
    assert HISTORY.seconds(a_job(1, "ls")) == 1
    assert HISTORY.seconds(a_job(1, "never seen")._replace(queue="default")) == 10


def test_runs_that_were_stopped_lost_or_cancelled_do_not_count() -> None:
    runs = [a_run("make", 500, outcome) for outcome in ("released", "lost", "cancelled")]
    assert Typical(runs).seconds(a_job(1)) is None
    assert Typical([*runs, a_run("make", 3, "failed"), a_run("make", 5, "dead")]).seconds(a_job(1)) == 3


def test_of_a_long_command_the_beginning_is_enough_to_know_it_again() -> None:
    long = "x" * 5_000
    assert Typical([a_run(long[:1_000], 7), a_run("ls", 1)]).seconds(a_job(1, long)) == 7


def test_each_worker_takes_the_next_when_it_is_free() -> None:
    running = [a_job(1, "make", NOW - 15_000, "w1"), a_job(2, "make", NOW - 2_000, "w2")]
    line = [Turn(3, "ls"), Turn(4, "make"), Turn(5, "ls")]
    found = foresee(HISTORY, running, line, {"w1": None, "w2": None}, NOW).expected
    assert found[1] == Expected(end_at=NOW + 5_000)
    assert found[2] == Expected(end_at=NOW + 18_000)
    assert found[3] == Expected(NOW + 5_000, NOW + 6_000)
    assert found[4] == Expected(NOW + 6_000, NOW + 26_000)
    assert found[5] == Expected(NOW + 18_000, NOW + 19_000)


def test_behind_a_run_that_takes_longer_than_usual_nothing_is_expected() -> None:
    late, line = a_job(1, "make", NOW - 60_000, "w"), [Turn(2, "make"), Turn(3, "make")]
    assert foresee(HISTORY, [late], line, {"w": None}, NOW).expected == {}
    beside = foresee(HISTORY, [late], line, {"w": None, "v": None}, NOW).expected
    assert beside == {2: Expected(NOW, NOW + 20_000), 3: Expected(NOW + 20_000, NOW + 40_000)}


def test_without_a_worker_nothing_is_expected_of_the_line() -> None:
    assert foresee(HISTORY, [], [Turn(1, "make")], {}, NOW).expected == {}


def test_without_history_nothing_is_expected_after_a_run_that_nobody_knows() -> None:
    nothing = Typical([])
    assert foresee(nothing, [a_job(1, "make", NOW, "w")], [Turn(2, "make")], {"w": None}, NOW).expected == {}
    assert foresee(nothing, [], [Turn(1, "make"), Turn(2, "make")], {"w": None}, NOW).expected == {1: Expected(NOW)}


def test_a_run_of_the_same_queue_tells_more_than_one_of_another() -> None:
    runs = [a_run("make", 10), a_run("render", 100)._replace(queue="gpu"), a_run("train", 300)._replace(queue="gpu")]
    assert Typical(runs).seconds(Turn(1, "make", "gpu")) == 10
    assert Typical(runs).seconds(Turn(1, "never seen", "gpu")) == 100
    assert Typical(runs).seconds(Turn(1, "never seen", "mail")) is None, "other queues say nothing of it"
    assert Typical(runs).seconds(Turn(1, "never seen", "default")) == 10


TWO = {"w": None, "v": None}


def test_a_full_queue_lets_nobody_start_before_a_place_is_free_and_others_go_before() -> None:
    line = [Turn(1, "ls", "gpu", 1), Turn(2, "ls", "gpu", 2), Turn(3, "make", "default", 3), Turn(4, "ls", "gpu", 4)]
    found = foresee(HISTORY, [], line, TWO, NOW, {"gpu": Lane(1), "default": Lane()}).expected
    assert found == {
        1: Expected(NOW, NOW + 1_000),
        2: Expected(NOW + 1_000, NOW + 2_000),
        3: Expected(NOW, NOW + 20_000),
        4: Expected(NOW + 2_000, NOW + 3_000),
    }


def test_a_place_that_nobody_knows_the_end_of_is_never_expected_to_be_free() -> None:
    running = [a_job(1, "make", NOW, "elsewhere")._replace(queue="gpu")]
    line = [Turn(2, "ls", "gpu", 1), Turn(3, "ls", "default", 2)]
    lanes = {"gpu": Lane(1), "default": Lane()}
    known = foresee(HISTORY, running, line, TWO, NOW, lanes).expected
    assert (known[2].start_at, known[3].start_at) == (NOW + 20_000, NOW)
    unknown = foresee(Typical([a_run("ls", 1)._replace(queue="mail")]), [], line, {}, NOW, lanes).expected
    assert unknown == {}
    assert foresee(Typical([]), running, line, TWO, NOW, lanes).expected == {3: Expected(NOW)}


def test_a_rate_keeps_starts_apart_its_queues_own_or_that_of_all() -> None:
    line = [Turn(1, "ls", "mail", 1), Turn(2, "ls", "mail", 2), Turn(3, "ls", "default", 3)]
    lanes = {"mail": Lane(None, 6_000, NOW + 500), "default": Lane()}
    found = foresee(HISTORY, [], line, TWO, NOW, lanes).expected
    assert [found[seq].start_at for seq in (1, 2, 3)] == [NOW + 500, NOW + 6_500, NOW]
    found = foresee(HISTORY, [], line, TWO, NOW, {"mail": Lane(), "default": Lane(), "*": Lane(None, 60_000)}).expected
    assert [found[seq].start_at for seq in (1, 2, 3)] == [NOW, NOW + 60_000, NOW + 120_000]


def test_a_worker_takes_only_from_the_queues_that_it_serves() -> None:
    line = [Turn(1, "ls", "gpu", 1), Turn(2, "ls", "mail", 2), Turn(3, "ls", "default", 3)]
    found = foresee(HISTORY, [], line, {"w": ["mail", "default"]}, NOW).expected
    assert found == {2: Expected(NOW, NOW + 1_000), 3: Expected(NOW + 1_000, NOW + 2_000)}


def test_nothing_is_said_of_what_comes_after_the_last_that_was_looked_at() -> None:
    line = [Turn(1, "ls", "gpu", 1), Turn(2, "ls", "default", 3), Turn(3, "ls", "default", 4)]
    found = foresee(HISTORY, [], line, {"w": None}, NOW, {"gpu": Lane(goes_on=True), "default": Lane()}).expected
    assert list(found) == [1], "more of gpu may be before them"


def test_paused_queues_and_limits_leave_the_end_of_all_unknown(storage: Storage, clock: SetClock) -> None:
    storage.add_worker(a_worker(storage))
    for command in ("ls", "ls"):
        storage.add([NewJob(None, command, None, 5, 0, 0, 2, None, "/", None)])
    job = storage.claim("w")
    assert job
    clock.pass_seconds(2)
    storage.finish(job, Outcome(0, 2.0))
    storage.add_queue(QueueRow("gpu"))
    assert forecast(storage).end_of_all(1) == clock.now() + 2_000
    storage.add([NewJob(None, "ls", None, 9, 0, 0, 2, None, "/", None, queue="gpu")])
    assert forecast(storage).end_of_all(2) == clock.now() + 4_000
    assert forecast(storage).end_of_all(1, "gpu") == clock.now() + 2_000
    storage.set_queue("gpu", run_limit=1)
    assert forecast(storage).end_of_all(2) == clock.now() + 4_000, "all of them are foreseen"
    assert forecast(storage).end_of_all(9) is None
    storage.set_queue("gpu", is_paused=1)
    found = forecast(storage)
    assert list(found.expected) == [2] and found.end_of_all(2) is None
    assert found.end_of_all(1, "gpu") is None


def a_worker(storage: Storage) -> Worker:
    """This process, which lives."""
    pid = os.getpid()
    start_time = platforms.start_time(pid) or ""
    return Worker(
        "w", pid, start_time, platforms.boot_id(), platforms.pid_space(), "here", 0, storage.clock.now(), 0, None
    )


def test_the_end_of_some_is_the_last_of_theirs_and_unknown_if_one_is() -> None:
    jobs = [a_job(1, "ls"), a_job(2, "make")]
    found = foresee(HISTORY, [], [Turn(job.seq, job.command) for job in jobs], {"w": None}, NOW)
    assert found.end_of(jobs) == NOW + 21_000
    assert found.end_of([*jobs, a_job(3)]) is None and found.end_of([]) is None


def test_the_end_of_all_counts_those_beyond_the_first_in_line_as_typical() -> None:
    found = foresee(HISTORY, [], [Turn(1, "ls"), Turn(2, "ls")], {"w": None, "v": None}, NOW)
    assert found.end_of_all(2) == NOW + 1_000
    assert found.end_of_all(5) == NOW + 1_000 + 2 * 1_000
    assert foresee(HISTORY, [], [], {}, NOW).end_of_all(5) is None
    strange = Turn(3, "never seen", "mail")
    assert foresee(HISTORY, [], [Turn(1, "ls"), strange], {"w": None}, NOW).end_of_all(2) is None


def test_not_all_have_ended_before_the_last_that_is_scheduled(storage: Storage, clock: SetClock) -> None:
    found = foresee(HISTORY, [], [Turn(1, "ls")], {"w": None}, NOW)
    assert found._replace(last_due=NOW + 3_600_000).end_of_all(2) == NOW + 3_601_000
    assert found._replace(last_due=NOW - 60_000).end_of_all(1) == NOW + 1_000
    times = [clock.now() + 1_000 * seconds for seconds in (10, 99, 50)]
    storage.add([NewJob(None, "true", None, 5, 0, 0, 2, run_at, "/", None) for run_at in times])
    assert forecast(storage).last_due == times[1]


def test_a_forecast_asks_the_same_few_questions_of_a_short_and_of_a_long_queue(
    storage: Storage, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> list[str]:
        found: list[str] = []
        run = storage.run
        with monkeypatch.context() as patch:
            patch.setattr(storage, "run", lambda query, **values: found.append(query) or run(query, **values))
            forecast(storage)
        return found

    before = asked()
    storage.add([NewJob(None, f"echo {n}", None, 5, 0, 0, 2, None, "/", None) for n in range(1_200)])
    for _ in range(3):
        job = storage.claim("w")
        assert job
        clock.pass_seconds(4)
        storage.finish(job, Outcome(0, 4.0))
    assert len(asked()) <= len(before) < 12
    assert forecast(storage).usual == 4.0


# --- where they are shown ---


def test_list_status_and_why_show_what_is_expected_and_nothing_without_history(cli: Cli) -> None:
    held = act("wait go")
    cli.ok("worker", "start")
    for job_id in ("first", "second"):
        cli.ok("enqueue", "--id", job_id, held)
    eventually(lambda: state(cli, "first") == "processing")
    shown = json.loads(cli.ok("list", "--json"))
    assert [(job["expected_start_at"], job["expected_end_at"]) for job in shown] == [(None, None)] * 2
    assert json.loads(cli.ok("status", "--json"))["expected_end_at"] is None
    assert "~" not in cli.ok("list") + cli.ok("status") + cli.ok("why", "second")

    storage = open_queue(cli)  # a history: it has always taken an hour
    storage.add([NewJob("old", held, None, 10, 0, 0, 2, None, "/", None)])
    job = storage.claim("w")
    assert job and job.id == "old"
    storage.finish(job, Outcome(0, 3600.0))
    storage.close()
    by_id = {job["id"]: job for job in json.loads(cli.ok("list", "--json"))}
    assert by_id["first"]["expected_start_at"] is None and by_id["first"]["expected_end_at"]
    assert by_id["second"]["expected_start_at"] == by_id["first"]["expected_end_at"]
    status = json.loads(cli.ok("status", "--json"))
    assert status["workers"][0]["expected_end_at"] == by_id["first"]["expected_end_at"]
    assert status["expected_end_at"] == by_id["second"]["expected_end_at"]
    assert re.search(r"^first .*since .*, ends ~\d", cli.ok("list"), re.MULTILINE)
    assert re.search(r"^second .*, starts ~\d", cli.ok("list"), re.MULTILINE)
    assert re.search(r"first, ends ~\d", cli.ok("status")) and "All will have ended ~" in cli.ok("status")
    assert "it starts in ~" in cli.ok("why", "second") and "it ends in ~" in cli.ok("why", "first")
