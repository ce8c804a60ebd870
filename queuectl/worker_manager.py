"""Start, stop and list the workers of this machine. It spawns worker.py and never imports it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from enum import Enum

from queuectl import platforms
from queuectl.database import VARIABLE, database_url
from queuectl.errors import QueueError, QueueMoved, StorageError
from queuectl.files import remove
from queuectl.home import Home
from queuectl.job import RUN_VARIABLES, WORKER_LOST, WORKER_STOPPED, Job, State
from queuectl.liveness import Condition, Standing, available, conditions, is_here
from queuectl.platforms import runs
from queuectl.recovery import recover
from queuectl.storage import Storage, Worker
from queuectl.workers_file import Entry, entry, workers_file

START_SECONDS = 20.0  # long enough for a cold start on a slow disk
POLL_SECONDS = 0.02
HARD_SECONDS = 5.0  # how long a worker has after the grace time to end its job and itself
LOGS_KEPT = 50
# Windows itself sends Ctrl+C to every process of a console.
PASSED_ON = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if os.name != "nt"]
MAY_END = (
    "Warning: closing this console may end what was started here: it lets no process out of its Job Object. "
    "To be safe, start workers from another console."
)
WORKER_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")


# Called with each message of the manager; the CLI prints it.
Tell = Callable[[str], None]


class End(str, Enum):
    """What happened to a worker that was told to stop."""

    STOPPED = "has stopped"
    KILLED = "was killed"
    NONE = "could not be killed, and still runs"

    def __str__(self) -> str:
        return self.value


class StartFailed(QueueError):
    """A started worker did not register in time."""


class WorkerManager:
    def __init__(self, home: Home, storage: Storage, tell: Tell = lambda line: None) -> None:
        self.home = home
        self.storage = storage
        self.tell = tell

    # --- looking ---

    def standings(self) -> list[Standing]:
        """Every worker that the queue knows; nothing is changed, even if one is lost."""
        found = []
        for worker, condition in conditions(self.storage):
            held = self.storage.held_by(worker.name)
            found.append(Standing(worker, condition, held[0] if held else None, memory_bytes(worker)))
        return found

    def must_start_one(self, queue: str) -> bool:
        """Whether no worker would run a job added to this queue now; inside a job, busy workers do not count."""
        found = [worker for worker in available(self.storage) if worker.serves(queue)]
        if "QUEUECTL_JOB_ID" in os.environ:
            return all(self.storage.held_by(worker.name) for worker in found)
        return not found

    def replace_lost(self, queue: str) -> bool:
        """Whether a worker will take the jobs of this queue; if all workers that did have died, one is started.

        Workers that were stopped are not replaced: the user stopped them on purpose.
        """
        if any(worker.serves(queue) for worker in available(self.storage)):
            return True
        lost = [worker for worker, found in conditions(self.storage) if found is not Condition.ALIVE]
        if not any(worker.serves(queue) and worker.stop_grace is None for worker in lost):
            return False
        self.start(1)
        return True

    # --- starting ---

    def start(self, count: int, queues: Sequence[str] = ()) -> list[Worker]:
        """Start workers, for these queues or for all, and return when they are registered."""
        self.storage.must_be_open()
        for worker, job, verdict in recover(self.storage, self.home):
            self.tell(f"Worker {worker} was lost; its job {job.id} is {verdict.state}.")
        self._prune_logs()
        begun: dict[str, tuple[subprocess.Popen[bytes], bool]] = {}
        up: list[Worker] = []
        failure: QueueError | OSError | None = None
        try:
            for name in (f"w-{os.urandom(3).hex()}" for _ in range(count)):
                begun[name] = self._spawn(name, queues)
        except OSError as error:
            failure = error
        for name, (process, _) in begun.items():
            try:
                up.append(self._wait_until_up(name, process))
            except QueueError as error:
                failure = failure or error
        self._enter(up)  # the workers that are up stay, even if another failed to start
        if failure is not None:
            if up:
                self.tell(f"{len(up)} of {count} workers are up.")
            raise failure
        if not all(outlives for _, outlives in begun.values()):
            self.tell(MAY_END)
        return up

    def run_in_foreground(self, queues: Sequence[str] = ()) -> int:
        """Run one worker in this console until it ends.

        On POSIX the worker gets a session of its own, and this process passes the console's signals on to it.
        Otherwise the console would also send them to a command that the worker is just starting.
        """
        name = f"w-{os.urandom(3).hex()}"
        heard: list[int] = []
        pass_on: Callable[[int], None] = heard.append
        for number in PASSED_ON:
            signal.signal(number, lambda number, frame: pass_on(number))
        process = subprocess.Popen(
            [*worker_argv(name, queues), "--foreground"], env=worker_environment(self.home), start_new_session=True
        )
        pass_on = process.send_signal
        for heard_early in heard:
            pass_on(heard_early)
        is_entered = False
        while True:
            try:
                if not is_entered and process.poll() is None:
                    self._enter([self._wait_until_up(name, process)])
                    is_entered = True
                return process.wait()
            except KeyboardInterrupt:
                continue  # on Windows, where the worker gets the Ctrl+C too

    def _enter(self, workers: list[Worker]) -> None:
        """Add the workers to workers.json, and remove the entries of workers that are gone."""
        with self._entries() as entries:
            known = {one.name for one in workers}
            entries[:] = [one for one in entries if one.is_alive and one.name not in known] + [*map(entry, workers)]

    def _spawn(self, name: str, queues: Sequence[str]) -> tuple[subprocess.Popen[bytes], bool]:
        argv, log = worker_argv(name, queues), self.home.worker_log(name)
        return platforms.spawn_detached(argv, worker_environment(self.home), log)

    def _wait_until_up(self, name: str, process: subprocess.Popen[bytes]) -> Worker:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for worker in self.storage.workers():
                if worker.name == name:
                    return worker
            if process.poll() is not None:
                break
            time.sleep(POLL_SECONDS)
        raise StartFailed(
            f"The worker did not come up: {self._last_words(name)}. Its log: {self.home.worker_log(name)}"
        )

    def _last_words(self, name: str) -> str:
        lines: list[str] = []
        with suppress(OSError), open(self.home.worker_log(name), encoding="utf-8", errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def _prune_logs(self) -> None:
        """Remove the logs of workers that are gone, except the newest."""
        known = {worker.name for worker in self.storage.workers()}
        logs = []
        for found in os.scandir(self.home.logs):
            name, _, ending = found.name.partition(".")
            if name.startswith("worker-") and ending.startswith("log") and name.removeprefix("worker-") not in known:
                with suppress(FileNotFoundError):
                    logs.append((found.stat().st_mtime, found.path))
        for _, path in sorted(logs, reverse=True)[LOGS_KEPT:]:
            remove(path)

    # --- stopping ---

    def stop(self, grace_seconds: float) -> list[tuple[str, End]]:
        """Stop this machine's workers: each finishes its job, or is killed together with it after the grace time."""
        targets = self._stoppable()
        for target in targets:
            self._ask(target, grace_seconds)
        held = self._held(targets)
        ends = self._see_them_end(targets, grace_seconds)
        with suppress(StorageError):
            for job in held:
                self._tell_if_ended(job)
        return ends

    def _tell_if_ended(self, held: Job) -> None:
        """Tell the state of a job that was not allowed to finish."""
        job = self.storage.glance_at(held.seq)
        reasons = [run.error_message or "" for run in self.storage.runs_of(held) if run.lease == held.lease]
        if job is not None and any(reason.startswith((WORKER_STOPPED, WORKER_LOST)) for reason in reasons):
            self.tell(f"Job {job.id} was ended and is {job.state}{' again' * (job.state is State.PENDING)}.")

    def _held(self, targets: list[Entry]) -> list[Job]:
        """The jobs that these workers run; none if the database cannot be read: the workers are stopped even so."""
        with suppress(StorageError):
            return [job for target in targets for job in self.storage.held_by(target.name)]
        return []

    def stop_elsewhere(self, grace_seconds: float) -> list[tuple[Worker, bool]]:
        """Stop the other machines' workers through the database; return each with whether it stopped in time."""
        targets = [
            worker for worker, found in conditions(self.storage) if not is_here(worker) and found is Condition.ALIVE
        ]
        for worker in targets:
            self.storage.ask_to_stop(worker.name, grace_seconds)
        deadline = time.monotonic() + grace_seconds + HARD_SECONDS
        left = targets
        told = time.monotonic()
        while left and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            known = {worker.name for worker in self.storage.workers()}
            left = [worker for worker in left if worker.name in known]
            if left and time.monotonic() - told >= 1 and told + 1 < deadline - HARD_SECONDS:
                told = time.monotonic()
                names = ", ".join(f"{worker.name} on {worker.host}" for worker in left)
                self.tell(f"Waiting for {names}; {max(0, deadline - HARD_SECONDS - told):.0f} s left")
        return [(worker, worker not in left) for worker in targets]

    def _see_them_end(self, targets: list[Entry], grace_seconds: float) -> list[tuple[str, End]]:
        grace_ends = time.monotonic() + grace_seconds
        slow = self._left(targets, grace_ends, lambda left, seconds: self.tell(self._waiting_for(left, seconds)))
        if slow and grace_seconds:
            self.tell("The grace time is over: jobs that still run are ended.")
        to_kill = self._left(slow, grace_ends + HARD_SECONDS)
        for target in to_kill:
            runs.hard_kill(target.pid, target.start_time)
        there = self._left(to_kill, time.monotonic() + HARD_SECONDS)
        with suppress(StorageError, QueueMoved, OSError):  # on a full disk this may fail; the workers have stopped
            self._enter([])
            recover(self.storage, self.home)
        ends = {**dict.fromkeys(to_kill, End.KILLED), **dict.fromkeys(there, End.NONE)}
        return [(target.name, ends.get(target, End.STOPPED)) for target in targets]

    def _left(
        self,
        targets: list[Entry],
        deadline: float,
        every_second: Callable[[list[Entry], float], None] = lambda left, seconds: None,
    ) -> list[Entry]:
        """Wait until all these workers have ended; return those that are still alive at the deadline."""
        left, told = [target for target in targets if target.is_alive], time.monotonic()
        while left and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            left = [target for target in left if target.is_alive]
            if left and time.monotonic() - told >= 1:
                told = time.monotonic()
                every_second(left, deadline - told)
        return left

    def _ask(self, target: Entry, grace_seconds: float) -> None:
        try:
            self.storage.ask_to_stop(target.name, grace_seconds)
        except (StorageError, QueueMoved) as error:
            self.tell(f"{error}. Stopping {target.name} by a signal instead.")
            runs.ask_to_end(target.pid, target.start_time)

    def _stoppable(self) -> list[Entry]:
        """This machine's live workers, from the database and from workers.json: either may have been lost."""
        with self._entries() as entries:
            found = {known.name: known for known in entries if known.is_alive}
        for worker in self.storage.workers():
            if entry(worker).is_alive:
                found[worker.name] = entry(worker)
        return list(found.values())

    def _waiting_for(self, left: list[Entry], seconds: float) -> str:
        held = [job.id for job in self._held(left)]
        jobs = f" to finish job {', '.join(held)}" if held else ""
        return f"Waiting for {len(left)} worker{'s' * (len(left) > 1)}{jobs}; {max(0, seconds):.0f} s left"

    # --- workers.json ---

    def _entries(self) -> AbstractContextManager[list[Entry]]:
        return workers_file(self.home, self._rebuild)

    def _rebuild(self, aside: str) -> list[Entry]:
        self.tell(f"Warning: workers.json was damaged. It is now {aside}, and a new one was made from the database.")
        return [known for known in map(entry, self.storage.workers()) if known.is_alive]


def memory_bytes(worker: Worker) -> int | None:
    if not entry(worker).is_alive:
        return None
    import psutil

    try:
        return int(psutil.Process(worker.pid).memory_info().rss)
    except psutil.Error:
        return None


def worker_environment(home: Home) -> dict[str, str]:
    """This process's environment without the variables of a run: the worker outlives it, and is not part of it."""
    own = {name: value for name, value in os.environ.items() if name not in RUN_VARIABLES}
    if own.get(VARIABLE):
        own[VARIABLE] = database_url(home)  # made absolute: the worker runs in another directory
    return {**own, **platforms.own_interpreter()[1], "QUEUECTL_HOME": home.root}


def worker_argv(name: str, queues: Sequence[str]) -> list[str]:
    served = [part for queue in queues for part in ("--queue", queue)]
    return [platforms.own_interpreter()[0], "-X", "utf8", WORKER_FILE, "--name", name, *served]
