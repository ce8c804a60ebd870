"""Workers, guardians and processes in the middle of a run are killed, in every combination: nothing is left."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from act import act
from conftest import ROOT, SCRIPT, Cli, eventually
from processes import guardian, job, kill, lives, marked, marks, open_queue, read_pid, state, workers

from queuectl.home import Home
from queuectl.recovery import recover
from queuectl.storage import Worker

has_guardians = pytest.mark.skipif(os.name == "nt", reason="Windows has Job Objects instead; see test_windows.py")

# A tree with a middle process, a leaf below it, one in the background, one in a session of its own.
TREE = (
    "sh -c 'echo $$ > middle.new; mv middle.new middle; sleep 300; true' & "
    "setsid sh -c 'sleep 300; true' & "
    "(trap '' TERM HUP; sleep 300) & "
    "sleep 300; true"
)
PARTS = ("worker", "guardian", "middle")
COMBINATIONS = [order for size in (1, 2, 3) for order in itertools.permutations(PARTS, size)]


STARTS_A_WORKER = "subprocess.Popen([*sys.argv[1:], 'worker', 'start']).wait()"


def of_the_first_run(cli: Cli) -> list[int]:
    return [pid for pid, mark in marks(cli).items() if mark.endswith(".1")]


@has_guardians
@pytest.mark.parametrize("victims", COMBINATIONS, ids="-".join)
def test_no_process_of_a_run_outlives_its_worker(cli: Cli, victims: tuple[str, ...]) -> None:
    cli.ok("enqueue", TREE)
    cli.ok("worker", "start")
    eventually(lambda: read_pid(cli.cwd / "middle") and len(marked(cli)) >= 7)
    [worker] = workers(cli)
    pids = {"worker": worker.pid, "guardian": guardian(worker.pid).pid, "middle": read_pid(cli.cwd / "middle")}
    for victim in victims:
        if lives(pids[victim]):
            kill(pids[victim])
    eventually(lambda: not any(lives(pids[victim]) for victim in victims))

    if "worker" not in victims:
        assert state(cli, "1") == "processing"
        cli.ok("worker", "stop", "--force")
    elif "guardian" not in victims or victims.index("guardian") > victims.index("worker"):
        # The guardian ends the run at once, with no help; if it was killed before it could, the next start does.
        if "guardian" not in victims:
            eventually(lambda: not marked(cli), 5)
            assert state(cli, "1") == "processing"
        cli.ok("worker", "start")
    else:
        cli.ok("worker", "start")
    eventually(lambda: not of_the_first_run(cli))
    found = job(cli, "1")
    assert found["runs"][0]["outcome"] == ("lost" if "worker" in victims else "released")
    assert found["attempts"] == (1 if found["state"] == "processing" else 0)


@has_guardians
def test_a_guardian_that_was_killed_is_replaced_while_the_run_goes_on(cli: Cli) -> None:
    cli.ok("enqueue", "sleep 300")
    cli.ok("worker", "start")
    eventually(lambda: marked(cli))
    [worker] = workers(cli)
    first = guardian(worker.pid).pid
    kill(first)
    eventually(lambda: not psutil.pid_exists(first))  # reaped by the worker, which has made another by then
    eventually(lambda: len(psutil.Process(worker.pid).children()) == 2)
    assert guardian(worker.pid).pid != first
    kill(worker.pid)
    eventually(lambda: not marked(cli), 5)


@has_guardians
def test_a_run_that_has_thrown_away_its_mark_does_not_outlive_its_worker_either(cli: Cli) -> None:
    cli.ok("enqueue", "echo $$ > leader.new; mv leader.new leader; exec env -i sleep 300")
    cli.ok("worker", "start")
    eventually(lambda: read_pid(cli.cwd / "leader"))
    leader = read_pid(cli.cwd / "leader")
    eventually(lambda: psutil.Process(leader).name() == "sleep")
    assert not marked(cli)
    [worker] = workers(cli)
    kill(worker.pid)
    eventually(lambda: not lives(leader))


@has_guardians
def test_a_worker_whose_starter_ignores_that_children_end_waits_for_its_commands_all_the_same(cli: Cli) -> None:
    start = f"import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); {STARTS_A_WORKER}"
    subprocess.run([sys.executable, "-c", start, sys.executable, SCRIPT], env=cli.env, cwd=cli.cwd, timeout=60)
    assert cli("run", "exit 3").returncode == 3
    assert len(workers(cli)) == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows does not say that a process was killed")
def test_a_command_that_was_killed_leaves_nothing_that_its_next_try_could_meet(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--max-retries", "0", "setsid sleep 300 & sleep 300 & kill -9 $$")
    eventually(lambda: state(cli, "1") == "dead")
    assert job(cli, "1")["exit_code"] == 137
    assert not marked(cli)


def test_another_worker_puts_the_job_of_a_lost_one_back_within_seconds(cli: Cli) -> None:
    cli.ok("worker", "start", "--count", "2")
    cli.ok("enqueue", act("wait go"))
    eventually(lambda: state(cli, "1") == "processing")
    lost = job(cli, "1")["worker"]
    kill(next(worker.pid for worker in workers(cli) if worker.name == lost))
    eventually(lambda: job(cli, "1")["worker"] not in (None, lost), 10)
    (cli.cwd / "go").touch()
    eventually(lambda: state(cli, "1") == "completed")
    found = job(cli, "1")
    assert (found["attempts"], [run["outcome"] for run in found["runs"]]) == (1, ["lost", "completed"])
    assert found["runs"][0]["error_message"] == "worker lost"


def test_status_and_health_show_a_lost_worker_and_change_nothing(cli: Cli) -> None:
    cli.ok("enqueue", act("sleep 300"))
    cli.ok("worker", "start")
    eventually(lambda: state(cli, "1") == "processing")
    assert cli("worker", "health").returncode == 0
    [worker] = workers(cli)
    kill(worker.pid)
    eventually(lambda: not lives(worker.pid))
    assert "lost" in cli.ok("status")
    health = cli("worker", "health")
    assert health.returncode == 1 and "lost" in health.stdout and worker.name in health.stdout
    assert state(cli, "1") == "processing"
    assert [found.name for found in workers(cli)] == [worker.name]


def test_a_job_that_kills_its_workers_is_dead_after_the_third(cli: Cli) -> None:
    cli.ok("enqueue", act("kill-worker"))
    for _ in range(3):
        cli.ok("worker", "start")
        eventually(lambda: not any(lives(worker.pid) for worker in workers(cli)))
    cli.ok("worker", "start")
    found = job(cli, "1")
    assert (found["state"], found["error_message"]) == ("dead", "worker lost 3 times in a row")
    assert cli("run", "echo the queue goes on").stdout == "the queue goes on\n"


def test_jobs_of_workers_from_before_a_reboot_are_put_back_and_nothing_is_counted(cli: Cli) -> None:
    cli.ok("enqueue", "exit 0")
    storage = open_queue(cli)
    for number in range(4):
        storage.add_worker(Worker(f"w-{number}", 1, "1", "an earlier boot", "pid:[1]", "here", 0, 0, 0, None))
        assert storage.claim(f"w-{number}")
        [recovered] = recover(storage, Home(str(cli.home)))
        assert recovered.verdict.state.value == "pending"
    assert storage.job("1").lost == 0
    storage.close()


SET_CLOCK = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from queuectl import clock
real, is_set_back = clock.Clock.now, Path({is_set_back!r})
clock.Clock.now = lambda self: real(self) - 3_600_000 * is_set_back.exists()
from queuectl.worker import main
sys.exit(main())
"""


