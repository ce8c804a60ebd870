"""Linux: who is who by /proc, waiting by inotify, detached workers, locks.

What only a worker needs is in posix_runs.py, or imported where it is used: every `enqueue` is spared it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

assert sys.platform != "win32"

CODE_PAGE: str | None = None  # programs print UTF-8
IN_MODIFY = 0x2


# --- who is who ---


@lru_cache
def boot_id() -> str:
    """Different after each start of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


@lru_cache
def pid_space() -> str:
    """Pids mean something only within this."""
    return os.readlink("/proc/self/ns/pid")


def start_time(pid: int) -> str | None:
    """When the process started, by a clock that nobody can set; None if there is none, or only its zombie."""
    stat = stat_of(pid)
    return stat[19] if stat and stat[0] not in "ZX" else None


def began_before_logon(started: str) -> bool:
    """Whether a process that is gone was ended by its user's signing out; here workers outlive that."""
    return False


def stat_of(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third, the state, on: the second may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None  # and no other error: who cannot look must not take anybody for dead


# --- waiting for a change ---


class Watcher:
    """Sleeps until a file in a directory is written to, by inotify; it only says when to look, never what there is."""

    def __init__(self, directory: str) -> None:
        import ctypes
        import select

        self._libc = ctypes.CDLL(None)
        self._directory = os.fsencode(directory)
        self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._watch = -1
        if self._file >= 0:
            self._poll.register(self._file, select.POLLIN)

    def wait(self, seconds: float, poll_interval: float) -> bool:
        """So long at most; where nothing can be watched, no longer than the poll interval. True if it was woken.

        The first wait, and the first after a rest, only begins to watch: the caller looks again before it sleeps.
        """
        if self._watch < 0:
            self._watch = self._libc.inotify_add_watch(self._file, self._directory, IN_MODIFY)
            if self._watch < 0:  # the user's watches are used up
                time.sleep(min(seconds, poll_interval))
        elif self._poll.poll(seconds * 1000):
            with contextlib.suppress(BlockingIOError):
                while os.read(self._file, 65536):
                    pass
            return True
        return False

    def rest(self) -> None:
        """Watch nothing while nobody waits: every write to the database would pay for it."""
        if self._watch >= 0:
            self._libc.inotify_rm_watch(self._file, self._watch)
            self._watch = -1


def is_console(stream: IO[str]) -> bool:
    """Whether a person may be at the other end."""
    return stream.isatty()


def understands_escapes() -> bool:
    """Whether the terminal can be drawn on with escape codes."""
    return os.environ.get("TERM") != "dumb"


def create_private(path: str) -> int:
    """Make a file that only its owner may read, and open it to be written to."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)


# --- detached workers and the lock ---


def default_shell() -> str:
    return "/bin/sh"


def is_builtin(program: str) -> bool:
    """Whether no program of this name is started, because the shell does it itself; here there is one for each."""
    return False


def spawn_detached(argv: Sequence[str], env: Mapping[str, str], log: str) -> tuple[subprocess.Popen[bytes], bool]:
    """Start a process that outlives this one and its terminal; what it prints goes to the log.

    With it, whether that is certain, as it always is here.
    """
    import subprocess

    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        process = subprocess.Popen(
            argv, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    return process, True


def own_interpreter() -> tuple[str, dict[str, str]]:
    """What to start to have another process with this interpreter, and what to put in its environment."""
    return sys.executable, {}


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Alone among the processes that lock this file."""
    import fcntl

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
