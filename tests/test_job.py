"""What a job is, and what a run makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from queuectl.job import Job, Outcome, State, Verdict, after_loss, after_run, backoff_millis, cancelled

NOW = 1_790_000_000_000


def job(**fields: Any) -> Job:
    """A job that is in its first run."""
    common: dict[str, Any] = dict.fromkeys(Job._fields[: Job._fields.index("output")])
    common.update(seq=1, id="1", command="true", state=State.PROCESSING, priority=5, max_retries=3, timeout=0)
    common.update(backoff_base=2.0, attempts=1, lost=0, lease=1, cwd="/", created_at=0, updated_at=0)
    common.update(jitter=0.0, no_rerun=0, queue="default")
    return Job(**{**common, **fields})


# --- after a run ---


def test_exit_code_0_completes_the_job() -> None:
    assert after_run(job(), Outcome(0, 1.0), NOW, 3600) == Verdict(State.COMPLETED, "completed")


def test_exit_code_0_completes_the_job_also_in_its_last_try_and_forgets_lost_workers() -> None:
    verdict = after_run(job(attempts=4, lost=2), Outcome(0, 1.0), NOW, 3600)
    assert verdict == Verdict(State.COMPLETED, "completed", lost=0)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 2), (2, 4), (3, 8)])
def test_a_failed_job_is_tried_again_after_its_backoff(attempts: int, seconds: int) -> None:
    verdict = after_run(job(attempts=attempts, lost=2), Outcome(3, 1.0), NOW, 3600)
    assert verdict == Verdict(State.FAILED, "failed", "exit code 3", NOW + seconds * 1000, lost=0)


def test_max_retries_are_tries_after_the_first_then_the_job_is_dead() -> None:
    states = [after_run(job(attempts=n), Outcome(1, 1.0), NOW, 3600).state for n in range(1, 6)]
    assert states == [State.FAILED] * 3 + [State.DEAD] * 2
    assert after_run(job(attempts=4), Outcome(1, 1.0), NOW, 3600) == Verdict(State.DEAD, "dead", "exit code 1")
    assert after_run(job(attempts=1, max_retries=0), Outcome(1, 1.0), NOW, 3600).state is State.DEAD


def test_a_signal_a_time_limit_and_a_command_that_cannot_start_are_failures_with_their_reason() -> None:
    assert after_run(job(), Outcome(-9, 1.0), NOW, 3600).error_message == "exit code -9"
    for reason in ("timed out after 5 s", "cannot start: 'x': No such file or directory"):
        verdict = after_run(job(), Outcome(None, 1.0, reason=reason), NOW, 3600)
        assert verdict == Verdict(State.FAILED, "failed", reason, NOW + 2000)
        assert after_run(job(attempts=4), Outcome(None, 1.0, reason=reason), NOW, 3600).state is State.DEAD


def test_a_job_whose_worker_is_stopped_is_pending_again_and_what_it_lost_before_still_counts() -> None:
    outcome = Outcome(None, 1.0, reason="its worker was stopped", state=State.PENDING)
    verdict = after_run(job(attempts=4, lost=2), outcome, NOW, 3600)
    assert verdict == Verdict(State.PENDING, "released", "its worker was stopped", run_at=None, lost=2)


def test_a_cancelled_run_is_cancelled_whatever_its_exit_code() -> None:
    for code in (None, 0, 1):
        outcome = Outcome(code, 1.0, reason="enough", state=State.CANCELLED)
        assert after_run(job(), outcome, NOW, 3600) == cancelled("enough")
    assert cancelled("enough") == Verdict(State.CANCELLED, "cancelled", "enough")


def test_a_lost_worker_puts_the_job_back_and_the_third_in_a_row_makes_it_dead() -> None:
    assert after_loss(job(lost=0), rebooted=False) == Verdict(State.PENDING, "lost", "worker lost", lost=1)
    assert after_loss(job(lost=1), rebooted=False) == Verdict(State.PENDING, "lost", "worker lost", lost=2)
    dead = after_loss(job(lost=2), rebooted=False)
    assert dead == Verdict(State.DEAD, "lost", "worker lost 3 times in a row", lost=3)


def test_a_lost_worker_costs_no_try_so_the_last_try_is_not_the_end() -> None:
    assert after_loss(job(attempts=4), rebooted=False).state is State.PENDING


def test_a_reboot_is_not_counted() -> None:
    for lost in (0, 2):
        verdict = after_loss(job(lost=lost), rebooted=True)
        reason = "worker lost: the machine restarted, or its user signed out"
        assert verdict == Verdict(State.PENDING, "lost", reason, lost=lost)


@pytest.mark.parametrize(
    ("base", "attempts", "most", "millis"),
    [
        (2, 1, 3600, 2_000),
        (2, 11, 3600, 2_048_000),
        (2, 12, 3600, 3_600_000),
        (2, 5000, 3600, 3_600_000),
        (1000, 1_000_001, 3600, 3_600_000),
        (1000, 103, 100 * 365 * 86400, 3_153_600_000_000),
        (1.5, 2, 3600, 2_250),
        (0.5, 2, 3600, 250),
        (0.5, 100_000, 3600, 0),
        (1, 7, 3600, 1_000),
        (0, 1, 3600, 0),
        (10, 3, 0, 0),
        (10, 1, 0.25, 250),
    ],
)
def test_the_backoff_is_base_to_the_power_of_failures_up_to_the_most(
    base: float, attempts: int, most: float, millis: int
) -> None:
    assert backoff_millis(job(backoff_base=base, attempts=attempts), most) == millis


@pytest.mark.parametrize("state", State)
def test_only_completed_dead_and_cancelled_jobs_have_ended(state: State) -> None:
    assert state.has_ended == (state.value in ("completed", "dead", "cancelled"))
    assert str(state) == state.value


def test_the_effective_priority_is_the_sum() -> None:
    assert job(priority=5)._replace(waiting_time=7).effective_priority == 12
