"""`db backup`: a copy of a live queue is whole, and a queue of its own."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from conftest import Cli, eventually
from test_order import new_job
from whole_queue import DONE, FAILED, fill

from queuectl import checking
from queuectl.backup import back_up
from queuectl.home import Home
from queuectl.storage import QueueRow, Storage, Worker, open_storage


def test_a_copy_of_a_live_queue_is_whole(home: Home, opened: Callable[[str], Storage], tmp_path: Path) -> None:
    url = f"sqlite:///{home.database}"
    source = opened(url)
    fill(source)
    source.add([new_job(command="x" * 2000) for _ in range(3000)])
    copied, written = threading.Event(), [0, 0]

    def write(number: int) -> None:
        storage = open_storage(home, url)
        storage.add_worker(Worker(f"w{number}", 1, "1", "boot", "space", "host", 1, 1, 0, None))
        while not copied.is_set():
            storage.add([new_job()])
            job = storage.claim(f"w{number}")
            assert job
            storage.finish(job, DONE)
            held = storage.claim(f"w{number}")
            assert held
            storage.finish(held, FAILED)
            written[number] += 1
        storage.claim(f"w{number}")
        storage.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    meanwhile: list[int] = []
    try:
        eventually(lambda: min(written) > 5)
        for number in range(5):
            back_up(home, source, str(tmp_path / f"{number}.db"), False, lambda *_: meanwhile.append(sum(written)))
    finally:
        copied.set()
        for writer in writers:
            writer.join()
    assert meanwhile[-1] > meanwhile[0] > 0, "they went on writing meanwhile"
    for number in range(5):
        path = tmp_path / f"{number}.db"
        copy = opened(f"sqlite:///{path}")
        found = checking.check(copy)
        assert found.problems == [] and found.jobs > 3000
        assert copy.queue("gpu") == QueueRow("gpu", 0, 2, "10/m")
        assert copy.workers() == [] and copy.totals()["processing"] == 0 and copy.queue_id() != source.queue_id()
        assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.new*"))


def test_a_copy_is_a_queue_whose_running_jobs_are_pending_with_no_try_lost(cli: Cli, tmp_path: Path) -> None:
    until_told = "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(0.05)"
    cli.ok("enqueue", "--id", "running", "--", sys.executable, "-c", until_told)
    cli.ok("enqueue", "--id", "waiting", "true")
    cli.ok("worker", "start")
    eventually(lambda: (cli.cwd / "begun").exists())
    copy = cli.cwd / "copy.db"
    assert "copied to copy.db" in cli.ok("db", "backup", "copy.db")
    use = {"QUEUECTL_DB": f"sqlite:///{copy}"}
    found = json.loads(cli.ok("show", "running", "--json", **use))
    assert (found["state"], found["attempts"]) == ("pending", 0)
    assert json.loads(cli.ok("worker", "list", "--json", **use)) == []
    assert cli.ok("db", "check", **use) == "All is well: 2 jobs and 1 runs.\n"
    assert json.loads(cli.ok("show", "running", "--json"))["state"] == "processing", "the queue itself is as it was"
    (cli.cwd / "go").touch()


def test_a_file_that_is_there_is_not_overwritten_unless_asked_for(cli: Cli) -> None:
    cli.ok("enqueue", "true")
    copy = cli.cwd / "copy.db"
    copy.write_text("precious")
    (cli.cwd / "copy.db-wal").write_text("of another")
    refused = cli("db", "backup", "copy.db")
    assert refused.returncode == 1 and "--overwrite" in refused.stderr and copy.read_text() == "precious"
    cli.ok("db", "backup", "--overwrite", "copy.db")
    cli.ok("db", "check", QUEUECTL_DB=f"sqlite:///{copy}")
    for path in (str(cli.home / "queuectl.db"), str(cli.cwd), "missing/copy.db"):
        refused = cli("db", "backup", "--overwrite", path)
        assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    cli.ok("db", "check")
    assert sorted(path.name for path in cli.cwd.iterdir()) == ["copy.db", "copy.db-shm", "copy.db-wal"]


def test_a_server_is_copied_by_its_own_tool(cli: Cli, postgres: str) -> None:
    refused = cli("db", "backup", "copy.db", QUEUECTL_DB=postgres)
    assert refused.returncode == 1 and "pg_dump --schema=queuectl" in refused.stderr
    assert list(cli.cwd.iterdir()) == []
