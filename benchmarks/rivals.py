"""The alternatives to queuectl, each used in its fastest way: how to start, feed, hold, inspect and end it.

Each has a directory of its own, and its processes carry a mark in their environment, by which all of them are killed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import psutil

from benchmarks.harness import PROCESS_SECONDS, queuectl

MARK = "QUEUECTL_BENCHMARK_PEER"
SLOTS = 2
TRUE = ["sh", "-c", "true"]  # a queue that takes the command line `true` starts the same processes
READY_SECONDS = 20.0


class Peer:
    name: ClassVar[str]
    how: ClassVar[str]  # how it is used, and why that is its best way
    needs: ClassVar[Sequence[str]]  # the commands that it needs
    most_waiting: ClassVar[int] = 10_000
    most_running: ClassVar[int] = 2_000  # what it would take longer for is multiplied
    keeps_jobs: ClassVar[bool] = True  # False if it only runs commands as it reads them, without a queue
    runs_many: ClassVar[bool] = True

    def __init__(self, root: str) -> None:
        os.makedirs(root, mode=0o700)
        self.root = root
        self.env = {**os.environ, MARK: root, "HOME": root, "TMPDIR": root}

    @classmethod
    def missing(cls) -> str | None:
        """The first missing requirement; None if the peer can be measured."""
        return next((name for name in cls.needs if shutil.which(name) is None), None)

    def open(self) -> None:
        """Make it ready to run jobs, SLOTS at a time."""

    def hold(self) -> None:
        """Let all jobs that are handed in from now on wait."""

    def hand_in(self, *command: str) -> list[str]:
        """The command that hands in one job."""
        raise NotImplementedError

    def hand_in_many(self, commands: Sequence[Sequence[str]]) -> list[str]:
        """The command that hands in many jobs; by default a shell script that hands them in one after another."""
        lines = (" ".join(map(quoted, self.hand_in(*command))) for command in commands)
        return ["sh", self.write("many.sh", "\n".join(lines))]

    def look(self) -> list[str]:
        """The command that shows the state of the queue."""
        raise NotImplementedError

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    # --- processes ---

    def do(self, argv: Sequence[str], seconds: float = PROCESS_SECONDS) -> None:
        """Run a command until it ends; it must succeed."""
        quiet = subprocess.DEVNULL
        subprocess.run(
            argv, env=self.env, cwd=self.root, check=True, timeout=seconds, stdin=quiet, stdout=quiet, stderr=quiet
        )

    def start(self, argv: Sequence[str]) -> None:
        """Start a command in the background; `close` kills it."""
        with open(os.path.join(self.root, "printed"), "ab") as printed:
            subprocess.Popen(
                argv,
                env=self.env,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )

    def until_it_answers(self, argv: Sequence[str]) -> None:
        give_up = time.monotonic() + READY_SECONDS
        while True:
            try:
                return self.do(argv)
            except subprocess.CalledProcessError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def processes(self) -> list[psutil.Process]:
        """The running processes that carry this peer's mark."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(MARK) == self.root:
                    found.append(process)
        return found

    def close(self) -> None:
        for _ in range(3):  # a process that was just being started may have been missed
            for process in self.processes():
                with suppress(psutil.Error):
                    process.kill()
        psutil.wait_procs(self.processes(), 5)
        shutil.rmtree(self.root, ignore_errors=True)


def quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def shell_line(command: Sequence[str]) -> str:
    """The command as a line, for programs that start a shell themselves."""
    return command[2] if list(command[:2]) == TRUE[:2] else " ".join(map(quoted, command))


class Queuectl(Peer):
    name = "queuectl"
    how = "two workers; many jobs by `enqueue --file`"
    needs = ()

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.env["QUEUECTL_HOME"] = os.path.join(root, "home")

    def open(self) -> None:
        self.do(queuectl("worker", "start", "--count", str(SLOTS)))

    def hold(self) -> None:
        self.do(queuectl("worker", "stop"))

    def hand_in(self, *command: str) -> list[str]:
        return queuectl("enqueue", shell_line(command))

    def hand_in_many(self, commands: Sequence[Sequence[str]]) -> list[str]:
        return queuectl("enqueue", "--file", self.write("jobs", "\n".join(map(shell_line, commands))))

    def look(self) -> list[str]:
        return queuectl("status")

    def close(self) -> None:
        with suppress(subprocess.SubprocessError):
            self.do(queuectl("worker", "stop", "--force"))
        super().close()


