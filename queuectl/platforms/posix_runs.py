"""Linux: the processes of a run, and a guardian process that ends the run when its worker dies.

A run is its session plus every process that carries its mark in the environment. Before each signal the process is
held by a pidfd and looked at again, so a pid that was reused is never hit.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

assert sys.platform != "win32"

from queuectl.platforms.posix import default_shell, start_time, stat_of
from queuectl.platforms.settling import kill_until_quiet
from queuectl.platforms.shells import switches

MARK = b"QUEUECTL_RUN"
IGNORED_BY_PYTHON = [signal.SIGPIPE, signal.SIGXFSZ]
# Whoever started the worker may ignore the others; a command expects none of it.
RESTORED = [*IGNORED_BY_PYTHON, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD]
# What stands where in the guardian's page, after the mark: when the lease ends; the command that leads the run, and
# when that was there; whether the guardian has ended the run because the lease was over.
LEASE, LEADER, HAS_ENDED = 1024, 1032, 1048
LEASE_LOOK_MILLIS = 100
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")  # in which /proc says when a process started
ENCODING = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


# --- killing what is left of a run ---


def kill_marked(mark: str, session: int | None = None) -> int:
    """Kill every process of the run, until none is found any more; returns how many signals that took."""
    return kill_until_quiet(lambda: signal_run(mark, session, signal.SIGKILL))


def signal_run(mark: str, session: int | None, number: int) -> int:
    """Send a signal to every process of the run, and return how many got it; 0 only counts the living.

    They are the marked ones, whoever is in a session that one of them leads or that the caller knows as the run's, and
    what any of these has started, while it is there to be seen.
    """
    wanted = MARK + b"=" + mark.encode()
    living = {pid: found for pid in _pids() if (found := _family(pid)) is not None}
    run = {pid for pid, family in living.items() if family.session == session or _is_marked(pid, wanted)}
    while True:
        leads = {pid for pid in run if pid in living and living[pid].session == pid}
        more = {pid for pid, family in living.items() if family.session in leads or family.parent in run} - run
        if not more:
            break
        run |= more
    count = 0
    for pid in run:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                family = _family(pid)
                if family and family.started == living[pid].started:  # the pid was not reused since
                    signal.pidfd_send_signal(handle, number)
                    count += 1
            finally:
                os.close(handle)
    return count


def _pids() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


class Family(NamedTuple):
    """Where a living process belongs; its start time makes it this process and no later one of the same pid."""

    parent: int
    session: int
    started: str


def _family(pid: int) -> Family | None:
    try:
        stat = stat_of(pid)
    except PermissionError:  # where /proc hides other users' processes: it is no run of ours
        return None
    return Family(int(stat[1]), int(stat[3]), stat[19]) if stat and stat[0] not in "ZX" else None


def _is_marked(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def hard_kill(pid: int, started: str) -> bool:
    """Kill the process if it is still the one that started then."""
    return _signal(pid, started, signal.SIGKILL)


def ask_to_end(pid: int, started: str) -> bool:
    """Ask the process to end, if it is still the one that started then."""
    return _signal(pid, started, signal.SIGTERM)


def _signal(pid: int, started: str, number: int) -> bool:
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if start_time(pid) == started:
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


# --- running a command ---


def as_given(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    """Variables as a process is given them: encoded once, and not again for each run that gets the same."""
    return {name.encode(*ENCODING): value.encode(*ENCODING) for name, value in variables.items()}


class Command:
    """The processes of one run: a session of their own, marked in their environment."""

    def __init__(
        self, argv: Sequence[str], cwd: str, env: Mapping[bytes, bytes], mark: str, stdout: int, stderr: int
    ) -> None:
        self.mark = mark
        env = {**env, MARK: mark.encode()}
        # posix_spawn cannot name a directory, but takes half of the processor time that subprocess takes.
        os.chdir(cwd)
        try:
            self.pid = _spawn(argv, env, [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *_dup(stdout, stderr)])
        finally:
            os.chdir("/")
        try:
            self._handle = os.pidfd_open(self.pid)
        except OSError:
            kill_marked(mark, self.pid)  # what cannot be watched must not run
            os.waitpid(self.pid, 0)
            raise
        self._poll = select.poll()
        self._poll.register(self._handle, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait so long for the command itself to end; True once it has."""
        return bool(self._poll.poll(seconds * 1000))

    def end(self, polite_seconds: float) -> None:
        """End every process of the run: first politely, then hard."""
        give_up = time.monotonic() + polite_seconds
        signal_run(self.mark, self.pid, signal.SIGTERM)
        while time.monotonic() < give_up and signal_run(self.mark, self.pid, 0):
            time.sleep(0.02)
        # The command itself is not reaped yet, so nobody else can have its pid, nor a session of that number.
        kill_marked(self.mark, self.pid)

    def was_killed(self) -> bool:
        """Whether the command, which has ended, was ended by a signal."""
        found = os.waitid(os.P_PIDFD, self._handle, os.WEXITED | os.WNOWAIT)
        return found is not None and found.si_code != os.CLD_EXITED

    def close(self) -> int:
        """The exit code, as a shell would give it: 128 + n for signal n."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._handle)
        return code if code >= 0 else 128 - code


def _dup(stdout: int, stderr: int) -> list[tuple[int, int, int]]:
    return [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]


def _spawn(argv: Sequence[str], env: Mapping[bytes, bytes], files: Sequence[tuple[Any, ...]]) -> int:
    """Start a program, which is looked for where the environment that it is given says."""
    problem, program = errno.ENOENT, argv[0]
    for place in [program] if "/" in program else _places(program, env):
        try:
            return os.posix_spawn(place, list(argv), env, file_actions=files, setsid=True, setsigdef=RESTORED)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            problem = errno.EACCES
    raise OSError(problem, os.strerror(problem), program)


def _places(program: str, env: Mapping[bytes, bytes]) -> list[str]:
    path = os.fsdecode(env.get(b"PATH", os.defpath))
    return [os.path.join(place, program) for place in path.split(os.pathsep)]


def is_written(file: int) -> bool:
    """Whether anybody still has this file, which is open here for reading, open for writing."""
    # Only a file that nobody can write to can be leased for reading.
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    return False


def shell_argv(shell: str, line: str) -> list[str]:
    if shell == "none":
        from shlex import split

        return split(line)
    shell = shell or default_shell()
    return [shell, *switches(shell), line]


def list_argv(argv: list[str]) -> list[str]:
    """A program and its arguments as they are: whatever a shell here does itself is a program too."""
    return argv


# --- the guardian ---


class Led(Protocol):
    """The command of a run: what it starts is in the session that it leads."""

    @property
    def pid(self) -> int: ...


class Guardian:
    """A child of the worker that ends the run in hand when the worker dies, however it dies.

    It waits on a pipe that closes with the worker. Which run is in hand stands in a page of shared memory: a write to
    it costs nothing and wakes nobody. The pipe closes only after the last child between fork and exec has closed it
    too, so no command can escape by being started at the last moment. Where a job is leased for a time it ends the run
    also when that is over, whatever the worker is stuck in.
    """

    def __init__(self, is_leased: bool = False) -> None:
        # Whoever started the worker may ignore that children end; then nobody could be waited for.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._is_leased = is_leased
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._start()

    def _start(self) -> None:
        read_end, write_end = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(read_end)
            os.close(write_end)
            raise
        if pid == 0:
            try:
                os.close(write_end)
                self._stand_guard(read_end)
            finally:
                os._exit(0)
        os.close(read_end)
        self._write_end = write_end
        self.pid = pid

    def _stand_guard(self, read_end: int) -> None:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        poll = select.poll()
        poll.register(read_end)
        while not poll.poll(LEASE_LOOK_MILLIS if self._is_leased else None):
            if self._lease_is_over():
                self._page[HAS_ENDED] = 1  # first: whoever sees the run's end must know why
                self._kill()
        self._kill()

    def _kill(self) -> None:
        mark = self._page[:LEASE].partition(b"\0")[0].decode()
        if mark:
            kill_marked(mark, self._session())

    def _session(self) -> int | None:
        """The run's session, by which it is found also where it has lost its mark."""
        leader, seen_at = struct.unpack_from("qd", self._page, LEADER)
        started = start_time(leader) if leader else None
        if started is not None and int(started) > seen_at * TICKS_A_SECOND:
            return None  # it ended, and another process has its pid
        return leader or None

    def watch(self, mark: str) -> None:
        """From now on this run must not outlive the worker."""
        self._page[LEADER : HAS_ENDED + 1] = bytes(HAS_ENDED + 1 - LEADER)
        text = mark.encode() + b"\0"
        self._page[: len(text)] = text

    def follow(self, command: Led) -> None:
        """The command of the run has started."""
        struct.pack_into("qd", self._page, LEADER, command.pid, time.clock_gettime(time.CLOCK_BOOTTIME))

    def extend(self, lease_ends: float) -> None:
        """The worker may go on until then; afterwards somebody else may have its job.

        By the clock that runs on while the machine sleeps: the others do not wait for it to wake up.
        """
        struct.pack_into("d", self._page, LEASE, lease_ends)

    def is_overdue(self) -> bool:
        """Whether the run had to end, or must, because the lease was over; also if it was extended since."""
        return self._is_leased and (self._page[HAS_ENDED] == 1 or self._lease_is_over())

    def _lease_is_over(self) -> bool:
        lease_ends: float = struct.unpack_from("d", self._page, LEASE)[0]
        return self._is_leased and 0 < lease_ends < time.clock_gettime(time.CLOCK_BOOTTIME)

    def release(self) -> None:
        """The run is over: what it left behind on purpose may live on."""
        self._page[0] = 0

    def check(self) -> None:
        """Put another guardian in the place of one that was killed."""
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                return
        pipe_of_the_dead = self._write_end
        self._start()  # first: where it fails now it is tried again
        os.close(pipe_of_the_dead)
