"""`why`: every reason in plain sentences, from what is stored and nothing else."""

from __future__ import annotations

from typing import Any

from queuectl.estimates import Expected
from queuectl.job import Job, State
from queuectl.ranking import PROMOTED
from queuectl.storage import Link, QueueRow, Run
from queuectl.times import clock_time, short
from queuectl.why import Facts, reasons

from .conftest import Cli, eventually
from .processes import state

NOW = 1_790_000_000_000
ROW = {
    **dict.fromkeys(Job._fields),
    **{"seq": 7, "id": "job7", "command": "make", "state": State.PENDING, "priority": 5, "max_retries": 3},
    **{"attempts": 0, "lease": 0, "created_at": NOW - 60_000, "waits_for": 0, "waiting_time": 0},
}


def a_job(**fields: Any) -> Job:
    return Job(**{**ROW, **fields})


def why(job: Job, **facts: Any) -> str:
    return "\n".join(reasons(Facts(job, NOW, **{"working": 1, **facts})))


IN_LINE = {"rank": 3, "since_at": NOW - 5_000, "waiting_time": 2}
RUNS = {"state": State.PROCESSING, "started_at": NOW - 4_000, "since_at": NOW - 16_000, "worker": "w-1", "lease": 1}


def test_no_worker_is_running() -> None:
    assert "No worker is running: it cannot start. Start one with: queuectl worker start" in why(
        a_job(**IN_LINE), working=0
    )
    assert "Every worker was asked to stop" in why(a_job(**IN_LINE), working=0, stopping=2)
    assert "worker" not in why(a_job(**IN_LINE))


def test_it_is_scheduled() -> None:
    assert why(a_job(due_at=NOW + 3_600_000, run_at=NOW + 3_600_000)) == (
        f"It is scheduled for {short(NOW + 3_600_000)}, in 1 h 0 min."
    )


def test_it_waits_for_other_jobs() -> None:
    needs = [
        Link("a", "processing", "completed", 0),
        Link("b", "pending", "any", 0),
        Link("c", "failed", "dead", 0),
        Link("d", "completed", "completed", 1),
    ]
    assert why(a_job(waits_for=3), needs=needs).splitlines() == [
        "It waits for job a to be completed, which is processing.",
        "It waits for job b to end, which is pending.",
        "It waits for job c to be dead, which is failed.",
    ]
    many = [Link(str(number), "pending", "completed", 0) for number in range(8)]
    assert why(a_job(waits_for=8), needs=many).splitlines()[-1] == "It waits for 3 others."
    assert f"scheduled for {short(NOW + 9_000)}" in why(a_job(waits_for=3, run_at=NOW + 9_000), needs=needs)


def test_it_will_be_tried_again() -> None:
    job = a_job(state=State.FAILED, attempts=1, error_message="exit code 3", due_at=NOW + 12_000)
    assert why(job).splitlines() == [
        "Try 1 of 4 failed: exit code 3.",
        f"The next try is due in 12 s, at {short(NOW + 12_000)}.",
    ]


def test_a_run_that_was_put_back_cost_no_try() -> None:
    assert "before its time: worker lost. No try was lost." in why(a_job(**IN_LINE, error_message="worker lost"))


def test_its_place_in_line_with_what_stands_before_it() -> None:
    before = [a_job(id="a", priority=9), a_job(id="b", priority=5, waiting_time=2)]
    assert why(a_job(**IN_LINE), ahead=14, before=before).splitlines() == [
        "It is in line, 14 jobs before it.",
        "Its effective priority is 7: priority 5 + waiting_time 2.",
        "Before it: a (effective priority 9), b (effective priority 7) and 12 others.",
        "Jobs with the same effective priority run in the order in which they came.",
    ]
    assert "1,000+ jobs before it" in why(a_job(**IN_LINE), ahead=1_000, before=before)
    assert why(a_job(**IN_LINE)).splitlines()[0] == "It is next in line."


def test_who_was_promoted_is_named_so() -> None:
    assert "It was promoted" in why(a_job(**{**IN_LINE, "rank": PROMOTED - 1}))
    assert "a (promoted)" in why(a_job(**IN_LINE), ahead=1, before=[a_job(id="a", rank=PROMOTED - 1)])


def test_all_workers_are_busy() -> None:
    running = [a_job(id="a"), a_job(id="b")]
    assert "All 2 workers are busy with a, b." in why(a_job(**IN_LINE), working=2, running=running)
    assert "The worker is busy with a." in why(a_job(**IN_LINE), running=running[:1])
    assert "busy" not in why(a_job(**IN_LINE), working=3, running=running)
    assert "busy" not in why(a_job(due_at=NOW + 1_000), running=running[:1]), "it would not start if one were free"


