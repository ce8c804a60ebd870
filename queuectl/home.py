"""Where a queue keeps its files: one directory, for its owner only."""

from __future__ import annotations

import os
from contextlib import suppress

from queuectl.errors import QueueError
from queuectl.platforms import locked


class Home:
    KEPT = r"job-\d+-\d+\.(?:stdout|stderr)"  # what `kept` calls a file

    def __init__(self, root: str) -> None:
        self.root = root
        self.database = os.path.join(root, "queuectl.db")
        self.config_json = os.path.join(root, "config.json")
        self.workers_json = os.path.join(root, "workers.json")
        self.logs = os.path.join(root, "logs")
        self._job = os.path.join(self.logs, "job-")

    def worker_log(self, worker: str) -> str:
        return os.path.join(self.logs, f"worker-{worker}.log")

    def spool(self, worker: str) -> tuple[str, str]:
        """The pair of files that a worker's current run writes its stdout and stderr to."""
        path = os.path.join(self.logs, f"worker-{worker}")
        return f"{path}.stdout", f"{path}.stderr"

    def spools(self, worker: str) -> list[str]:
        """All files that there are for them, those that were put aside included."""
        from glob import escape, glob

        return [path for usual in self.spool(worker) for path in glob(f"{escape(usual)}*")]

    def kept(self, seq: int, lease: int) -> tuple[str, str]:
        """Where the whole output of a run stays when it is too long for the job's row.

        Named by number: ids that differ by case only, or are reserved names on Windows, cannot clash.
        """
        path = f"{self._job}{seq}-{lease}"
        return f"{path}.stdout", f"{path}.stderr"

    def machine(self) -> str:
        """Tells this machine from the others that use the same queue; made on first use.

        What the system calls itself will not do: machines that were cloned have the same name for themselves.
        """
        path = os.path.join(self.root, "machine")
        found = _text_of(path)
        if not found:
            with locked(path + ".lock"):  # two who begin at once must agree
                found = _text_of(path)
                if not found:
                    found = os.urandom(8).hex()
                    with open(path, "w", encoding="ascii") as file:
                        file.write(found)
        return found


def _text_of(path: str) -> str:
    with suppress(FileNotFoundError), open(path, encoding="ascii") as file:
        return file.read()
    return ""


def usual_home() -> str:
    return os.path.join(os.path.expanduser("~"), ".queuectl")


def open_home(wanted: str | None = None) -> Home:
    """This directory, or the one that QUEUECTL_HOME names, or ~/.queuectl; made on first use."""
    home = find_home(wanted)
    if not os.path.isdir(home.logs):
        try:
            os.makedirs(home.root, mode=0o700, exist_ok=True)
            os.makedirs(home.logs, mode=0o700, exist_ok=True)
        except OSError as error:
            raise QueueError(
                f"Cannot make {home.root}: {error.strerror}. Set QUEUECTL_HOME to a directory of yours"
            ) from error
    return home


def find_home(wanted: str | None = None) -> Home:
    """Where it is or would be."""
    return Home(os.path.abspath(wanted or os.environ.get("QUEUECTL_HOME") or usual_home()))
