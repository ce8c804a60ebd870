"""Linux: the processes of a run, and a guardian process that ends the run when its worker dies.

A run is its session plus every process that carries its mark in the environment. Before each signal a pidfd of the
process is opened and its start time checked again, so that no process with a reused pid gets the signal.
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
# The worker may have inherited ignored signals from its parent; commands expect the default actions.
RESTORED = [*IGNORED_BY_PYTHON, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD]
# Offsets in the guardian's page, after the mark: when the lease ends; the pid of the run's command, and a time at which
# it existed; whether the guardian has ended the run because the lease was over.
LEASE, LEADER, HAS_ENDED = 1024, 1032, 1048
LEASE_LOOK_MILLIS = 100
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")  # the unit of start times in /proc
ENCODING = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


# --- killing what is left of a run ---


def kill_marked(mark: str, session: int | None = None) -> int:
    """Kill every process of the run, until none is found any more; return how many signals were sent."""
    return kill_until_quiet(lambda: signal_run(mark, session, signal.SIGKILL))


def signal_run(mark: str, session: int | None, number: int) -> int:
    """Send a signal to every process of the run, and return how many got it; signal 0 only counts them.

    The run's processes are those that carry the mark, those in the session `session` or in a session that one of the
    run's processes leads, and the descendants of all these, as long as their parents are alive.
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
                if family and family.started == living[pid].started:  # the pid was not reused meanwhile
                    signal.pidfd_send_signal(handle, number)
                    count += 1
            finally:
                os.close(handle)
    return count


def _pids() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


class Family(NamedTuple):
    """A live process's parent and session; its start time distinguishes it from a later process with the same pid."""

    parent: int
    session: int
    started: str


def _family(pid: int) -> Family | None:
    try:
        stat = stat_of(pid)
    except PermissionError:  # /proc hides other users' processes, which are not part of a run
        return None
    return Family(int(stat[1]), int(stat[3]), stat[19]) if stat and stat[0] not in "ZX" else None


