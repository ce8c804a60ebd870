"""Windows: process identity by creation times, detached workers, locks; with the same interface as posix.py."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import msvcrt
import os
import sys
import time
import winreg
from collections.abc import Iterator, Mapping, Sequence
from ctypes.wintypes import BOOL, DWORD, HANDLE, LPVOID
from typing import IO, TYPE_CHECKING, Any

assert sys.platform == "win32"

from queuectl.platforms import shells

if TYPE_CHECKING:
    import subprocess

PROCESS_QUERY_LIMITED_INFORMATION, SYNCHRONIZE = 0x1000, 0x100000
WAIT_TIMEOUT = 0x102
ERROR_ACCESS_DENIED = 5
SYSTEM_TIME_OF_DAY, SYSTEM_PROCESSES = 3, 5
STATUS_INFO_LENGTH_MISMATCH = 0xC0000004
CURRENT_SESSION, SESSION_INFO = 0xFFFFFFFF, 24
CODE_PAGE: str | None = "oem"  # the encoding in which programs print, unless they choose UTF-8
ENABLE_VIRTUAL_TERMINAL_PROCESSING = 0x4
LAUNCHER_VARIABLE = "__PYVENV_LAUNCHER__"  # tells an interpreter its virtual environment
# Only the owner, the system and the administrators have access, and no permissions are inherited.
OWNER_ONLY, WHO_MAY = "D:P(A;;FA;;;OW)(A;;FA;;;SY)(A;;FA;;;BA)", 0x80000004

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
ntdll = ctypes.WinDLL("ntdll")


def kernel_function(name: str, *takes: Any, returns: Any = BOOL) -> Any:
    function = getattr(_kernel32, name)
    function.argtypes, function.restype = takes, returns
    return function


close_handle = kernel_function("CloseHandle", HANDLE)
wait_for = kernel_function("WaitForSingleObject", HANDLE, DWORD, returns=DWORD)
_open_process = kernel_function("OpenProcess", DWORD, BOOL, DWORD, returns=HANDLE)
_process_times = kernel_function("GetProcessTimes", HANDLE, LPVOID, LPVOID, LPVOID, LPVOID)
_get_console_mode = kernel_function("GetConsoleMode", HANDLE, LPVOID)
local_free = kernel_function("LocalFree", LPVOID, returns=LPVOID)
_set_console_mode = kernel_function("SetConsoleMode", HANDLE, DWORD)
_is_in_job = kernel_function("IsProcessInJob", HANDLE, HANDLE, LPVOID)


class Listed(ctypes.Structure):
    """SYSTEM_PROCESS_INFORMATION, up to the last field used: a process in the system's list."""

    _fields_ = (
        ("to_the_next", DWORD),
        ("threads", DWORD),
        ("working_set_and_cycles", ctypes.c_int64 * 3),
        ("created", ctypes.c_uint64),
        ("times", ctypes.c_int64 * 2),
        ("name", ctypes.c_size_t * 2),
        ("priority", ctypes.c_int32),
        ("pid", ctypes.c_size_t),
    )


class Session(ctypes.Structure):
    """WTSINFOW, of which only the time of the logon is used."""

    _fields_ = (
        ("state_and_traffic", DWORD * 8),
        ("names", ctypes.c_wchar * (32 + 17 + 21)),
        ("connections", ctypes.c_int64 * 3),
        ("logon", ctypes.c_int64),
        ("now", ctypes.c_int64),
    )


# --- process identity ---


@functools.cache
def boot_id() -> str:
    """An id that differs between machines, and changes with each start of a machine."""
    machine = _registered(r"SOFTWARE\Microsoft\Cryptography", "MachineGuid")
    prefetch = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"
    return f"{machine}.{_registered(prefetch, 'BootId') or _booted_at()}"


def _registered(key: str, name: str) -> str | None:
    with contextlib.suppress(OSError):
        access = winreg.KEY_READ | winreg.KEY_WOW64_64KEY
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, access) as opened:
            return str(winreg.QueryValueEx(opened, name)[0])
    return None


def _booted_at() -> str:
    """When the machine started, by the clock at that time: setting the clock moves boot time and bias alike."""
    found = (ctypes.c_int64 * 6)()  # boot time, now, time zone, its id, boot time's bias, sleep time's bias
    ntdll.NtQuerySystemInformation(SYSTEM_TIME_OF_DAY, found, ctypes.sizeof(found), None)
    return str(found[0] - found[4])


def pid_space() -> str:
    """See posix.py; Windows has one space of pids per machine."""
    return "windows"


def start_time(pid: int) -> str | None:
    """When the process started, as recorded then: setting the clock does not change it. None if it is dead."""
    with open_process(pid, 0) as handle:
        if handle is None and ctypes.get_last_error() == ERROR_ACCESS_DENIED:
            return _listed(pid)  # the process may be alive, although this one may not open it
        return created(handle)


def _listed(pid: int) -> str | None:
    """The creation time of a live process from the system's list, which needs no access right but takes longer."""
    size, needed = 1 << 18, DWORD()
    while True:
        found = ctypes.create_string_buffer(size)
        status = ntdll.NtQuerySystemInformation(SYSTEM_PROCESSES, found, size, ctypes.byref(needed))
        if status & 0xFFFFFFFF != STATUS_INFO_LENGTH_MISMATCH:
            break
        size *= 2
    place, step = 0, 1
    while status >= 0 and step:
        one = Listed.from_buffer(found, place)
        if one.pid == pid:
            return str(one.created) if one.threads else None
        step = one.to_the_next
        place += step
    return None


