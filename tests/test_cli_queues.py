"""Queues as a user meets them: the commands, what others show of them, and real workers that keep to the limits."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from .act import act
from .conftest import Cli, eventually
from .processes import counts, kill, open_queue, state, workers


@pytest.fixture
def shared(cli: Cli, engine: str, request: pytest.FixtureRequest) -> Cli:
    """The command line, with its queue in either engine."""
    if engine == "postgres":
        cli.env["QUEUECTL_DB"] = request.getfixturevalue("postgres")
    return cli


def line_of(text: str, word: str) -> list[str]:
    """The words of the line that begins so."""
    [found] = [line.split() for line in text.splitlines() if line.startswith(f"{word} ")]
    return found


def by_name(cli: Cli) -> dict[str, Any]:
    return {queue["name"]: queue for queue in json.loads(cli.ok("queue", "list", "--json"))}


# --- the commands ---


def test_a_queue_is_made_changed_paused_resumed_and_removed(cli: Cli) -> None:
    assert "queuectl enqueue --queue gpu" in cli.ok("queue", "add", "gpu", "--limit", "2", "--rate", "10/m")
    assert line_of(cli.ok("queue", "list"), "gpu") == ["gpu", "open", "0", "0", "of", "2", "10/m"]
    assert cli.ok("queue", "set", "gpu", "--limit", "none") == "Queue gpu: any number at once, 10/m.\n"
    assert cli.ok("queue", "set", "gpu", "--rate", "5/h", "--limit", "7") == "Queue gpu: at most 7 at once, 5/h.\n"
    cli.ok("queue", "pause", "gpu")
    assert by_name(cli)["gpu"] == {
        "name": "gpu",
        "paused": True,
        "limit": 7,
        "rate": "5/h",
        "jobs": dict.fromkeys(("pending", "processing", "completed", "failed", "dead", "cancelled"), 0),
    }
    cli.ok("queue", "resume", "gpu")
    assert not by_name(cli)["gpu"]["paused"]
    assert cli.ok("queue", "remove", "gpu") == "Queue gpu is removed.\n"
    assert list(by_name(cli)) == ["default"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["queue", "add", "gpu"], 1, "Queue 'gpu' exists already. To change it: queuectl queue set gpu"),
        (["queue", "add", "a b"], 2, "queue cannot be 'a b'"),
        (["queue", "add", "*"], 2, "queue cannot be '*'"),
        (["queue", "add", "a", "--limit", "0"], 2, "--limit cannot be '0'. It takes a whole number from 1 to 100000"),
        (["queue", "add", "a", "--rate", "fast"], 2, "rate cannot be 'fast'. It takes a rate such as 10/s"),
        (["queue", "set", "gpu"], 2, "Nothing to change. Name what is to be different: --limit 2"),
        (["queue", "set", "cpu", "--limit", "1"], 1, "No queue 'cpu'"),
        (["queue", "pause", "gpus"], 1, "No queue 'gpus'. Did you mean 'gpu'?"),
        (["queue", "remove", "gpu"], 1, "1 job waits or runs in queue 'gpu': it stays."),
        (["queue", "remove", "default"], 1, "it cannot be removed"),
        (["enqueue", "--queue", "gpus", "true"], 1, "No queue 'gpus'. Did you mean 'gpu'?"),
        (["edit", "film", "--queue", "nothing"], 1, "Make it: queuectl queue add nothing"),
        (["worker", "start", "--queue", "nothing"], 1, "Make it: queuectl queue add nothing"),
        (["list", "--queue", "gpus"], 1, "No queue 'gpus'. Did you mean 'gpu'?"),
        (["wait", "--queue", "gpus"], 1, "No queue 'gpus'. Did you mean 'gpu'?"),
        (["wait", "--queue", "gpu", "--all"], 2, "Name the jobs to wait for, or use --all, or select them"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_changes_nothing(cli: Cli, args: list[str], code: int, said: str) -> None:
    cli.ok("queue", "add", "gpu")
    cli.ok("enqueue", "--id", "film", "--queue", "gpu", "true")
    before = by_name(cli)
    done = cli(*args)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done
    assert said in done.stderr and done.stderr.startswith("Error: ")
    assert by_name(cli) == before


def test_jobs_are_selected_by_their_queue_wherever_jobs_are(cli: Cli) -> None:
    cli.ok("queue", "add", "gpu")
    for queue in ("gpu", "default"):
        cli.ok("enqueue", "--id", f"{queue}-dies", "--queue", queue, "--max-retries", "0", "exit 3")
        cli.ok("enqueue", "--id", f"{queue}-ends", "--queue", queue, "exit 0")
    cli.ok("worker", "start")
    cli("wait", "--all")
    cli.ok("worker", "stop")
    assert [job["id"] for job in json.loads(cli.ok("list", "--queue", "gpu", "--json"))] == ["gpu-ends", "gpu-dies"]
    assert [job["id"] for job in json.loads(cli.ok("dlq", "list", "--queue", "gpu", "--json"))] == ["gpu-dies"]
    assert cli.ok("dlq", "retry", "--queue", "gpu", "--yes") == "1 job is pending again.\n"
    assert cli.ok("retry", "--queue", "gpu", "--state", "completed", "--yes") == "1 job is pending again.\n"
    assert cli.ok("cancel", "--queue", "gpu", "--yes") == "2 jobs were cancelled.\n"
    assert cli.ok("wait", "--queue", "gpu") == ""
    cli.ok("queue", "remove", "gpu")
    assert "gpu-ends" in cli.ok("list", "--queue", "gpu"), "what has ended in it stays"
    assert cli.ok("purge", "--queue", "gpu", "--yes") == "2 jobs were deleted.\n"
    assert cli.ok("dlq", "purge", "--queue", "default", "--yes") == "1 job was deleted.\n"
    assert [job["id"] for job in json.loads(cli.ok("list", "--json"))] == ["default-ends"]


def test_waiting_for_a_queue_ends_when_nothing_in_it_waits_or_runs_whatever_the_others_do(cli: Cli) -> None:
    cli.ok("queue", "add", "gpu")
    cli.ok("queue", "pause", "default")
    cli.ok("enqueue", "true")
    cli.ok("enqueue", "--queue", "gpu", "exit 0")
    cli.ok("worker", "start")
    cli.ok("wait", "--queue", "gpu")
    done = cli("wait", "--queue", "default", "--timeout", "0.2")
    assert done.returncode == 124 and "Queue default is paused" in done.stderr


# --- what others show ---


def test_list_and_status_show_queues_where_there_is_more_than_one(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    assert "queue" not in cli.ok("list") and "queue" not in cli.ok("status").replace("queuectl", "")
    cli.ok("queue", "add", "gpu", "--limit", "1")
    assert "queue" not in cli.ok("list"), "all that are shown are of one"
    cli.ok("enqueue", "--queue", "gpu", "true")
    assert line_of(cli.ok("list"), "id") == ["id", "state", "priority", "tries", "when", "queue", "command"]
    assert line_of(cli.ok("status"), "gpu") == ["gpu", "open", "1", "0", "of", "1"]
    assert [queue["name"] for queue in json.loads(cli.ok("status", "--json"))["queues"]] == ["default", "gpu"]
    cli.ok("worker", "start", "--queue", "gpu")
    assert "gpu" in line_of(cli.ok("worker", "list"), "w-" + workers(cli)[0].name[2:])


def test_why_says_what_a_queue_says(cli: Cli) -> None:
    for name, *limits in (["gpu", "--limit", "1"], ["mail", "--rate", "1/h"], ["night"]):
        cli.ok("queue", "add", name, *limits)
    cli.ok("worker", "start", "--queue", "gpu", "--queue", "mail")
    done = cli("enqueue", "--id", "other", "true")
    assert done.stderr.splitlines()[1:] == [
        "No worker serves queue default. Start one with: queuectl worker start --queue default"
    ]
    cli.ok("enqueue", "--id", "first", "--queue", "gpu", act("wait go"))
    cli.ok("enqueue", "--id", "second", "--queue", "gpu", "exit 0")
    eventually(lambda: state(cli, "first") == "processing")
    assert "Its queue gpu is full: 1 of 1 run." in cli.ok("why", "second")
    assert "No worker serves its queue default: it cannot start." in cli.ok("why", "other")
    cli.ok("queue", "pause", "night")
    done = cli("enqueue", "--id", "third", "--queue", "night", "true")
    assert "Queue night is paused. To let it go on: queuectl queue resume night" in done.stderr
    assert "Its queue night is paused. To let it go on: queuectl queue resume night" in cli.ok("why", "third")
    (cli.cwd / "go").touch()
    cli.ok("wait", "--queue", "gpu")
    cli.ok("enqueue", "--queue", "mail", "exit 0")
    cli.ok("wait", "--queue", "mail")
    cli.ok("enqueue", "--id", "letter", "--queue", "mail", "true")
    assert "The rate of its queue mail, 1/h, lets the next job start at " in cli.ok("why", "letter")
    cli.ok("config", "set", "rate", "1/h")
    assert "The setting rate" not in cli.ok("why", "letter")


def test_run_starts_a_worker_where_none_serves_its_queue(cli: Cli) -> None:
    cli.ok("queue", "add", "gpu")
    cli.ok("worker", "start", "--queue", "gpu")
    assert cli.ok("run", "echo hello") == "hello\n"
    assert [worker.queues for worker in workers(cli)] == ["gpu", None]


# --- real workers ---


def test_sixteen_workers_never_run_more_than_the_limit_also_when_some_are_killed(shared: Cli) -> None:
    shared.ok("queue", "add", "gpu", "--limit", "2")
    shared.ok("queue", "add", "mail", "--limit", "3")
    beside = "sleep 0.05" if os.name == "posix" else "sleep 1"  # longer than a process takes to start
    jobs = [{"command": act("place 2", beside), "queue": "gpu"} for _ in range(24)]
    jobs += [{"command": act("sleep 0.05"), "queue": queue} for queue in ("mail", "default") for _ in range(8)]
    shared.ok("worker", "start", "--count", "16")
    shared.ok("enqueue", "--file", "-", input="".join(f"{json.dumps(job)}\n" for job in jobs))
    pids = {worker.name: worker.pid for worker in workers(shared)}
    storage = open_queue(shared)
    for number in range(1, 5):
        eventually(lambda number=number: storage.totals_by_queue()["gpu"]["completed"] >= 3 * number, 60)  # type: ignore[misc]
        held = [job for job in storage.page(50, queue="gpu")[0] if job.state.value == "processing"]
        if held and held[0].worker:
            kill(pids[held[0].worker])
    storage.close()
    eventually(lambda: counts(shared)["completed"] == len(jobs), 120)
    assert not (shared.cwd / "overlap").exists()
    taken = (shared.cwd / "places").read_text().split()
    assert set(taken) == {"0", "1"} and len(taken) >= 24, "or nothing was ever beside anything"


def test_real_workers_start_no_more_than_a_rate_allows(shared: Cli) -> None:
    shared.ok("queue", "add", "mail", "--rate", "10/s")
    shared.ok("worker", "start", "--count", "4")
    began = time.monotonic()
    letter = json.dumps({"command": act("add letters x"), "queue": "mail", "priority": 10})
    other = json.dumps({"command": "exit 0", "id": "other", "priority": 1})
    shared.ok("enqueue", "--file", "-", input=f"{letter}\n" * 32 + other)
    letters = shared.cwd / "letters"

    def sent() -> int:
        number = letters.read_text().count("x") if letters.exists() else 0
        assert number <= 10 * (time.monotonic() - began) + 2
        return number

    eventually(lambda: sent() == 32, 60)
    assert time.monotonic() - began >= 3
    eventually(lambda: counts(shared)["completed"] == 33)
    began_at = {found["id"]: found["started_at"] for found in json.loads(shared.ok("list", "--limit", "99", "--json"))}
    assert sum(at > began_at["other"] for at in began_at.values()) > 20, "nobody else waits for the letters"