def test_workers_go_on_when_the_clock_is_set_back_an_hour(cli: Cli, tmp_path: Path) -> None:
    """The clock that is set is the workers' own: a test cannot set the machine's."""
    is_set_back = tmp_path / "set back"
    code = SET_CLOCK.format(root=str(ROOT), is_set_back=str(is_set_back))
    cli.ok("config", "set", "heartbeat-interval", "0.2")
    cli.ok("enqueue", "--backoff-base", "4", "--max-retries", "5", act("add tries x", "exit 1"))
    cli.ok("enqueue", act("wait go"))
    processes = [
        subprocess.Popen([sys.executable, "-c", code, "--name", name], env=cli.env, start_new_session=True)
        for name in ("w-one", "w-two")
    ]
    try:
        eventually(lambda: state(cli, "1") == "failed" and state(cli, "2") == "processing")
        is_set_back.touch()
        eventually(lambda: (cli.cwd / "tries").read_text().count("x") == 2, 300)
        assert state(cli, "2") == "processing"
        assert len(workers(cli)) == 2
        (cli.cwd / "go").touch()
        eventually(lambda: state(cli, "2") == "completed")
        assert [run["outcome"] for run in job(cli, "2")["runs"]] == ["completed"]
    finally:
        cli("worker", "stop", "--force")
        for process in processes:
            process.wait(20)