def began_before_logon(started: str) -> bool:
    """Whether a dead process started before its user logged on to this session: then signing out has ended it.

    So does "Shut down" with Fast Startup, after which the same kernel continues and the boot id is the same.
    """
    return started.isdecimal() and int(started) < _logged_on_at()


@functools.cache
def _logged_on_at() -> int:
    """The time of the logon, in the unit of start times; 0 without a logon, as for services and over SSH."""
    wtsapi32 = ctypes.WinDLL("wtsapi32")
    found, size = ctypes.POINTER(Session)(), DWORD()
    if not wtsapi32.WTSQuerySessionInformationW(
        None, DWORD(CURRENT_SESSION), SESSION_INFO, ctypes.byref(found), ctypes.byref(size)
    ):
        return 0
    try:
        return int(found.contents.logon) if size.value >= ctypes.sizeof(Session) else 0
    finally:
        wtsapi32.WTSFreeMemory(found)


@contextlib.contextmanager
def open_process(pid: int, access: int) -> Iterator[int | None]:
    """A handle to the process, which keeps its pid from being reused; None if there is no process, or no access."""
    handle = _open_process(PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE | access, False, pid)
    try:
        yield handle
    finally:
        if handle:
            close_handle(handle)


def created(handle: int | None) -> str | None:
    """The creation time if the process is alive; a dead process still exists as long as a handle to it is open."""
    if not handle or wait_for(handle, 0) != WAIT_TIMEOUT:
        return None
    times = [ctypes.c_uint64() for _ in range(4)]  # creation, exit, kernel time, user time
    return str(times[0].value) if _process_times(handle, *map(ctypes.byref, times)) else None


# --- waiting for a change ---


class Watcher:
    """See posix.py; on Windows it only sleeps for the poll interval."""

    def __init__(self, directory: str) -> None:
        pass

    def wait(self, seconds: float, poll_interval: float) -> bool:
        time.sleep(min(seconds, poll_interval))
        return False

    def rest(self) -> None:
        pass


def is_console(stream: IO[str]) -> bool:
    """See posix.py; isatty() alone is also true for the null device."""
    return stream.isatty() and _console_mode(stream) is not None


def understands_escapes() -> bool:
    """See posix.py; a console does from Windows 10 on, in a mode that is switched on here."""
    mode = _console_mode(sys.stdout)
    if mode is None:
        return False
    console = msvcrt.get_osfhandle(sys.stdout.fileno())
    return bool(_set_console_mode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING))


def _console_mode(stream: IO[str]) -> int | None:
    mode = DWORD()
    return mode.value if _get_console_mode(msvcrt.get_osfhandle(stream.fileno()), ctypes.byref(mode)) else None


def create_private(path: str) -> int:
    """See posix.py; Windows ignores the mode of os.open, so access is restricted by an access control list."""
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    advapi32 = ctypes.WinDLL("advapi32", use_last_error=True)
    descriptor = LPVOID()
    made = advapi32.ConvertStringSecurityDescriptorToSecurityDescriptorW(OWNER_ONLY, 1, ctypes.byref(descriptor), None)
    try:
        if not made or not advapi32.SetFileSecurityW(path, WHO_MAY, descriptor):
            os.close(file)
            os.remove(path)
            raise ctypes.WinError(ctypes.get_last_error())
    finally:
        local_free(descriptor)
    return file


# --- detached workers and the lock ---


def is_builtin(program: str) -> bool:
    """Whether cmd.exe does this itself, so that there is no such program."""
    return shells.is_builtin(program)


def default_shell() -> str:
    return os.environ.get("COMSPEC") or "cmd.exe"


def spawn_detached(argv: Sequence[str], env: Mapping[str, str], log: str) -> tuple[subprocess.Popen[bytes], bool]:
    """Start a process that outlives this one and its console; its output goes to the log.

    Also returns whether it is certain to outlive them: the console's Job Object may not let processes leave.
    """
    import subprocess

    flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    # The current directory of a process cannot be deleted, so the worker does not use the user's.
    cwd = os.environ.get("SYSTEMROOT") or os.path.abspath(os.sep)
    with open(log, "ab") as file:

        def spawn(creationflags: int) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=file, stderr=file, creationflags=creationflags
            )

        try:
            process = spawn(flags | subprocess.CREATE_BREAKAWAY_FROM_JOB)
        except PermissionError:
            return spawn(flags), False
    is_in_job = BOOL()  # the process has left the innermost Job Object, but perhaps not those around it
    _is_in_job(int(process._handle), None, ctypes.byref(is_in_job))  # type: ignore[attr-defined]
    return process, not is_in_job.value


def own_interpreter() -> tuple[str, dict[str, str]]:
    """The program that starts another process with this interpreter, and the variables that it needs.

    In a virtual environment sys.executable is a launcher, which starts the interpreter as a child with a console of
    its own, and ends with it. So the interpreter is started directly, as the launcher would start it.
    """
    interpreter: str = sys._base_executable  # type: ignore[attr-defined]
    if os.path.normcase(interpreter) == os.path.normcase(sys.executable):
        return sys.executable, {}
    return interpreter, {LAUNCHER_VARIABLE: sys.executable}


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold an exclusive lock on this file."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not _lock(handle):
            time.sleep(0.01)
        try:
            yield
        finally:
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)  # without it Windows would unlock only some time after closing
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    # LK_LOCK would retry only once a second and give up after ten seconds; under Wine it does not wait at all.
    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in (0, errno.EACCES, errno.EDEADLK):  # 0 is Wine's
            raise
        return False
    return True
