"""What the faults are done to: a queue of its own, the machines that share it, and every process of theirs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from machines import Machine, PretendedMachine
from postgres import Server
from pretend import pretend, set_clock
from processes import open_queue

from queuectl.platforms.posix import stat_of
from queuectl.storage import Storage

HEARTBEAT_SECONDS = 1.5  # on a server others take over after three
PATIENCE_SECONDS = 5.0
DISK_BYTES = 200_000_000
UNFORESEEN = ("Traceback", "Something unforeseen")  # what a command says that has met an error of its own
SCRIPT = Path(__file__).with_name("job.sh")


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    command: str
    mark: str  # of the run that it belongs to, if any

    @property
    def is_worker(self) -> bool:
        """A worker or its guardian, which looks the same."""
        return not self.mark and "worker.py" in self.command


class Worker(NamedTuple):
    is_idle: bool
    pid: int
    guardians: list[int]


class Stage:
    def __init__(self, root: Path, server: Server | None) -> None:
        self.root = root
        self.server = server
        self.work = root / "work"  # never on the disk that is filled: the jobs write down here what they do
        for name in ("locks", "tried"):
            (self.work / name).mkdir(parents=True)
        (self.work / "job.sh").write_bytes(SCRIPT.read_bytes())
        self.findings: list[str] = []
        self.is_mounted = False
        self.ahead_seconds = self.most_ahead = 0.0
        self.alone = {name: threading.Lock() for name in ("disk", "server", "clock", "guardian")}
        if server is None:
            alpha = Machine("alpha", root, "")
            self.machines = [alpha]
            self._mount(alpha.home)
            alpha.env.update(pretend(root / "alpha", may_be_full=not self.is_mounted))
        else:
            url = server.url(server.new_database())
            self.machines = [PretendedMachine(name, root, url) for name in ("alpha", "beta")]
        for machine in self.machines:
            machine.cwd = self.work
        first = self.machines[0]
        first.ok("config", "set", "heartbeat-interval", str(HEARTBEAT_SECONDS))
        first.ok("config", "set", "max-output", "10000")
        first.ok("config", "set", "stop-grace", "5")
        first.ok("queue", "add", "slow", "--limit", "2")
        with self.storage() as storage:
            self.mark = f"{storage.queue_id()}."

    # --- the command line ---

    def call(
        self, *arguments: str, machine: Machine | None = None, input: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """What a user would do; it may fail, but neither hang nor fail in a way that nobody has thought of."""
        try:
            done = (machine or self.machines[0])(*arguments, input=input, timeout=120)
        except subprocess.TimeoutExpired:
            self.findings.append(f"queuectl {' '.join(arguments)} did not end within 120 s")
            return subprocess.CompletedProcess(arguments, -1, "", "")
        self.judge(f"queuectl {' '.join(arguments)}", done.stderr)
        return done

    def judge(self, who: str, complaint: str) -> None:
        if any(sign in complaint for sign in UNFORESEEN):
            self.findings.append(f"{who}: {complaint}")

    def thread(self, who: str, act: Callable[[], None]) -> threading.Thread:
        """A thread, of which it is noticed if it fails."""

        def watched() -> None:
            try:
                act()
            except Exception as error:
                self.findings.append(f"{who} has failed: {error!r}")

        return threading.Thread(target=watched, daemon=True)

    def storage(self) -> Opened:
        return Opened(open_queue(self.machines[0]))

    # --- processes ---

    def processes(self) -> Iterator[Process]:
        """Every living process of the workers and jobs of this queue."""
        homes = {str(machine.home) for machine in self.machines}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, ValueError):
                given = Path(f"/proc/{name}/environ").read_bytes().decode("utf-8", "replace").split("\0")
                environment = dict(part.split("=", 1) for part in given if "=" in part)
                mark = environment.get("QUEUECTL_RUN", "")
                mark = mark if mark.startswith(self.mark) else ""
                stat = stat_of(int(name))
                if not stat or stat[0] in "ZX" or not (mark or environment.get("QUEUECTL_HOME") in homes):
                    continue
                command = Path(f"/proc/{name}/cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
                if mark or "queuectl" in command:
                    yield Process(int(name), int(stat[1]), int(stat[3]), command, mark)

    def workers(self) -> list[Worker]:
        """Each with its guardian, the busy ones first; both have the same command, with the worker's name in it."""
        by_command: dict[str, list[Process]] = {}
        processes = list(self.processes())
        for process in processes:
            if process.is_worker:
                by_command.setdefault(process.command, []).append(process)
        busy = {process.parent for process in processes if process.mark}
        found = []
        for family in by_command.values():
            pids = {process.pid for process in family}
            eldest = [process.pid for process in family if process.parent not in pids]
            found.append(Worker(eldest[0] not in busy, eldest[0], sorted(pids - {eldest[0]})))
        return sorted(found)

    def is_guarded(self, pid: int) -> bool:
        return any(worker.guardians for worker in self.workers() if worker.pid == pid)

    def some_workers(self, random: Random, most: int = 1) -> list[Worker]:
        """Those that have a job in hand, if there are any before long; else others."""
        self.wait_until(lambda: any(not worker.is_idle for worker in self.workers()))
        workers = self.workers()
        busy = [worker for worker in workers if not worker.is_idle] or workers
        return random.sample(busy, min(most, len(busy)))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Or until it has taken too long."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not condition() and time.monotonic() < give_up:
            time.sleep(0.05)

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    # --- the clock and the disk ---

    def set_clock(self, ahead_seconds: float) -> None:
        self.ahead_seconds = ahead_seconds
        self.most_ahead = max(self.most_ahead, ahead_seconds)
        for machine in self.machines:
            set_clock(self.root / machine.name, ahead_seconds)

    def _mount(self, home: Path) -> None:
        """A disk of its own, small enough to be filled, where it may be made."""
        home.mkdir(mode=0o700)
        if os.geteuid() == 0:
            tmpfs = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(home)]
            self.is_mounted = subprocess.run(tmpfs, capture_output=True).returncode == 0

    def remove(self, keep: bool) -> None:
        """End everything that is left; the files stay where somebody wants to look at them."""
        for process in list(self.processes()):
            self.kill(process.pid, signal.SIGCONT)
            self.kill(process.pid)
        for machine in self.machines:
            if isinstance(machine, PretendedMachine):
                machine.wire.close()
        if keep:
            shutil.copytree(self.machines[0].home, self.root / "kept")
        if self.is_mounted:
            subprocess.run(["umount", str(self.machines[0].home)], check=True)
        if not keep:
            shutil.rmtree(self.root)


class Opened:
    """A connection of our own, for a while."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __enter__(self) -> Storage:
        return self._storage

    def __exit__(self, *error: object) -> None:
        self._storage.close()