class TaskSpooler(Peer):
    name = "task-spooler"
    how = "tsp -S 2; each waiting job is a process, and its server can hold a thousand of them"
    needs = ("tsp",)
    most_waiting = 900

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.env.update(TS_SOCKET=os.path.join(root, "socket"), TS_MAXFINISHED="10")  # more would slow it down

    def open(self) -> None:
        self.do(["tsp", "-S", str(SLOTS)])

    def hold(self) -> None:
        self.do(["tsp", "-S", "1"])
        self.do(["tsp", "sleep", "3600"])

    def hand_in(self, *command: str) -> list[str]:
        return ["tsp", *command]

    def look(self) -> list[str]:
        return ["tsp"]

    def close(self) -> None:
        with suppress(subprocess.SubprocessError):
            self.do(["tsp", "-K"])
        super().close()


class Nq(Peer):
    name = "nq"
    how = "two directories, as each runs one job at a time; each waiting job is a process that locks those before it"
    needs = ("nq", "fq")
    most_waiting = 900

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.turn = 0
        self.lanes = [os.path.join(root, f"lane-{number}") for number in range(SLOTS)]
        for lane in self.lanes:
            os.mkdir(lane)

    def hold(self) -> None:
        for lane in self.lanes:
            self.do(["env", f"NQDIR={lane}", "nq", "sleep", "3600"])

    def hand_in(self, *command: str) -> list[str]:
        self.turn += 1
        return ["env", f"NQDIR={self.lanes[self.turn % SLOTS]}", "nq", *command]

    def hand_in_many(self, commands: Sequence[Sequence[str]]) -> list[str]:
        """One shell per directory, all at the same time."""
        loops = []
        for number, lane in enumerate(self.lanes):
            lines = [f"nq {' '.join(map(quoted, command))} >/dev/null" for command in commands[number::SLOTS]]
            loops.append(self.write(f"many-{number}.sh", "\n".join([f"export NQDIR={lane}", *lines])))
        return ["sh", "-c", " & ".join(f"sh {loop}" for loop in loops) + " & wait"]

    def look(self) -> list[str]:
        return ["sh", "-c", "; ".join(f"NQDIR={lane} nq -t" for lane in self.lanes) + "; true"]


class Pueue(Peer):
    name = "Pueue"
    how = "its daemon with parallel 2; it has no way to hand in many at once"
    needs = ("pueue", "pueued")
    most_running = 200  # it looks for work three times a second
    most_waiting = 2_000  # it writes all of them anew at each change: ten thousand would take it an hour to accept

    def __init__(self, root: str) -> None:
        super().__init__(root)
        for kind in ("CONFIG_HOME", "DATA_HOME", "RUNTIME_DIR", "CACHE_HOME"):
            self.env[f"XDG_{kind}"] = os.path.join(root, kind.lower())
            os.mkdir(self.env[f"XDG_{kind}"], 0o700)

    def open(self) -> None:
        self.start(["pueued"])
        self.until_it_answers(["pueue", "status"])
        self.do(["pueue", "parallel", str(SLOTS)])

    def hold(self) -> None:
        self.do(["pueue", "pause"])

    def hand_in(self, *command: str) -> list[str]:
        return ["pueue", "add", "--", shell_line(command)]

    def look(self) -> list[str]:
        return ["pueue", "status", "first 20"]  # without a limit it would print all jobs

    def close(self) -> None:
        with suppress(subprocess.SubprocessError):
            self.do(["pueue", "shutdown"])
        super().close()


HUEY = """import subprocess
from huey import SqliteHuey
huey = SqliteHuey(filename={path!r}, results=False)
@huey.task()
def run(line):
    subprocess.run(line, shell=True, check=True)
"""


