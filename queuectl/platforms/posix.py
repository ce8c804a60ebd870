"""Linux: process identity by /proc, waiting by inotify, detached workers, locks.

Code that only workers need is in posix_runs.py or imported where it is used, so that `enqueue` does not load it.
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


# --- process identity ---


@lru_cache
def boot_id() -> str:
    """An id that changes with each start of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


@lru_cache
def pid_space() -> str:
    """The pid namespace: pids of different namespaces cannot be compared."""
    return os.readlink("/proc/self/ns/pid")


def start_time(pid: int) -> str | None:
    """When the process started, by a clock that cannot be set; None if it does not exist or is a zombie."""
    stat = stat_of(pid)
    return stat[19] if stat and stat[0] not in "ZX" else None


def began_before_logon(started: str) -> bool:
    """Whether a dead process was ended because its user signed out; on Linux workers outlive that."""
    return False


def stat_of(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third, the state, on: the second, the name, may hold any characters."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None  # other errors are raised: a process that cannot be looked up may be alive


# --- waiting for a change ---


class Watcher:
    """Sleeps until a file in a directory is written to, by inotify; it does not say what was written."""

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
        """Sleep at most `seconds`, or one poll interval if inotify is not available; True if a write woke it.

        The first call, and the first after `rest`, only adds the watch and returns at once: the file may have been
        written to before that, so the caller must check again before it sleeps.
        """
        if self._watch < 0:
            self._watch = self._libc.inotify_add_watch(self._file, self._directory, IN_MODIFY)
            if self._watch < 0:  # the user's limit of inotify watches is reached
                time.sleep(min(seconds, poll_interval))
        elif self._poll.poll(seconds * 1000):
            with contextlib.suppress(BlockingIOError):
                while os.read(self._file, 65536):
                    pass
            return True
        return False

    def rest(self) -> None:
        """Remove the watch while nobody waits, as it makes every write to the database slower."""
        if self._watch >= 0:
            self._libc.inotify_rm_watch(self._file, self._watch)
            self._watch = -1


def is_console(stream: IO[str]) -> bool:
    """Whether the stream is a terminal."""
    return stream.isatty()


def understands_escapes() -> bool:
    """Whether the terminal understands escape codes."""
    return os.environ.get("TERM") != "dumb"


def create_private(path: str) -> int:
    """Create a file that only its owner may read, and open it for writing."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)


# --- detached workers and the lock ---


def default_shell() -> str:
    return "/bin/sh"


def is_builtin(program: str) -> bool:
    """Whether the default shell does this itself and there may be no such program; not so on Linux."""
    return False


def spawn_detached(argv: Sequence[str], env: Mapping[str, str], log: str) -> tuple[subprocess.Popen[bytes], bool]:
    """Start a process that outlives this one and its terminal; its output goes to the log.

    Also returns whether it is certain to outlive them, as it always is on Linux.
    """
    import subprocess

    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        process = subprocess.Popen(
            argv, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    return process, True


def own_interpreter() -> tuple[str, dict[str, str]]:
    """The program that starts another process with this interpreter, and the variables that it needs."""
    return sys.executable, {}


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold an exclusive lock on this file."""
    import fcntl

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
