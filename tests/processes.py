"""Looking at real processes: the workers of a home, their guardians, and what still carries a run's mark."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from conftest import Cli

from queuectl.home import Home
from queuectl.platforms import start_time
from queuectl.storage.base import Storage
from queuectl.storage.rows import Worker


def open_queue(cli: Cli) -> Storage:
    from queuectl.storage import open_storage

    return open_storage(Home(str(cli.home)), cli.env.get("QUEUECTL_DB") or f"sqlite:///{cli.home / 'queuectl.db'}")


def workers(cli: Cli) -> list[Worker]:
    storage = open_queue(cli)
    try:
        return storage.workers()
    finally:
        storage.close()


def job(cli: Cli, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli.ok("show", job_id, "--json"))
    return found


def state(cli: Cli, job_id: str) -> str:
    """Read directly: asking the CLI twenty times a second would slow down what is watched."""
    storage = open_queue(cli)
    try:
        return storage.glance(job_id).state.value
    finally:
        storage.close()


def counts(cli: Cli) -> dict[str, int]:
    storage = open_queue(cli)
    try:
        return storage.totals()
    finally:
        storage.close()


def guardian(worker_pid: int) -> psutil.Process:
    """The worker's child that runs the same program as the worker itself."""
    command = psutil.Process(worker_pid).cmdline()
    children = psutil.Process(worker_pid).children()
    [found] = [child for child in children if lives(child.pid) and child.cmdline() == command]
    return found


def marks(cli: Cli) -> dict[int, str]:
    """By pid, what each living process of a run of this queue carries as QUEUECTL_RUN."""
    storage = open_queue(cli)
    prefix = f"{storage.queue_id()}."
    storage.close()
    found = {}
    for process in psutil.process_iter():
        try:
            mark = process.environ().get("QUEUECTL_RUN", "")
            if mark.startswith(prefix) and lives(process.pid):
                found[process.pid] = mark
        except (psutil.Error, OSError):  # under Wine also this one
            continue
    return found


def marked(cli: Cli) -> list[int]:
    """Every process that belongs to a run of this queue."""
    return list(marks(cli))


def lives(pid: int) -> bool:
    return start_time(pid) is not None


def kill(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).kill()


def read_pid(path: Path) -> int:
    """The pid that a command wrote, or 0 while it has not."""
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else 0