class Huey(Peer):
    name = "Huey, SQLite"
    how = "two threads, which start processes as well as processes do; asking for work every 10 ms; no results kept"
    needs = ()

    @classmethod
    def missing(cls) -> str | None:
        return None if importlib.util.find_spec("huey") else "the package huey"

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.write("app.py", HUEY.format(path=os.path.join(root, "huey.db")))

    def open(self) -> None:
        consumer = "from huey.bin.huey_consumer import consumer_main; consumer_main()"
        workers = ["-w", str(SLOTS), "-k", "thread", "-d", "0.01", "-m", "0.01", "-b", "1", "-q", "-n"]
        self.start([sys.executable, "-c", consumer, "app.huey", *workers])

    def hold(self) -> None:
        for process in self.processes():
            process.kill()
        psutil.wait_procs(self.processes(), 5)

    def hand_in(self, *command: str) -> list[str]:
        return [sys.executable, "-c", "import sys, app; app.run(sys.argv[1])", shell_line(command)]

    def hand_in_many(self, commands: Sequence[Sequence[str]]) -> list[str]:
        lines = self.write("jobs", "\n".join(map(shell_line, commands)))
        return [sys.executable, "-c", "import sys, app\nfor line in open(sys.argv[1]): app.run(line)", lines]

    def look(self) -> list[str]:
        return [sys.executable, "-c", "import app; print(len(app.huey))"]


class At(Peer):
    name = "at"
    how = "`at now`: it has no slots, so nothing but one job at a time is compared; it waits as a job for tomorrow"
    needs = ("at", "atd", "atq", "atrm")
    most_waiting = 2_000
    runs_many = False
    SPOOL = "/var/spool/cron/atjobs"

    @classmethod
    def missing(cls) -> str | None:
        found = super().missing()
        if found is None and getattr(os, "geteuid", int)() != 0:
            return "root, to run atd"
        if found is None and any(name.startswith(("a", "=")) for name in os.listdir(cls.SPOOL)):
            return "an empty spool: other people's jobs are in it"
        return found

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.when = "now"

    def open(self) -> None:
        self.start(["atd", "-f"])
        time.sleep(0.5)

    def hold(self) -> None:
        self.when = "tomorrow"

    def hand_in(self, *command: str) -> list[str]:
        return ["sh", "-c", f"echo {quoted(shell_line(command))} | at {self.when}"]

    def look(self) -> list[str]:
        return ["atq"]

    def close(self) -> None:
        with suppress(subprocess.SubprocessError):
            self.do(["sh", "-c", "atq | cut -f1 | xargs -r atrm"])  # all jobs are ours, as the spool was empty
        super().close()


class Sem(Peer):
    name = "sem"
    how = "GNU parallel's semaphore: handing in waits for a place, so there is no queue to hold"
    needs = ("sem",)
    keeps_jobs = False
    runs_many = False

    def hand_in(self, *command: str) -> list[str]:
        return ["sem", "-j", str(SLOTS), shell_line(command)]


class Parallel(Peer):
    name = "GNU parallel"
    how = "-j2 from stdin: it runs what it reads"
    needs = ("parallel",)
    keeps_jobs = False

    def hand_in_many(self, commands: Sequence[Sequence[str]]) -> list[str]:
        lines = self.write("jobs", "\n".join(map(shell_line, commands)))
        return ["sh", "-c", f"parallel -j{SLOTS} <{lines}"]


class Xargs(Peer):
    name = "xargs"
    how = "-P2 -n1: the limit, as it keeps nothing"
    needs = ("xargs",)
    keeps_jobs = False

    def hand_in_many(self, commands: Sequence[Sequence[str]]) -> list[str]:
        lines = self.write("jobs", "\n".join(quoted(shell_line(command)) for command in commands))
        return ["sh", "-c", f"xargs -P{SLOTS} -n1 sh -c <{lines}"]


PEERS: list[type[Peer]] = [Queuectl, Xargs, TaskSpooler, Nq, Pueue, Huey, At, Sem, Parallel]