def test_what_its_queue_says_to_it() -> None:
    job = a_job(**IN_LINE, queue="gpu")
    assert "Its queue gpu is paused. To let it go on: queuectl queue resume gpu" in why(
        job, queue=QueueRow("gpu", 1, 2)
    )
    assert "Its queue gpu is full: 2 of 2 run." in why(job, queue=QueueRow("gpu", 0, 2), in_queue=2)
    assert "full" not in why(job, queue=QueueRow("gpu", 0, 2), in_queue=1)
    paced = [("The rate of its queue gpu, 1/m,", NOW + 12_000)]
    at = clock_time(NOW + 12_000, NOW)
    assert f"The rate of its queue gpu, 1/m, lets the next job start at {at}." in why(job, paced=paced)
    blocked = why(a_job(due_at=NOW + 1_000, queue="gpu"), queue=QueueRow("gpu", 0, 1), in_queue=1, paced=paced)
    assert "full" not in blocked and "rate" not in blocked, "it would not start if there were a place"
    nobody = why(job, queue=QueueRow("gpu"), working=0, elsewhere=3)
    assert (
        "No worker serves its queue gpu: it cannot start. Start one with: queuectl worker start --queue gpu" in nobody
    )


def test_when_it_is_expected_to_start_and_to_end() -> None:
    assert "it starts in ~12 s, at ~" in why(a_job(**IN_LINE), expected=Expected(NOW + 12_000))
    assert "it ends in ~9 s, at ~" in why(a_job(**RUNS), expected=Expected(end_at=NOW + 9_000))
    assert "~" not in why(a_job(**IN_LINE)) + why(a_job(**RUNS))


def test_why_it_ran_when_it_did() -> None:
    run = Run(1, 1, "w-1", NOW - 40_000, NOW - 30_000, 10.0, "failed", 3, "exit code 3")
    job = a_job(**{**RUNS, "lease": 2, "attempts": 2, "run_at": NOW - 28_000, "waiting_time": 3})
    job = job._replace(after_id="build", after_state="dead")
    assert why(job, runs=[run]).splitlines() == [
        f"It runs: worker w-1 started it at {short(NOW - 4_000)}, 4.00 s ago.",
        f"It was enqueued at {short(NOW - 60_000)}.",
        "It waited for job build, which died.",
        f"Before that, try 1 was failed at {short(NOW - 30_000)}: exit code 3.",
        f"It was not to start before {short(NOW - 28_000)}.",
        "It had waited 12 s, and its effective priority was 8: priority 5 + waiting_time 3.",
    ]


def test_how_it_ended() -> None:
    ended = {**RUNS, "finished_at": NOW, "duration_seconds": 4.0, "attempts": 4}
    assert "Worker w-1 ran it at" in why(a_job(**{**ended, "state": State.COMPLETED}))
    dead = why(a_job(**{**ended, "state": State.DEAD, "error_message": "exit code 3"}))
    assert "It was given up after 4 of 4 tries: exit code 3." in dead and "queuectl dlq retry job7" in dead
    never = a_job(state=State.CANCELLED, finished_at=NOW, error_message="job build is dead")
    assert why(never).splitlines() == [f"It was cancelled at {short(NOW)}: job build is dead.", "It never ran."]


def test_what_was_cancelled_while_it_backed_off_says_nothing_of_the_try_that_never_came() -> None:
    times = {"started_at": NOW - 20_000, "since_at": NOW - 11_000, "finished_at": NOW, "run_at": NOW + 60_000}
    said = why(a_job(state=State.CANCELLED, error_message="not wanted", **times, lease=1, attempts=1))
    assert "Its newest run began at" in said
    assert "not to start before" not in said and "had waited" not in said


# --- end to end ---


def test_why_of_real_jobs(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "build", "exit 3", "--backoff-base", "1000")
    cli.ok("enqueue", "--id", "ship", "--after", "build", "exit 0")
    cli.ok("enqueue", "--id", "night", "--delay", "1d", "exit 0")
    cli.ok("enqueue", "--id", "urgent", "-p", "9", "exit 0")
    said = cli.ok("why", "build")
    assert said.startswith("Job build is pending.\nIt is in line, 1 job before it.\n")
    assert "Before it: urgent (effective priority 9)." in said and "No worker is running" in said
    assert "It waits for job build to be completed, which is pending." in cli.ok("why", "ship")
    assert "It is scheduled for" in cli.ok("why", "night")
    cli.ok("worker", "start")
    eventually(lambda: (state(cli, "build"), state(cli, "urgent")) == ("failed", "completed"))
    assert "Try 1 of 4 failed: exit code 3.\nThe next try is due in " in cli.ok("why", "build")
    assert "its effective priority was 9" in cli.ok("why", "urgent")
    cli.ok("cancel", "build", "--reason", "wrong")
    assert "job build was cancelled.\nIt never ran." in cli.ok("why", "ship")
    assert cli.ok("why", "last").startswith("Job urgent is completed.")
