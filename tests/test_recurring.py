"""Recurring jobs: each occurrence comes once, whoever looks; what cannot come keeps nobody from anything."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from queuectl import recurring
from queuectl.errors import DuplicateSchedule, InvalidInput, QueueError, QueueNotFound, ScheduleNotFound, WrongState
from queuectl.fields import parse
from queuectl.job import Job, NewJob, Outcome, State
from queuectl.recurrence import parse_rule
from queuectl.storage import Occurrence, QueueRow, Schedule, Storage

from .conftest import SetClock, open_database

HERE = str(Path(__file__).parent)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
RACERS, ROUNDS = 4, 5


def add(
    storage: Storage,
    name: str = "tick",
    every: str | None = "15m",
    cron: str | None = None,
    missed: str = recurring.RUN_ONCE,
    overlap: bool = False,
    environment: dict[str, str] | None = None,
    **fields: Any,
) -> Schedule:
    now = storage.clock.now()
    rule = parse_rule(cron, None if cron else every, "UTC" if cron else None, now)
    given = {"command": f"echo {name}", **fields}
    job = parse(given, storage.settings(), HERE, now)
    return recurring.add(storage, name, rule, given, job, environment or {"A": "1"}, missed, overlap)


def names(occurred: list[Occurrence]) -> list[str]:
    return [one.schedule for one in occurred if one.job]


def jobs(storage: Storage) -> list[Job]:
    return storage.jobs(None, 1000)[::-1]


def end(storage: Storage, exit_code: int = 0) -> Job:
    job = storage.claim("w")
    assert job
    storage.finish(job, Outcome(exit_code, 1.0))
    return job


def wall(storage: Storage) -> datetime:
    return datetime.fromtimestamp(storage.clock.now() / 1000, ZoneInfo("UTC"))


def to(storage: Storage, clock: SetClock, hour: int) -> None:
    """Let time pass until the next full hour of this number, UTC."""
    now = wall(storage)
    clock.pass_seconds((hour * HOUR - (now.hour * HOUR + now.minute * 60 + now.second + now.microsecond / 1e6)) % DAY)


# --- each occurrence once ---


def test_nothing_comes_before_its_time_and_each_occurrence_once(storage: Storage, clock: SetClock) -> None:
    made = add(storage)
    assert made.next_at == clock.now() + 15 * 60_000 == storage.next_occurrence()
    assert recurring.enqueue_due(storage) == []
    clock.pass_seconds(15 * MINUTE)
    [occurred] = recurring.enqueue_due(storage)
    assert occurred.job and occurred.note is None
    assert recurring.enqueue_due(storage) == []
    [job] = jobs(storage)
    assert (job.command, job.cwd, job.state) == ("echo tick", HERE, State.PENDING)
    after = storage.schedule("tick")
    assert (after.next_at, after.last_at, after.last_seq) == (clock.now() + 15 * 60_000, clock.now(), job.seq)


def test_however_late_it_is_looked_at_the_times_stay_on_the_grid(storage: Storage, clock: SetClock) -> None:
    first = add(storage, overlap=True).next_at
    for late in (0.1, 7.3, 59.9, 300.0):
        due = storage.schedule("tick").next_at
        clock.pass_seconds((due - clock.now()) / 1000 + late)
        assert names(recurring.enqueue_due(storage)) == ["tick"]
        assert (storage.schedule("tick").next_at - first) % (15 * 60_000) == 0


def test_of_many_who_look_at_the_same_moment_one_has_the_occurrence(
    database: str, storage: Storage, clock: SetClock
) -> None:
    for number in range(5):
        add(storage, f"s{number}", every="10s", overlap=True)
    found: list[Occurrence] = []
    together = threading.Barrier(RACERS + 1)

    def take() -> None:
        own = open_database(database, clock)
        for _ in range(ROUNDS):
            together.wait()
            due = own.due_schedules()
            together.wait()  # all have read the same rows before anyone takes any
            found.extend(filter(None, [recurring.occur(own, schedule) for schedule in due]))
            together.wait()
        own.close()

    threads = [threading.Thread(target=take, daemon=True) for _ in range(RACERS)]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        clock.pass_seconds(10)
        for _ in range(3):
            together.wait(timeout=60)
        assert sorted(names(found)) == [f"s{number}" for number in range(5)]
        found.clear()
    for thread in threads:
        thread.join()
    assert len(jobs(storage)) == 5 * ROUNDS


def test_who_read_it_before_another_took_it_takes_nothing(connect: Callable[[], Storage], clock: SetClock) -> None:
    first, second = connect(), connect()
    add(first, overlap=True)
    clock.pass_seconds(15 * MINUTE)
    [seen] = second.due_schedules()
    assert names(recurring.enqueue_due(first)) == ["tick"]
    assert recurring.occur(second, seen) is None
    assert len(jobs(first)) == 1


def test_more_schedules_than_are_looked_at_at_once_all_come(storage: Storage, clock: SetClock) -> None:
    wanted = [f"s{number:03}" for number in range(230)]
    for name in wanted:
        add(storage, name)
    clock.pass_seconds(15 * MINUTE)
    found: list[str] = []
    while due := recurring.enqueue_due(storage):
        found += names(due)
    assert sorted(found) == wanted and len(jobs(storage)) == len(wanted)
    assert storage.next_occurrence() == clock.now() + 15 * 60_000


# --- missed, going on, paused ---


def test_what_was_missed_is_made_up_for_once(storage: Storage, clock: SetClock) -> None:
    add(storage)
    clock.pass_seconds(10 * HOUR + 1)
    assert names(recurring.enqueue_due(storage)) == ["tick"]
    assert recurring.enqueue_due(storage) == [] and len(jobs(storage)) == 1
    assert storage.next_occurrence() == clock.now() + 15 * 60_000 - 1000


def test_or_it_is_skipped(storage: Storage, clock: SetClock) -> None:
    add(storage, missed=recurring.SKIP)
    clock.pass_seconds(15 * MINUTE + 61)
    [occurred] = recurring.enqueue_due(storage)
    assert occurred.job is None and occurred.note == "no worker was up when it came"
    assert storage.schedule("tick").note == occurred.note and jobs(storage) == []
    clock.pass_seconds(15 * MINUTE - 61 + 59)  # a little late is not missed
    assert names(recurring.enqueue_due(storage)) == ["tick"]
    assert storage.schedule("tick").note is None


def test_while_the_last_one_waits_runs_or_backs_off_no_other_comes(storage: Storage, clock: SetClock) -> None:
    add(storage, max_retries=1, backoff_base=1000)
    notes = []
    steps: list[Callable[[], object]] = [lambda: None, lambda: storage.claim("w"), lambda: end_held(storage, 3)]
    for step in steps:
        step()
        clock.pass_seconds(15 * MINUTE)
        notes += [one.note for one in recurring.enqueue_due(storage) if one.job is None]
        assert len(jobs(storage)) == 1
    assert notes == ["the job of the last one, 1, has not ended"] * 2
    clock.pass_seconds(15 * MINUTE)
    assert end(storage, 3).attempts == 2, "its last try"
    clock.pass_seconds(15 * MINUTE)
    assert names(recurring.enqueue_due(storage)) == ["tick"]


def end_held(storage: Storage, exit_code: int) -> None:
    [job] = storage.held_by("w")
    storage.finish(job, Outcome(exit_code, 1.0))


def test_unless_they_may_overlap(storage: Storage, clock: SetClock) -> None:
    add(storage, overlap=True)
    for _ in range(3):
        clock.pass_seconds(15 * MINUTE)
        assert names(recurring.enqueue_due(storage)) == ["tick"]
    assert len(jobs(storage)) == 3


def test_a_job_that_was_deleted_is_not_still_going_on(storage: Storage, clock: SetClock) -> None:
    add(storage)
    clock.pass_seconds(15 * MINUTE)
    recurring.enqueue_due(storage)
    storage.delete(jobs(storage))
    clock.pass_seconds(15 * MINUTE)
    assert names(recurring.enqueue_due(storage)) == ["tick"]


def test_whether_one_is_going_on_is_asked_when_it_comes_and_not_when_it_was_read(
    connect: Callable[[], Storage], clock: SetClock
) -> None:
    """`schedule run` and a worker at the same moment: the second of them finds the job of the first."""
    user, worker = connect(), connect()
    add(user)
    clock.pass_seconds(15 * MINUTE)
    [seen] = worker.due_schedules()
    recurring.run_now(user, "tick")
    occurred = recurring.occur(worker, seen)
    assert occurred and occurred.job is None and len(jobs(user)) == 1


def test_while_it_is_paused_nothing_comes_and_what_would_have_come_was_not_missed(
    storage: Storage, clock: SetClock
) -> None:
    due = add(storage).next_at
    storage.pause_schedule("tick")
    assert storage.next_occurrence() is None
    clock.pass_seconds(HOUR + 100)
    assert recurring.enqueue_due(storage) == []
    assert recurring.resume(storage, "tick").next_at == due + HOUR * 1000
    assert recurring.enqueue_due(storage) == []
    clock.pass_seconds(15 * MINUTE)
    assert names(recurring.enqueue_due(storage)) == ["tick"]


def test_who_resumes_what_was_never_paused_takes_nothing_away(storage: Storage, clock: SetClock) -> None:
    add(storage)
    clock.pass_seconds(HOUR)
    recurring.resume(storage, "tick")
    assert names(recurring.enqueue_due(storage)) == ["tick"], "it was due already"


def test_a_worker_that_has_read_it_does_not_undo_a_pause(connect: Callable[[], Storage], clock: SetClock) -> None:
    user, worker = connect(), connect()
    add(user)
    clock.pass_seconds(15 * MINUTE)
    [seen] = worker.due_schedules()
    user.pause_schedule("tick")
    assert recurring.occur(worker, seen) is None
    assert user.schedule("tick").is_paused and jobs(user) == []


# --- by hand ---


def test_run_enqueues_one_more_and_changes_no_time(storage: Storage) -> None:
    due = add(storage).next_at
    added = recurring.run_now(storage, "tick")
    assert [job.id for job in jobs(storage)] == [added.id]
    after = storage.schedule("tick")
    assert after.next_at == due and after.last_seq == added.seq
    with pytest.raises(QueueError, match=f"the job of the last one, {added.id}, has not ended"):
        recurring.run_now(storage, "tick")
    end(storage)
    storage.pause_schedule("tick")
    recurring.run_now(storage, "tick")
    assert storage.schedule("tick").is_paused, "by hand it comes also while it is paused, and stays so"


def test_remove_takes_it_away_and_leaves_its_jobs(storage: Storage, clock: SetClock) -> None:
    add(storage)
    clock.pass_seconds(15 * MINUTE)
    [seen] = storage.due_schedules()
    recurring.enqueue_due(storage)
    storage.remove_schedule("tick")
    assert storage.schedules() == [] and len(jobs(storage)) == 1
    assert recurring.occur(storage, seen) is None
    for change in (storage.remove_schedule, storage.pause_schedule, storage.schedule):
        with pytest.raises(ScheduleNotFound):
            change("tick")


def test_a_name_has_one_schedule_and_a_wrong_name_is_told_the_nearest(storage: Storage) -> None:
    add(storage, "backup")
    with pytest.raises(DuplicateSchedule):
        add(storage, "backup")
    with pytest.raises(ScheduleNotFound, match="Did you mean 'backup'"):
        storage.schedule("bakup")
    with pytest.raises(ScheduleNotFound):
        storage.schedule("b\udc80ckup")
    for name in ("", "a b", "../x"):
        with pytest.raises(InvalidInput):
            add(storage, name)


# --- what is broken keeps nobody from anything ---


def broken(storage: Storage, **columns: Any) -> None:
    for name, value in columns.items():
        storage.statement(f"UPDATE schedules SET {name} = :value WHERE name = 'broken'", {"value": value})


def test_a_schedule_whose_job_is_no_longer_valid_makes_none_says_why_and_comes_again(
    storage: Storage, clock: SetClock
) -> None:
    add(storage, "broken")
    add(storage, "whole")
    for fields, why in [
        (json.dumps({"command": "true", "colour": "red"}), "Unknown key 'colour'"),
        (json.dumps({"command": "true", "priority": 99}), "priority cannot be 99"),
        ("{", "Expecting"),
    ]:
        broken(storage, fields=fields)
        clock.pass_seconds(15 * MINUTE)
        occurred = {one.schedule: one for one in recurring.enqueue_due(storage)}
        assert occurred["whole"].job
        assert occurred["broken"].job is None and why in (occurred["broken"].note or "")
        assert why in (storage.schedule("broken").note or "")
        assert recurring.enqueue_due(storage) == [], "nobody spins"
        end(storage)
    broken(storage, fields=json.dumps({"command": "true"}))
    clock.pass_seconds(15 * MINUTE)
    assert sorted(names(recurring.enqueue_due(storage))) == ["broken", "whole"]
    assert storage.schedule("broken").note is None


def test_a_schedule_that_knows_no_next_time_is_paused_and_says_why(storage: Storage, clock: SetClock) -> None:
    add(storage, "broken", cron="*/15 * * * *")
    add(storage, "whole")
    broken(storage, tz="Europe/Atlantis")
    clock.pass_seconds(15 * MINUTE)
    assert names(recurring.enqueue_due(storage)) == ["whole"]
    found = storage.schedule("broken")
    assert found.is_paused and "No time zone 'Europe/Atlantis'" in (found.note or "")
    assert recurring.next_times(found, clock.now(), 5) == []
    with pytest.raises(InvalidInput, match="Europe/Atlantis"):
        recurring.resume(storage, "broken")
    broken(storage, tz="UTC")
    assert recurring.resume(storage, "broken").note is None


def test_a_queue_is_not_removed_while_a_schedule_uses_it(storage: Storage) -> None:
    storage.add_queue(QueueRow("gpu"))
    add(storage, queue="gpu")
    with pytest.raises(WrongState, match="'tick' go to queue 'gpu'"):
        storage.remove_queue("gpu")
    storage.remove_schedule("tick")
    storage.remove_queue("gpu")


def test_a_schedule_whose_queue_is_gone_all_the_same_goes_on_in_the_default_one(
    storage: Storage, clock: SetClock
) -> None:
    storage.add_queue(QueueRow("gpu"))
    add(storage, queue="gpu")
    with storage.transaction():
        storage.run("remove_queue", name="gpu")
        storage.run("settings_changed")
    clock.pass_seconds(15 * MINUTE)
    assert names(recurring.enqueue_due(storage)) == ["tick"]
    assert [job.queue for job in jobs(storage)] == ["default"]
    with pytest.raises(QueueNotFound):
        add(storage, "other", queue="gpu")


def test_a_directory_of_another_system_is_left_as_it_is(storage: Storage) -> None:
    add(storage)
    for cwd in ("C:\\films", "/srv/films"):
        assert recurring.job_of(storage.schedule("tick")._replace(cwd=cwd), storage).cwd == cwd


def test_a_schedule_whose_directory_is_gone_makes_a_job_that_says_so_when_it_runs(
    storage: Storage, clock: SetClock
) -> None:
    add(storage, cwd="gone")
    clock.pass_seconds(15 * MINUTE)
    assert names(recurring.enqueue_due(storage)) == ["tick"]
    assert jobs(storage)[0].cwd.endswith("gone")


def test_a_schedule_whose_key_is_taken_waits_for_its_next_time(storage: Storage, clock: SetClock) -> None:
    add(storage, unique="only")
    storage.add([NewJob("other", "true", None, 5, 0, 0, 2, None, "/", None, unique_key="only")])
    clock.pass_seconds(15 * MINUTE)
    [occurred] = recurring.enqueue_due(storage)
    assert occurred.note == "another job waits or runs under its key 'only'"
    with pytest.raises(QueueError, match="under its key 'only'"):
        recurring.run_now(storage, "tick")
    end(storage)
    clock.pass_seconds(15 * MINUTE)
    assert names(recurring.enqueue_due(storage)) == ["tick"]


# --- its jobs ---


def test_its_jobs_take_the_settings_of_the_moment_unless_it_names_its_own(storage: Storage, clock: SetClock) -> None:
    add(storage, "plain")
    add(storage, "own", priority=9, max_retries=0, label="nightly", delay="5m")
    storage.set_setting("priority", "2")
    clock.pass_seconds(15 * MINUTE)
    assert len(recurring.enqueue_due(storage)) == 2
    plain, own = sorted(jobs(storage), key=lambda job: job.priority)
    assert (plain.priority, plain.label, plain.run_at) == (2, None, None)
    assert (own.priority, own.max_retries, own.label, own.run_at) == (9, 0, "nightly", clock.now() + 300_000)


def test_its_environment_is_kept_as_long_as_it_is_there(storage: Storage, clock: SetClock) -> None:
    made = add(storage, every="30d", environment={"SECRET": "x"})
    hash = storage.schedule("tick").environment
    assert made.environment is None and hash
    with storage.transaction() as moment:
        other = storage.keep_environment({"NOBODY": "uses it"}, moment.now)
    assert other
    clock.pass_seconds(20 * DAY)
    storage.forget_environments()
    assert storage.environment(other)[0] == "{}"
    assert json.loads(storage.environment(hash)[0]) == {"SECRET": "x"}
    clock.pass_seconds(10 * DAY)
    recurring.enqueue_due(storage)
    assert [job.environment for job in jobs(storage)] == [hash]
    storage.remove_schedule("tick")
    storage.forget_environments()
    assert storage.environment(hash)[0] != "{}", "its last job may be retried"
    storage.claim("w")
    clock.pass_seconds(10 * DAY)
    end_held(storage, 0)
    storage.delete(jobs(storage))
    storage.forget_environments()
    assert storage.environment(hash)[0] == "{}"


# --- the clock is set ---


def come(storage: Storage) -> list[str]:
    """What a worker does that looks at the time."""
    if storage.clock_was_set():
        storage.heartbeat("w", 0)
    recurring.realign(storage)
    return names(recurring.enqueue_due(storage))


def test_what_comes_every_so_often_goes_on_as_if_nobody_had_set_the_clock(storage: Storage, clock: SetClock) -> None:
    if storage.is_shared:
        pytest.skip("a server's clock is not compared with this machine's")
    add(storage, overlap=True)
    for seconds in (-3 * DAY, 5 * DAY, -40.0):
        clock.pass_seconds(14 * MINUTE)
        clock.be_set(seconds)
        assert come(storage) == []
        clock.pass_seconds(MINUTE)
        assert come(storage) == ["tick"]


def test_what_comes_every_so_often_comes_back_also_where_nobody_saw_the_clock_being_set(
    storage: Storage, clock: SetClock
) -> None:
    due = add(storage).next_at
    storage.statement("UPDATE schedules SET next_at = next_at + :years", {"years": 3 * 365 * 86_400_000})
    assert come(storage) == []
    assert storage.next_occurrence() == due


def test_a_cron_time_is_an_appointment_on_the_wall_clock(storage: Storage, clock: SetClock) -> None:
    to(storage, clock, 0)
    add(storage, cron="0 2 * * *", overlap=True)
    clock.be_set(1.5 * HOUR)
    assert come(storage) == []
    clock.be_set(HOUR)  # to 02:30: the time has come
    assert come(storage) == ["tick"]
    assert wall(storage).hour == 2
    clock.be_set(-HOUR)
    for _ in range(2):
        assert come(storage) == [], "02:00 has been already"
        clock.pass_seconds(HOUR)
    clock.pass_seconds(DAY - HOUR)
    assert come(storage) == ["tick"]


def test_a_clock_that_was_far_ahead_and_is_set_right_keeps_nothing_from_coming(
    storage: Storage, clock: SetClock
) -> None:
    to(storage, clock, 0)
    add(storage, cron="0 2 * * *", overlap=True)
    clock.be_set(400 * DAY)
    assert come(storage) == ["tick"]
    clock.be_set(-400 * DAY)
    assert come(storage) == []
    clock.pass_seconds(2 * HOUR)
    assert come(storage) == ["tick"]
    assert come(storage) == []


def test_a_clock_that_is_set_back_at_the_very_moment_makes_nothing_come_twice(
    storage: Storage, clock: SetClock
) -> None:
    to(storage, clock, 1)
    add(storage, cron="0 2 * * *", overlap=True)
    clock.pass_seconds(HOUR)
    [seen] = storage.due_schedules()
    clock.be_set(-10.0)
    assert recurring.occur(storage, seen)
    clock.pass_seconds(10)
    assert recurring.enqueue_due(storage) == [] and len(jobs(storage)) == 1


def test_the_clocks_of_people_are_what_a_daily_job_goes_by(storage: Storage, clock: SetClock) -> None:
    """From the 24th to the 26th of October 2026 in Berlin, where 02:30 comes twice on the 25th."""
    start = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    clock.be_set(start.timestamp() - clock.now() / 1000)
    rule = parse_rule("30 2 * * *", None, "Europe/Berlin", clock.now())
    job = parse({"command": "true"}, storage.settings(), HERE, clock.now())
    recurring.add(storage, "daily", rule, {"command": "true"}, job, {}, may_overlap=True)
    came = []
    for _ in range(3 * 24 * 6):
        clock.pass_seconds(10 * MINUTE)
        if come(storage):
            came.append(datetime.fromtimestamp(clock.now() / 1000, ZoneInfo("Europe/Berlin")).isoformat())
    assert came == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00", "2026-10-27T02:30:00+01:00"]
