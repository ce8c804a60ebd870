"""The directory in which a queue keeps its files; only its owner may read it."""

from __future__ import annotations

import os
from contextlib import suppress

from queuectl.errors import QueueError
from queuectl.platforms import locked


class Home:
    KEPT = r"job-\d+-\d+\.(?:stdout|stderr)"  # the names that `kept` gives

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
        """All spool files of the worker that exist, including those that were renamed to set them aside."""
        from glob import escape, glob

        return [path for usual in self.spool(worker) for path in glob(f"{escape(usual)}*")]

    def kept(self, seq: int, lease: int) -> tuple[str, str]:
        """The files that keep the whole output of a run when it is too long for the job's row.

        They are named by job number, because ids may differ by case only, or be reserved names on Windows.
        """
        path = f"{self._job}{seq}-{lease}"
        return f"{path}.stdout", f"{path}.stderr"

    def machine(self) -> str:
        """An id that distinguishes this machine from the others that use the same queue; made on first use.

        The operating system's own machine id is not used: cloned machines have the same one.
        """
        path = os.path.join(self.root, "machine")
        found = _text_of(path)
        if not found:
            with locked(path + ".lock"):  # two processes that do this at once must get the same id
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
    """The home in this directory, or in QUEUECTL_HOME, or in ~/.queuectl; the directory is made on first use."""
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
    """The home, without making its directory."""
    return Home(os.path.abspath(wanted or os.environ.get("QUEUECTL_HOME") or usual_home()))