def _is_marked(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def hard_kill(pid: int, started: str) -> bool:
    """Kill the process with this pid, if its start time is still `started`."""
    return _signal(pid, started, signal.SIGKILL)


def ask_to_end(pid: int, started: str) -> bool:
    """Ask the process with this pid to end, if its start time is still `started`."""
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
    """Variables in the form that `Command` takes: encoded once, not again for each run with the same ones."""
    return {name.encode(*ENCODING): value.encode(*ENCODING) for name, value in variables.items()}


class Command:
    """The processes of one run: they have a session of their own, and carry the mark in their environment."""

    def __init__(
        self, argv: Sequence[str], cwd: str, env: Mapping[bytes, bytes], mark: str, stdout: int, stderr: int
    ) -> None:
        self.mark = mark
        env = {**env, MARK: mark.encode()}
        # posix_spawn cannot set a directory, so we change to it; it takes half of the CPU time that subprocess takes.
        os.chdir(cwd)
        try:
            self.pid = _spawn(argv, env, [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *_dup(stdout, stderr)])
        finally:
            os.chdir("/")
        try:
            self._handle = os.pidfd_open(self.pid)
        except OSError:
            kill_marked(mark, self.pid)  # a command whose end cannot be noticed must not run
            os.waitpid(self.pid, 0)
            raise
        self._poll = select.poll()
        self._poll.register(self._handle, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the command itself to end; True if it has ended."""
        return bool(self._poll.poll(seconds * 1000))

    def end(self, polite_seconds: float) -> None:
        """End every process of the run: first by SIGTERM, and after `polite_seconds` by SIGKILL."""
        give_up = time.monotonic() + polite_seconds
        signal_run(self.mark, self.pid, signal.SIGTERM)
        while time.monotonic() < give_up and signal_run(self.mark, self.pid, 0):
            time.sleep(0.02)
        # The command itself is not reaped yet, so no other process or session can have its number.
        kill_marked(self.mark, self.pid)

    def was_killed(self) -> bool:
        """Whether the command, which has ended, was killed by a signal."""
        found = os.waitid(os.P_PIDFD, self._handle, os.WEXITED | os.WNOWAIT)
        return found is not None and found.si_code != os.CLD_EXITED

    def close(self) -> int:
        """Reap the command, and return its exit code as a shell reports it: 128 + n for signal n."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._handle)
        return code if code >= 0 else 128 - code


def _dup(stdout: int, stderr: int) -> list[tuple[int, int, int]]:
    return [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]


def _spawn(argv: Sequence[str], env: Mapping[bytes, bytes], files: Sequence[tuple[Any, ...]]) -> int:
    """Start a program, which is looked up in the PATH of the environment that it gets."""
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
    """Where the program is, in the order of PATH; to try a directory without it would cost a new process each time."""
    path = os.fsdecode(env.get(b"PATH", os.defpath))
    found = (os.path.join(directory, program) for directory in path.split(os.pathsep))
    return [file for file in found if os.path.exists(file)]


def is_written(file: int) -> bool:
    """Whether a process still has this file open for writing; `file` is open for reading."""
    # The kernel grants a read lease only on a file that no process has open for writing.
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
    """A program and its arguments, unchanged: on Linux the shell's builtins exist as programs, too."""
    return argv


# --- the guardian ---


class Led(Protocol):
    """The command of a run, which leads the run's session."""

    @property
    def pid(self) -> int: ...


class Guardian:
    """A child of the worker that ends the run in hand when the worker dies, however it dies.

    It waits on a pipe that closes when the worker dies. The run in hand is noted in a page of shared memory, as a write
    to that costs almost nothing and wakes no process. The pipe closes only after the last child between fork and exec
    has closed it too, so a command that is just being started cannot escape. If jobs are leased, the guardian also
    ends the run when the lease is over, even if the worker hangs.
    """

    def __init__(self, is_leased: bool = False) -> None:
        # If the worker's parent ignores SIGCHLD, the worker inherits that, and could not wait for its children.
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
                self._page[HAS_ENDED] = 1  # set before the kill, so that the worker knows why the run ended
                self._kill()
        self._kill()

    def _kill(self) -> None:
        mark = self._page[:LEASE].partition(b"\0")[0].decode()
        if mark:
            kill_marked(mark, self._session())

    def _session(self) -> int | None:
        """The run's session, by which its processes are found even without the mark."""
        leader, seen_at = struct.unpack_from("qd", self._page, LEADER)
        started = start_time(leader) if leader else None
        if started is not None and int(started) > seen_at * TICKS_A_SECOND:
            return None  # the command has ended, and another process has its pid
        return leader or None

    def watch(self, mark: str) -> None:
        """Note the run that must not outlive the worker from now on."""
        self._page[LEADER : HAS_ENDED + 1] = bytes(HAS_ENDED + 1 - LEADER)
        text = mark.encode() + b"\0"
        self._page[: len(text)] = text

    def follow(self, command: Led) -> None:
        """Note that the run's command has started."""
        struct.pack_into("qd", self._page, LEADER, command.pid, time.clock_gettime(time.CLOCK_BOOTTIME))

    def extend(self, lease_ends: float) -> None:
        """Note when the lease ends: after that another worker may take over the job.

        The time is of CLOCK_BOOTTIME, which counts while the machine sleeps: other machines do not wait for it.
        """
        struct.pack_into("d", self._page, LEASE, lease_ends)

    def is_overdue(self) -> bool:
        """Whether the run was or must be ended because the lease was over, even if it was extended since."""
        return self._is_leased and (self._page[HAS_ENDED] == 1 or self._lease_is_over())

    def _lease_is_over(self) -> bool:
        lease_ends: float = struct.unpack_from("d", self._page, LEASE)[0]
        return self._is_leased and 0 < lease_ends < time.clock_gettime(time.CLOCK_BOOTTIME)

    def release(self) -> None:
        """Forget the run, which is over: processes that it left behind on purpose live on."""
        self._page[0] = 0

    def check(self) -> None:
        """Start another guardian if this one was killed."""
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                return
        pipe_of_the_dead = self._write_end
        self._start()  # before the old pipe is closed: if it fails, the next check tries again
        os.close(pipe_of_the_dead)
