"""A server that goes away and comes back, with real workers: nothing is lost, and nothing runs twice at once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Cli, eventually
from postgres import Server
from processes import counts, job, kill, lives, marked, open_queue, state, workers
from test_storage import counted, totals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no PostgreSQL is started on Windows")

# Says when it begins and ends, and notices by itself when it runs twice at once.
CAREFUL = """
mkdir hold-$QUEUECTL_JOB_ID || { echo $QUEUECTL_JOB_ID >> twice; exit 1; }
echo $QUEUECTL_JOB_ID >> begun
while [ ! -e go ]; do sleep 0.05; done
rmdir hold-$QUEUECTL_JOB_ID
echo $QUEUECTL_JOB_ID >> done
"""


@pytest.fixture
def far(cli: Cli, server: Server) -> Iterator[Cli]:
    """queuectl on a server that may be stopped; it runs again when the test is over, so that workers can be stopped."""
    cli.env["QUEUECTL_DB"] = server.url(server.new_database())
    yield cli
    if subprocess.run([*server._enter, *server._ctl, "status"], stdout=subprocess.DEVNULL).returncode:
        server.start()


def lines(path: Path) -> list[str]:
    return sorted(path.read_text().split()) if path.exists() else []


def logs(cli: Cli) -> str:
    return "\n".join(path.read_text() for path in (cli.home / "logs").glob("worker-*.log"))


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_an_outage_shorter_than_the_lease_changes_nothing(far: Cli, server: Server, how: str) -> None:
    """Four workers are busy, and the server stops or crashes and is started again."""
    far.ok("enqueue", "--file", "-", input="".join(json.dumps({"command": CAREFUL}) + "\n" for _ in range(6)))
    far.ok("worker", "start", "--count", "4")
    eventually(lambda: len(lines(far.cwd / "begun")) == 4)
    server.stop(how)
    eventually(lambda: logs(far).count("trying again") >= 4)
    server.start()
    eventually(lambda: logs(far).count("can be used again") >= 4)
    assert len(lines(far.cwd / "begun")) == 4
    (far.cwd / "go").touch()
    eventually(lambda: counts(far)["completed"] == 6)
    assert lines(far.cwd / "begun") == lines(far.cwd / "done") == list("123456")
    assert not (far.cwd / "twice").exists()
    storage = open_queue(far)
    assert all([run.outcome for run in storage.runs_of(found)] == ["completed"] for found in storage.jobs(None, 10))
    assert totals(storage) == counted(storage)  # type: ignore[arg-type]
    storage.close()


def test_a_finish_during_the_outage_is_stored_when_it_is_over(far: Cli, server: Server) -> None:
    far.ok("enqueue", CAREFUL)
    far.ok("worker", "start")
    eventually(lambda: lines(far.cwd / "begun"))
    server.stop()
    (far.cwd / "go").touch()
    eventually(lambda: "try 1 ended" in logs(far) and "trying again" in logs(far))
    server.start()
    eventually(lambda: state(far, "1") == "completed")
    assert lines(far.cwd / "done") == ["1"] and job(far, "1")["attempts"] == 1


def test_after_a_longer_outage_the_worker_has_ended_the_command_and_no_try_is_lost(far: Cli, server: Server) -> None:
    far.ok("config", "set", "heartbeat-interval", "0.5")
    far.ok("enqueue", "--max-retries", "0", "echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; echo x >> done")
    far.ok("worker", "start", "--count", "2")
    eventually(lambda: lines(far.cwd / "pid"))
    [pid] = map(int, lines(far.cwd / "pid"))
    server.stop("immediate")
    eventually(lambda: not lives(pid))
    (far.cwd / "go").touch()
    server.start()
    eventually(lambda: state(far, "1") == "completed")
    found = job(far, "1")
    assert (found["attempts"], found["runs"][0]["outcome"]) == (1, "released")
    assert found["runs"][0]["error_message"] == "its worker lost touch with the database"
    assert lines(far.cwd / "done") == ["x"]


def test_an_idle_worker_waits_for_the_server_says_so_and_goes_on(far: Cli, server: Server) -> None:
    far.ok("worker", "start")
    [pid] = [worker.pid for worker in workers(far)]
    server.stop()
    eventually(lambda: "Is the server running, and is the address right?" in logs(far))
    assert lives(pid)
    server.start()
    eventually(lambda: "the database can be used again" in logs(far))
    far.ok("enqueue", "--id", "after", "true")
    eventually(lambda: state(far, "after") == "completed")
    assert [worker.pid for worker in workers(far)] == [pid]


COMMANDS = [
    ["enqueue", "true"],
    ["run", "true"],
    ["status"],
    ["list"],
    ["show", "1"],
    ["logs", "-f", "1"],
    ["cancel", "1"],
    ["metrics"],
    ["worker", "start"],
    ["worker", "list"],
    ["worker", "health"],
    ["dlq", "list"],
    ["dlq", "retry", "--all"],
    ["dlq", "purge", "--yes"],
    ["config", "list"],
    ["config", "set", "priority", "3"],
]


def test_while_the_server_is_away_every_command_fails_with_one_clear_line(far: Cli, server: Server) -> None:
    far.ok("status")
    server.stop()
    for command in COMMANDS:
        done = far(*command, timeout=20)
        assert (done.returncode, done.stdout) == (1, ""), command
        assert done.stderr.startswith(f"Error: {far.env['QUEUECTL_DB']}: connection to server at"), command
        assert done.stderr.endswith("See: queuectl config get database\n") and done.stderr.count("\n") == 1, command
    assert far.ok("config", "get", "database").strip() == far.env["QUEUECTL_DB"]


def test_a_worker_that_died_while_the_server_was_away_is_noticed_when_it_is_back(far: Cli, server: Server) -> None:
    far.ok("enqueue", "while [ ! -e go ]; do sleep 0.05; done")
    far.ok("worker", "start", "--count", "2")
    eventually(lambda: state(far, "1") == "processing")
    first = job(far, "1")["worker"]
    [pid] = [worker.pid for worker in workers(far) if worker.name == first]
    server.stop()
    kill(pid)
    server.start()
    eventually(lambda: job(far, "1")["worker"] not in (None, first))
    (far.cwd / "go").touch()
    eventually(lambda: state(far, "1") == "completed")
    assert not marked(far)
