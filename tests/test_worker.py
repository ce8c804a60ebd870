"""Real workers: detached processes that run real commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from act import act, variable
from conftest import ROOT, SCRIPT, Cli, eventually
from processes import counts, job, kill, lives, marked, marks, open_queue, read_pid, state, workers

from queuectl import worker_manager
from queuectl.housekeeping import identity
from queuectl.platforms import boot_id, pid_space
from queuectl.queue import Queue
from queuectl.storage import Worker
from queuectl.worker_manager import End, WorkerManager
from queuectl.workers_file import entry

needs_signals = pytest.mark.skipif(os.name == "nt", reason="on Windows no signal reaches a worker")
needs_removal = pytest.mark.skipif(os.name == "nt", reason="Windows removes no file that a worker has open")


def finished(cli: Cli, job_id: str) -> bool:
    return state(cli, job_id) in ("completed", "dead", "cancelled")


# --- run ---


def test_run_on_a_fresh_home_shows_the_output_and_passes_the_exit_code_on(cli: Cli) -> None:
    done = cli("run", act("say to-stdout", "complain to-stderr", "exit 7"))
    assert (done.returncode, done.stdout, done.stderr) == (7, "to-stdout\n", "to-stderr\n")
    assert cli("run", "exit 0").returncode == 0
    assert job(cli, "1")["max_retries"] == 0


def test_run_shows_output_as_it_comes(cli: Cli) -> None:
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "run", act("say first", "wait go", "say second")],
        stdout=subprocess.PIPE,
        env=cli.env,
        cwd=cli.cwd,
    )
    assert process.stdout
    assert process.stdout.readline() == b"first\n"
    (cli.cwd / "go").touch()
    assert process.stdout.readline() == b"second\n"
    assert process.wait(20) == 0
    process.stdout.close()


def test_run_shows_every_try_in_turn(cli: Cli) -> None:
    done = cli("run", "--max-retries", "2", "--backoff-base", "0", act("number tries", "exit 1"))
    assert (done.returncode, done.stdout) == (1, "try 1\ntry 2\ntry 3\n")


def test_run_shows_more_than_a_row_keeps(cli: Cli) -> None:
    cli.ok("config", "set", "max-output", "100")
    done = cli("run", act("count 20000"))
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 20001))


def test_run_says_that_a_time_limit_was_reached(cli: Cli) -> None:
    done = cli("run", "--timeout", "1", act("sleep 60"))
    assert done.returncode == 124
    assert "timed out after 1 s" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows says Ctrl+C to the whole console, that of the tests too")
def test_ctrl_c_leaves_the_job_running_and_says_how_to_follow_or_cancel_it(cli: Cli) -> None:
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "run", "echo begun; while [ ! -e go ]; do sleep 0.02; done; touch done"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.env,
        cwd=cli.cwd,
    )
    assert process.stdout
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"queuectl logs -f 1" in said and b"queuectl cancel 1" in said
    assert state(cli, "1") == "processing"
    (cli.cwd / "go").touch()
    eventually(lambda: state(cli, "1") == "completed")
    assert (cli.cwd / "done").exists()


def test_logs_follows_a_running_job_and_cancel_ends_it_with_all_its_processes(cli: Cli) -> None:
    cli.ok("worker", "start")
    job_id = cli.ok("enqueue", act("say begun", "spawn sleep 100", "sleep 100")).strip()
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "logs", "-f", job_id], stdout=subprocess.PIPE, env=cli.env, cwd=cli.cwd
    )
    assert process.stdout
    assert process.stdout.readline() == b"begun\n"
    assert cli("cancel", job_id, "--reason", "changed my mind").returncode == 0
    eventually(lambda: state(cli, job_id) == "cancelled")
    assert process.wait(20) == 1
    process.stdout.close()
    assert not marked(cli)
    assert job(cli, job_id)["error_message"] == "changed my mind"


def test_run_goes_on_when_its_worker_dies(cli: Cli) -> None:
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "run", act("say begun", "wait go", "say done")],
        stdout=subprocess.PIPE,
        env=cli.env,
        cwd=cli.cwd,
    )
    assert process.stdout
    assert process.stdout.readline() == b"begun\n"
    kill(workers(cli)[0].pid)
    eventually(lambda: not any(mark.endswith(".1") for mark in marks(cli).values()))  # its first run is dead
    (cli.cwd / "go").touch()
    assert process.stdout.read() == b"begun\ndone\n"
    assert process.wait(20) == 0
    process.stdout.close()
    assert [run["outcome"] for run in job(cli, "1")["runs"]] == ["lost", "completed"]


def test_run_inside_a_job_gets_a_worker_of_its_own(cli: Cli) -> None:
    inner = f'"{sys.executable}" "{SCRIPT}" run "echo inner"'
    assert cli("run", inner).stdout == "inner\n"


def test_run_passes_bytes_on_as_they_are(cli: Cli) -> None:
    noise = bytes(range(256)) * 2000
    (cli.cwd / "noise").write_bytes(noise)
    cli.ok("config", "set", "max-output", "1000")
    shown = subprocess.run(
        [sys.executable, SCRIPT, "run", act("show noise")], capture_output=True, env=cli.env, cwd=cli.cwd, timeout=60
    )
    assert shown.stdout == noise


# --- what a command gets ---


def test_a_job_runs_where_and_with_what_it_was_enqueued(cli: Cli, tmp_path: Path) -> None:
    cli.ok("worker", "start", SECRET="the worker's")
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    report = act("where", "env SECRET", "env EXTRA", "read", "env QUEUECTL_JOB_ID")
    job_id = cli.ok("enqueue", "--env", "EXTRA=more", report, cwd=elsewhere, SECRET="mine").strip()
    eventually(lambda: finished(cli, job_id))
    assert job(cli, job_id)["output"].splitlines() == [str(elsewhere), "mine", "more", "in ''", job_id]


def test_several_arguments_run_without_a_shell(cli: Cli) -> None:
    show = "import sys; print(sys.argv[1:])"
    hard = ["an arg with spaces", "50%", "a^b", "$HOME", "'", '"', "*", ""]
    done = cli("run", "--", sys.executable, "-c", show, *hard)
    assert done.stdout == f"{hard}\n"


def test_a_program_is_found_by_the_path_that_was_captured(cli: Cli, tmp_path: Path) -> None:
    cli.ok("worker", "start")
    tools = tmp_path / "tools"
    tools.mkdir()
    if os.name == "nt":
        (tools / "my-tool.bat").write_text("@echo mine %1\n")
    else:
        (tools / "my-tool").write_text("#!/bin/sh\necho mine $1\n")
        (tools / "my-tool").chmod(0o755)
    done = cli("run", "--", "my-tool", "arg", PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert done.stdout == "mine arg\n"


def test_a_program_that_is_not_there_fails_the_run_and_says_so(cli: Cli) -> None:
    done = cli("run", "--", "no-such-program-anywhere", "x")
    assert done.returncode == 1
    assert "cannot start: 'no-such-program-anywhere': No such file or directory" in done.stderr


def test_a_directory_that_is_gone_fails_the_run_and_says_so(cli: Cli, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    job_id = cli.ok("enqueue", "--max-retries", "0", "exit 0", cwd=gone).strip()
    gone.rmdir()
    cli.ok("worker", "start")
    eventually(lambda: finished(cli, job_id))
    assert job(cli, job_id)["error_message"] == f"cannot start: no directory {str(gone)!r} on {socket.gethostname()}"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no second shell for certain")
def test_the_setting_shell_takes_effect_without_restarting_workers(cli: Cli) -> None:
    assert cli("run", "echo ${BASH_VERSION:-none}").stdout == "none\n"
    cli.ok("config", "set", "shell", "/bin/bash")
    assert cli("run", "echo ${BASH_VERSION:-none}").stdout != "none\n"
    refused = cli("config", "set", "shell", "/no/such/shell")
    assert refused.returncode == 2 and "shell cannot be '/no/such/shell'" in refused.stderr


def test_bytes_that_are_not_utf8_fail_no_job(cli: Cli) -> None:
    cli("run", act("bytes 61ff620063"))
    found = job(cli, "1")
    assert found["state"] == "completed"
    assert found["output"] == "a\ufffdb\ufffdc" or os.name == "nt"  # where other bytes may be letters


def test_a_hundred_megabytes_of_output_leave_the_memory_where_it_was(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "exit 0")
    eventually(lambda: finished(cli, "1"))
    [worker] = workers(cli)
    process = psutil.Process(worker.pid)
    before = process.memory_info().rss
    cli.ok("enqueue", act("flood 100000000", "say", "say the end"))
    peak = before
    while not finished(cli, "2"):
        peak = max(peak, process.memory_info().rss)
        time.sleep(0.01)
    peak = max(peak, process.memory_info().rss)
    assert peak - before < 20_000_000
    found = job(cli, "2")
    notice, _, kept = found["output"].partition("\n")
    assert len(kept) == 1048576 and kept.endswith("x\nthe end\n")
    assert notice.startswith(f"[{100_000_009 - 1048576} bytes cut; the whole is in ")
    whole = Path(notice.rpartition(" in ")[2].rstrip("]"))
    assert whole.stat().st_size == 100_000_009
    assert (cli.home / "queuectl.db").stat().st_size + (cli.home / "queuectl.db-wal").stat().st_size < 20_000_000


def test_what_a_command_leaves_behind_lives_on_and_does_not_write_into_the_next_jobs_output(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("leave pid pid; chatter", "say first"))
    eventually(lambda: finished(cli, "1") and read_pid(cli.cwd / "pid"))
    pid = read_pid(cli.cwd / "pid")
    try:
        cli.ok("enqueue", act("sleep 0.3", "say second"))
        eventually(lambda: finished(cli, "2"))
        assert lives(pid)
        assert job(cli, "2")["output"] == "second\n"
    finally:
        for left in marked(cli):
            kill(left)


@needs_removal
@pytest.mark.parametrize("tidied", ["all of logs", "the spool"])
def test_files_that_somebody_tidied_away_cost_no_job_a_try(cli: Cli, tidied: str) -> None:
    assert cli("run", "echo first").stdout == "first\n"
    if tidied == "all of logs":
        shutil.rmtree(cli.home / "logs")
    else:
        for path in (cli.home / "logs").glob("*.std*"):
            path.unlink()
    assert cli("run", "echo second").stdout == "second\n"
    cli.ok("config", "set", "max-output", "10")
    done = cli("run", f"rm -rf {cli.home / 'logs'}; seq 1000")
    assert done.returncode == 0
    assert len(workers(cli)) == 1


def test_output_that_cannot_be_kept_costs_no_job_its_result_and_no_worker_its_life(cli: Cli) -> None:
    cli.ok("config", "set", "max-output", "10")
    cli.ok("worker", "start")
    (cli.home / "logs" / "job-1-1.stdout").mkdir()  # where the whole was to go
    cli.ok("enqueue", act("say 0123456789abcdef"))
    cli.ok("enqueue", act("say next"))
    eventually(lambda: finished(cli, "2"))
    found = job(cli, "1")
    assert (found["state"], found["attempts"]) == ("completed", 1)
    assert found["output"].startswith("[not all of it could be kept: ") and found["output"].endswith("\n789abcdef\n")
    assert job(cli, "2")["output"] == "next\n"
    cli.ok("worker", "stop")
    assert not list((cli.home / "logs").glob("worker-*.std*"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of open files to set")
def test_what_the_worker_is_short_of_costs_no_job_a_try(cli: Cli) -> None:
    cli.ok("worker", "start")
    [worker] = workers(cli)
    limits = psutil.Process(worker.pid).rlimit(psutil.RLIMIT_NOFILE)
    psutil.Process(worker.pid).rlimit(psutil.RLIMIT_NOFILE, (5, limits[1]))
    cli.ok("enqueue", "--max-retries", "0", "echo x >> ran")
    eventually(lambda: "Too many open files" in next((cli.home / "logs").glob("*.log")).read_text())
    psutil.Process(worker.pid).rlimit(psutil.RLIMIT_NOFILE, limits)
    eventually(lambda: state(cli, "1") == "completed")
    assert (cli.cwd / "ran").read_text() == "x\n"
    assert job(cli, "1")["attempts"] == 1


# --- time limits, retries ---


@pytest.mark.skipif(os.name == "nt", reason="sessions and traps are of POSIX; see test_windows.py")
def test_a_time_limit_kills_the_whole_tree_also_who_ignores_being_asked(cli: Cli) -> None:
    cli.ok("worker", "start")
    hidden = "env -i setsid sleep 300 &"  # neither in the session nor marked, but a child of the run
    stubborn = (
        f"trap '' TERM; {hidden} echo $! > hidden; sh -c \"trap '' TERM; sleep 300\" & setsid sleep 300 & sleep 300"
    )
    cli.ok("enqueue", "--timeout", "1", "--max-retries", "0", stubborn)
    eventually(lambda: len(marked(cli)) >= 4)
    eventually(lambda: finished(cli, "1"))
    assert job(cli, "1")["error_message"] == "timed out after 1 s"
    assert not marked(cli) and not lives(read_pid(cli.cwd / "hidden"))


def test_a_backoff_is_not_slept_out_in_the_worker(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--backoff-base", "600", "exit 1")
    eventually(lambda: state(cli, "1") == "failed")
    cli.ok("enqueue", "exit 0")
    eventually(lambda: state(cli, "2") == "completed", 5)
    assert state(cli, "1") == "failed"


def test_a_failed_job_is_tried_again_and_then_is_dead(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--max-retries", "2", "--backoff-base", "0", act("add tries x", "exit 3"))
    eventually(lambda: state(cli, "1") == "dead")
    assert (cli.cwd / "tries").read_text() == "x\nx\nx\n"
    found = job(cli, "1")
    assert (found["attempts"], found["exit_code"]) == (3, 3)
    cli.ok("dlq", "retry", "1")
    eventually(lambda: (cli.cwd / "tries").read_text() == 6 * "x\n" and state(cli, "1") == "dead")


def test_a_job_with_a_delay_starts_when_its_time_has_come(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--delay", "1", "exit 0")
    assert state(cli, "1") == "pending"
    eventually(lambda: finished(cli, "1"))
    storage = open_queue(cli)
    found = storage.job("1")
    storage.close()
    assert found.started_at and found.run_at and found.run_at <= found.started_at < found.run_at + 1000


# --- many workers ---


def test_four_workers_run_a_thousand_jobs_exactly_once_each(cli: Cli) -> None:
    total = 1000 if os.name == "posix" else 100  # a process costs more on Windows
    # A file for each job: on Windows two cannot write to the same one at once.
    command = f"echo {variable('QUEUECTL_RUN')} >> ran-{variable('QUEUECTL_JOB_ID')}"
    ids = cli.ok("enqueue", "--file", "-", input=f"{command}\n" * total).split()
    cli.ok("worker", "start", "--count", "4")
    eventually(lambda: counts(cli)["completed"] == total, 60)
    ran = Counter({path.name: len(path.read_text().splitlines()) for path in cli.cwd.glob("ran-*")})
    assert ran == Counter(f"ran-{job_id}" for job_id in ids)
    assert sum(worker.processed for worker in workers(cli)) <= total
    eventually(lambda: sum(worker.processed for worker in workers(cli)) == total)


def test_killed_workers_lose_no_job_and_none_runs_twice_at_the_same_time(cli: Cli) -> None:
    total = 60 if os.name == "posix" else 20
    # Whoever cannot have the lock runs beside another run of the same job.
    job_id = variable("QUEUECTL_JOB_ID")
    command = act(f"alone lock-{job_id}", "sleep 0.1", f"touch done-{job_id}")
    cli.ok("enqueue", "--file", "-", input=f"{command}\n" * total)
    cli.ok("worker", "start", "--count", "3")
    for _ in range(4):
        time.sleep(0.3)  # not for luck: so that the kills fall into different moments of the work
        kill(workers(cli)[0].pid)
        cli.ok("worker", "start")
    eventually(lambda: counts(cli)["completed"] == total, 60)
    assert len(list(cli.cwd.glob("done-*"))) == total
    assert not (cli.cwd / "overlap").exists()
    storage = open_queue(cli)
    assert all(found.attempts == 1 for found in storage.jobs(None, 1000))
    storage.close()


def test_two_worker_starts_at_once_lose_nothing(cli: Cli) -> None:
    cli.ok("status")
    starts = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "worker", "start", "--count", "2"],
            env=cli.env,
            cwd=cli.cwd,
            stdout=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    assert [start.wait(60) for start in starts] == [0, 0, 0]
    known = json.loads((cli.home / "workers.json").read_text())["workers"]
    assert {entry["pid"] for entry in known} == {worker.pid for worker in workers(cli)}
    assert len(known) == 6
    assert cli.ok("worker", "stop").count("has stopped") == 6


# --- starting and stopping ---


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals; see test_windows.py")
def test_a_worker_outlives_the_console_it_was_started_from(cli: Cli) -> None:
    import pty

    cli.ok("enqueue", "while [ ! -e go ]; do sleep 0.02; done; echo survived")
    pid, console = pty.fork()
    if pid == 0:
        os.environ.update(cli.env)
        os.execv(sys.executable, [sys.executable, str(SCRIPT), "worker", "start"])
    said = b""
    while b"is up" not in said:
        said += os.read(console, 1000)
    os.close(console)  # the terminal goes away, as when its window is closed
    os.waitpid(pid, 0)
    eventually(lambda: state(cli, "1") == "processing")
    [worker] = workers(cli)
    assert lives(worker.pid)
    assert os.getsid(worker.pid) == worker.pid
    (cli.cwd / "go").touch()
    eventually(lambda: state(cli, "1") == "completed")


def stop(cli: Cli) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, "worker", "stop"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.env,
        cwd=cli.cwd,
    )


def test_stop_lets_the_job_in_hand_finish(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("wait go", "touch finished"))
    cli.ok("enqueue", act("touch never"))
    eventually(lambda: state(cli, "1") == "processing")
    process = stop(cli)
    eventually(lambda: "stopping" in next((cli.home / "logs").glob("*.log")).read_text())
    (cli.cwd / "go").touch()
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 0 and b"has stopped" in said
    assert (cli.cwd / "finished").exists() and not (cli.cwd / "never").exists()
    assert (state(cli, "1"), state(cli, "2")) == ("completed", "pending")
    assert not workers(cli)


def test_stop_says_what_it_waits_for(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("wait go"))
    eventually(lambda: state(cli, "1") == "processing")
    process = stop(cli)
    assert process.stderr
    assert b"Waiting for 1 worker to finish job 1" in process.stderr.readline()
    (cli.cwd / "go").touch()
    process.communicate(timeout=20)


@pytest.mark.parametrize("how", [["--timeout", "0.5"], ["--force"]])
def test_after_the_grace_time_the_job_is_killed_and_pending_again_with_no_try_lost(cli: Cli, how: list[str]) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("spawn pid child; sleep 300", "sleep 300"))
    eventually(lambda: read_pid(cli.cwd / "child") in marked(cli))
    said = cli("worker", "stop", *how)
    assert "Job 1 was ended and is pending again.\n" in said.stderr
    assert not marked(cli)
    found = job(cli, "1")
    assert (found["state"], found["attempts"]) == ("pending", 0)
    assert not workers(cli)


def test_a_worker_that_does_not_answer_is_killed_after_the_grace_time(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("sleep 300"))
    eventually(lambda: state(cli, "1") == "processing")
    [worker] = workers(cli)
    psutil.Process(worker.pid).suspend()
    done = cli("worker", "stop", "--timeout", "0")
    assert "was killed" in done.stdout and "Job 1 was ended and is pending again.\n" in done.stderr
    assert "0 s left" not in done.stderr
    eventually(lambda: not marked(cli))
    assert job(cli, "1")["state"] == "pending"


def test_a_job_that_must_not_run_twice_is_dead_when_its_worker_is_stopped(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--no-rerun", act("sleep 300"))
    eventually(lambda: state(cli, "1") == "processing")
    assert "Job 1 was ended and is dead.\n" in cli("worker", "stop", "--force").stderr


def test_a_worker_that_cannot_be_killed_is_said_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(str(tmp_path))
    queue.storage.add_worker(identity("w-other", queue.storage))  # this process, which stops for nobody
    monkeypatch.setattr(worker_manager, "HARD_SECONDS", 0.1)
    monkeypatch.setattr(worker_manager.runs, "hard_kill", lambda pid, started: False)
    assert WorkerManager(queue.home, queue.storage).stop(0) == [("w-other", End.NONE)]
    queue.close()


def test_what_is_no_time_to_wait_for_a_job_is_refused(cli: Cli) -> None:
    for text in ("nan", "inf", "-1"):
        done = cli("worker", "stop", "--timeout", text)
        assert done.returncode == 2 and "--timeout" in done.stderr, text


def let_go_when_stopping(cli: Cli) -> None:
    """Let the job in hand end, but not before its worker has heard that it is to stop."""
    eventually(lambda: "stopping" in next((cli.home / "logs").glob("*.log")).read_text())
    (cli.cwd / "go").touch()


@needs_signals
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_stops_a_worker_gently(cli: Cli, name: str) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", act("wait go", "touch finished"))
    cli.ok("enqueue", "touch never")
    eventually(lambda: state(cli, "1") == "processing")
    [worker] = workers(cli)
    os.kill(worker.pid, signal.Signals[name])
    let_go_when_stopping(cli)
    eventually(lambda: not lives(worker.pid))
    assert (cli.cwd / "finished").exists() and not (cli.cwd / "never").exists()
    assert not workers(cli)


@needs_signals
def test_ctrl_c_ends_a_worker_without_a_word_while_it_is_still_loading(cli: Cli, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "argparse.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "queuectl" / "worker.py"), "--name", "w-early", "--foreground"],
        env={**cli.env, "PYTHONPATH": str(modules)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"loading\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == -signal.SIGINT


@needs_signals
def test_a_second_signal_stops_a_worker_at_once(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "sleep 300")
    eventually(lambda: state(cli, "1") == "processing")
    [worker] = workers(cli)
    os.kill(worker.pid, signal.SIGTERM)
    eventually(lambda: "stopping" in next((cli.home / "logs").glob("*.log")).read_text())
    os.kill(worker.pid, signal.SIGTERM)
    eventually(lambda: not lives(worker.pid))
    assert state(cli, "1") == "pending" and not marked(cli)


def test_stop_without_workers_says_so(cli: Cli) -> None:
    done = cli("worker", "stop")
    assert (done.returncode, done.stdout) == (0, "No worker is running.\n")


@needs_signals
def test_a_worker_in_the_foreground_stops_gently_on_ctrl_c(cli: Cli) -> None:
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "worker", "start", "--foreground"],
        stderr=subprocess.PIPE,
        env=cli.env,
        cwd=cli.cwd,
        start_new_session=True,
    )
    eventually(lambda: (cli.home / "queuectl.db").exists() and workers(cli))
    cli.ok("enqueue", act("wait go", "touch finished"))
    eventually(lambda: state(cli, "1") == "processing")
    os.killpg(process.pid, signal.SIGINT)  # as a console does it: everyone in the foreground hears it
    let_go_when_stopping(cli)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert b"job 1: try 1 ended" in said
    assert (cli.cwd / "finished").exists() and not workers(cli)


def foreground(cli: Cli, **options: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "worker", "start", "--foreground"],
        env=cli.env,
        cwd=cli.cwd,
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )
    eventually(lambda: (cli.home / "queuectl.db").exists() and workers(cli))
    return process


def test_a_foreground_worker_whose_console_is_gone_goes_on(cli: Cli) -> None:
    process = foreground(cli, stderr=subprocess.PIPE)
    assert process.stderr
    process.stderr.close()
    cli.ok("enqueue", "exit 0")
    eventually(lambda: state(cli, "1") == "completed")
    cli.ok("worker", "stop")
    assert process.wait(20) == 0


@needs_signals
def test_sigterm_to_worker_start_in_the_foreground_stops_the_worker(cli: Cli) -> None:
    process = foreground(cli, stderr=subprocess.DEVNULL)
    cli.ok("enqueue", act("wait go", "touch finished"))
    eventually(lambda: state(cli, "1") == "processing")
    process.send_signal(signal.SIGTERM)
    let_go_when_stopping(cli)
    assert process.wait(20) == 0
    assert (cli.cwd / "finished").exists() and not workers(cli)


def test_workers_json_forgets_who_is_gone(cli: Cli) -> None:
    for _ in range(2):
        cli.ok("worker", "start")
        storage = open_queue(cli)
        for worker in storage.workers():
            storage.ask_to_stop(worker.name, 0)
        storage.close()
        eventually(lambda: not workers(cli))
    cli.ok("worker", "start")
    assert len(json.loads((cli.home / "workers.json").read_text())["workers"]) == 1


def test_worker_start_says_why_a_worker_did_not_come_up(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text(
        "raise RuntimeError('broken on purpose')"
    )  # the worker imports it, the CLI does not
    done = cli("worker", "start", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The worker did not come up: RuntimeError: broken on purpose. Its log: ")
    assert done.stderr.count("\n") == 1


# --- who is who ---


def test_a_reused_pid_is_never_taken_for_a_worker(cli: Cli) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        here = Worker("w-old", bystander.pid, "1", boot_id(), pid_space(), "here", 0, 0, 0, None)
        cli.ok("status")
        storage = open_queue(cli)
        storage.add_worker(here)
        storage.close()
        (cli.home / "workers.json").write_text(json.dumps({"workers": [entry(here)._asdict()]}))
        assert cli("worker", "health").returncode == 1
        assert cli.ok("worker", "stop", "--force") == "No worker is running.\n"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_damaged_workers_json_is_set_aside_and_rebuilt_with_a_warning(cli: Cli) -> None:
    cli.ok("worker", "start", "--count", "2")
    path = cli.home / "workers.json"
    path.write_text('{"workers": [{"pid": "x"')
    done = cli("worker", "start")
    assert done.returncode == 0
    assert "Warning: workers.json was damaged" in done.stderr
    assert {entry["pid"] for entry in json.loads(path.read_text())["workers"]} == {w.pid for w in workers(cli)}
    assert len(list(cli.home.glob("workers.json.damaged-*"))) == 1
    assert cli.ok("worker", "stop").count("has stopped") == 3


@needs_removal
def test_workers_are_stopped_also_when_the_database_has_forgotten_them(cli: Cli) -> None:
    cli.ok("worker", "start")
    [worker] = workers(cli)
    for path in cli.home.glob("queuectl.db*"):
        path.unlink()
    cli.ok("worker", "stop", "--timeout", "0")
    assert not lives(worker.pid)


@needs_removal
def test_a_worker_whose_queue_is_gone_ends_by_itself(cli: Cli) -> None:
    cli.ok("config", "set", "heartbeat-interval", "0.2")
    cli.ok("worker", "start")
    [worker] = workers(cli)
    for path in cli.home.glob("queuectl.db*"):
        path.unlink()
    eventually(lambda: not lives(worker.pid))


# --- the log ---


def test_each_worker_writes_a_line_an_event(cli: Cli) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--id", "mine", "exit 0")
    eventually(lambda: finished(cli, "mine"))
    cli.ok("worker", "stop")
    [log] = (cli.home / "logs").glob("worker-*.log")
    lines = log.read_text().splitlines()
    events = [line.split(" ", 2)[2] for line in lines]
    assert events[0].startswith("up, pid")
    assert events[1] == "job mine: try 1 started"
    assert events[2].startswith("job mine: try 1 ended after") and events[2].endswith("exit code 0")
    assert events[-1] == "stopped after 1 jobs"


def test_works_as_a_package_and_as_a_module(cli: Cli, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "queuectl", "--version"],
        cwd=tmp_path,
        env={**cli.env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("queuectl ")
