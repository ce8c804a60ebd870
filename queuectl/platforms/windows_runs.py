"""Windows: the processes of a run, in a Job Object that ends with the worker.

A run is its Job Object plus every process that carries its mark in the environment. Before each kill a handle of the
process is opened and its creation time checked, so that no process with a reused pid is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import msvcrt
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from ctypes.wintypes import DWORD, HANDLE, LPVOID, LPWSTR, UINT

import psutil

assert sys.platform == "win32"

from queuectl.platforms.settling import GIVE_UP_SECONDS, kill_until_quiet
from queuectl.platforms.shells import (
    Verbatim,
    batch_line,
    builtin_line,
    cmd_argv,
    exact_argv,
    first_word,
    is_batch,
    is_builtin,
    is_cmd,
    switches,
)
from queuectl.platforms.windows import (
    close_handle,
    created,
    default_shell,
    kernel_function,
    local_free,
    ntdll,
    open_process,
    start_time,
    wait_for,
)

MARK = "QUEUECTL_RUN"
LEASE_LOOK_SECONDS = 0.1
DYING_MILLIS = 1000  # a terminated process takes a moment to close its files

PROCESS_TERMINATE, WAIT_OBJECT_0 = 0x1, 0
GENERIC_READ, GENERIC_WRITE = 0x80000000, 0x40000000
FILE_SHARE_READ, FILE_SHARE_ALL = 1, 7
INVALID_HANDLE = ctypes.c_void_p(-1).value
ERROR_SHARING_VIOLATION = 32
CREATE_SUSPENDED, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x4, 0x2000
BASIC_ACCOUNTING, EXTENDED_LIMIT = 1, 9
KILLED = 1  # the exit code of processes that we terminate


class ExtendedLimit(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, of which only the flags are used."""

    _fields_ = (
        ("times", ctypes.c_int64 * 2),
        ("flags", DWORD),
        ("working_sets", ctypes.c_size_t * 2),
        ("processes", DWORD),
        ("affinity", ctypes.c_size_t),
        ("classes", DWORD * 2),
        ("io_counters", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


_terminate_process = kernel_function("TerminateProcess", HANDLE, UINT)
_reopen_file = kernel_function("ReOpenFile", HANDLE, DWORD, DWORD, DWORD, returns=HANDLE)
_create_job = kernel_function("CreateJobObjectW", LPVOID, LPWSTR, returns=HANDLE)
_assign_to_job = kernel_function("AssignProcessToJobObject", HANDLE, HANDLE)
_set_job = kernel_function("SetInformationJobObject", HANDLE, ctypes.c_int, LPVOID, DWORD)
_query_job = kernel_function("QueryInformationJobObject", HANDLE, ctypes.c_int, LPVOID, DWORD, LPVOID)
_terminate_job = kernel_function("TerminateJobObject", HANDLE, UINT)
ntdll.NtResumeProcess.argtypes = (HANDLE,)
_split_line = ctypes.WinDLL("shell32").CommandLineToArgvW
_split_line.argtypes, _split_line.restype = (LPWSTR, LPVOID), ctypes.POINTER(LPWSTR)


# --- killing what is left of a run ---


def kill_marked(mark: str, session: int | None = None) -> int:
    """Kill every process of the run, until none is found any more; return how many were killed."""
    return kill_until_quiet(lambda: sum(_kill_if_marked(pid, mark) for pid in psutil.pids() if pid != os.getpid()))


def _kill_if_marked(pid: int, mark: str) -> bool:
    with open_process(pid, PROCESS_TERMINATE) as handle:  # while it is open, the pid is not reused
        return created(handle) is not None and _is_marked(pid, mark) and _kill(handle)


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return bool(psutil.Process(pid).environ().get(MARK) == mark)
    except (psutil.Error, OSError):  # the process is gone, or another user's
        return False


def ask_to_end(pid: int, started: str) -> bool:
    """Windows cannot ask a process without a window to end: only a stop request in the database can, or hard_kill."""
    return False


def hard_kill(pid: int, started: str) -> bool:
    """Kill the process with this pid, if its start time is still `started`."""
    with open_process(pid, PROCESS_TERMINATE) as handle:
        return created(handle) == started and _kill(handle)


def _kill(handle: int | None) -> bool:
    if not _terminate_process(handle, KILLED):
        return False
    wait_for(handle, DYING_MILLIS)
    return True


# --- running a command ---


def as_given(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables in the form that `Command` takes. On Windows names that differ only by case are the same."""
    return {name.upper(): value for name, value in variables.items()}


class Command:
    """The processes of one run: they have a Job Object of their own, and carry the mark in their environment."""

    def __init__(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], mark: str, stdout: int, stderr: int
    ) -> None:
        self.mark = mark
        self._ending = threading.Lock()  # the worker's main thread and its guardian thread may both end the run
        self._is_closed = False
        env = {**env, MARK: mark}
        line = _command_line(_program(argv[0], cwd, env), argv[1:], cwd)
        flags = subprocess.CREATE_NO_WINDOW | CREATE_SUSPENDED
        files: list[int] = []
        try:
            files += map(_movable, (stdout, stderr))
            self._process = subprocess.Popen(
                line, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1], creationflags=flags
            )
        except OSError as error:
            error.filename = argv[0]  # Windows does not say which file it did not find
            raise
        finally:
            for file in files:
                os.close(file)
        self.pid = self._process.pid
        self._handle = int(self._process._handle)  # type: ignore[attr-defined]
        # The process is still suspended here, so everything that it starts will be in the Job Object.
        self._job = _new_job(self._handle)
        if ntdll.NtResumeProcess(self._handle) < 0:
            self.end(0)
            self.close()
            raise OSError(errno.EACCES, "it could not be resumed", argv[0])

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the command itself to end; True if it has ended."""
        return bool(wait_for(self._handle, math.ceil(seconds * 1000)) == WAIT_OBJECT_0)

    def end(self, polite_seconds: float) -> None:
        """End every process of the run at once: Windows cannot ask a process without a window or our console to end."""
        with self._ending:
            if self._is_closed:
                return
            if self._job:
                _terminate_job(self._job, KILLED)
                give_up = time.monotonic() + GIVE_UP_SECONDS
                while _active(self._job) and time.monotonic() < give_up:
                    time.sleep(0.01)
            else:
                self._end_tree()
            kill_marked(self.mark)

    def was_killed(self) -> bool:
        """Unknown on Windows, where a process that kills another chooses its exit code."""
        return False

    def _end_tree(self) -> None:
        """Without a Job Object, kill the descendants that can still be found; some may have lost the mark."""
        with contextlib.suppress(psutil.Error, OSError):
            for child in psutil.Process(self.pid).children(recursive=True):
                hard_kill(child.pid, start_time(child.pid) or "")
        self._process.kill()

    def close(self) -> int:
        """Return the exit code, as Windows gives it; processes that the command left behind on purpose live on."""
        code = self._process.wait()
        with self._ending:
            if self._job:
                _limit(self._job, 0)
                close_handle(self._job)
                self._job = None
            self._is_closed = True
        return code


def _new_job(process: int) -> int | None:
    """A Job Object that kills the process when this worker ends; None if the process cannot be put in one."""
    job: int | None = _create_job(None, None)
    if job and _limit(job, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE) and _assign_to_job(job, process):
        return job
    if job:
        close_handle(job)
    return None


def _limit(job: int, flags: int) -> bool:
    limit = ExtendedLimit(flags=flags)
    return bool(_set_job(job, EXTENDED_LIMIT, ctypes.byref(limit), ctypes.sizeof(limit)))


def _active(job: int) -> int:
    """The number of live processes in the Job Object."""
    found = (DWORD * 12)()  # four times of two DWORDs, page faults, and the processes: total, active, terminated
    _query_job(job, BASIC_ACCOUNTING, found, ctypes.sizeof(found), None)
    return found[10]


def _movable(file: int) -> int:
    """Open the file again, so that it can be renamed and deleted while a process has the new descriptor open."""
    handle = _reopen_file(msvcrt.get_osfhandle(file), GENERIC_WRITE, FILE_SHARE_ALL, 0)
    return os.dup(file) if handle == INVALID_HANDLE else msvcrt.open_osfhandle(handle, os.O_BINARY)


def _program(name: str, cwd: str, env: Mapping[str, str]) -> str:
    """The file to start, looked up in the job's directory and PATH: Windows would use the worker's."""
    endings = [ending.lower() for ending in env.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";") if ending]
    # A name without a known ending is tried unchanged only if no directory has it with one: the shell script npm lies
    # beside npm.cmd, and a file called make may be in the job's directory.
    rounds = [["", *endings]] if os.path.splitext(name)[1].lower() in endings else [endings, [""]]
    places = [] if os.path.dirname(name) else env.get("PATH", os.defpath).split(os.pathsep)
    for endings in rounds:
        for place in ["", *places]:
            for ending in endings:
                path = os.path.join(cwd, place.strip('"'), name + ending)
                if os.path.isfile(path):
                    return path
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _command_line(program: str, arguments: Sequence[str], cwd: str) -> str:
    if is_batch(program):
        # Windows would pass the batch file to cmd.exe with quotes that cmd.exe does not understand.
        words = [word for part in arguments for word in (_words(part) if isinstance(part, Verbatim) else [part])]
        program, *arguments = exact_argv(default_shell(), batch_line(program, words))
    if cwd.startswith("\\\\") and is_cmd(program):
        raise ValueError(f"cmd.exe cannot run in {cwd}. Give the share a drive letter, or choose --shell powershell")
    quoted = (part if isinstance(part, Verbatim) else subprocess.list2cmdline([part]) for part in arguments)
    return " ".join([subprocess.list2cmdline([program]), *quoted])


def _words(line: str) -> list[str]:
    """The arguments in a part of a command line, as a program would read them."""
    count = ctypes.c_int()
    found = _split_line("program " + line, ctypes.byref(count))
    try:
        return [found[place] for place in range(1, count.value)]
    finally:
        local_free(found)


def is_written(file: int) -> bool:
    """Whether a process still has this file open for writing; `file` is open for reading."""
    handle = _reopen_file(msvcrt.get_osfhandle(file), GENERIC_READ, FILE_SHARE_READ, 0)
    if handle == INVALID_HANDLE:
        return ctypes.get_last_error() == ERROR_SHARING_VIOLATION
    close_handle(handle)
    return False


def shell_argv(shell: str, line: str) -> list[str]:
    if shell == "none":
        return first_word(line)
    shell = shell or default_shell()
    return cmd_argv(shell, line) if is_cmd(shell) else [shell, *switches(shell), line]


def list_argv(argv: list[str]) -> list[str]:
    """A program and its arguments, unchanged; the builtins of cmd.exe are run by cmd.exe."""
    return exact_argv(default_shell(), builtin_line(argv)) if is_builtin(argv[0]) else argv


# --- the guardian ---


class Guardian:
    """Ends a run whose lease is over; when the worker dies, Windows closes its Job Object, which ends the run.

    If jobs are leased, a thread of the worker ends the run when the lease is over, even if the worker's main thread
    hangs.
    """

    pid = 0

    def __init__(self, is_leased: bool = False) -> None:
        self._lease_ends = 0.0
        self._command: Command | None = None
        self._has_ended = False
        self._looking = threading.Lock()
        if is_leased:
            threading.Thread(target=self._stand_guard, daemon=True).start()

    def _stand_guard(self) -> None:
        while True:
            time.sleep(LEASE_LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        with self._looking:
            if self._command is not None and not self._has_ended and self._lease_is_over():
                self._has_ended = True  # set before the kill, so that the worker knows why the run ended
                self._command.end(0)

    def watch(self, mark: str) -> None:
        """A run begins; it is guarded from `follow` on."""
        self._follow(None)

    def follow(self, command: Command) -> None:
        """Note the run's command, which must not outlive the lease."""
        self._follow(command)

    def release(self) -> None:
        """Forget the run, which is over: processes that it left behind on purpose live on."""
        self._follow(None)

    def _follow(self, command: Command | None) -> None:
        with self._looking:
            self._command, self._has_ended = command, False

    def extend(self, lease_ends: float) -> None:
        """Note when the lease ends: after that another worker may take over the job."""
        self._lease_ends = lease_ends

    def is_overdue(self) -> bool:
        """Whether the run was or must be ended because the lease was over, even if it was extended since."""
        return self._has_ended or self._lease_is_over()

    def _lease_is_over(self) -> bool:
        return 0 < self._lease_ends < time.monotonic()

    def check(self) -> None:
        """Do nothing: unlike a guardian process, the thread cannot end before the worker does."""
