"""What real processes did to the files of a queue, in order: every write and every sync, recorded by strace."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CALLS = "openat,pwrite64,write,fsync,fdatasync,ftruncate,unlink,rename"
LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
UNFINISHED = " <unfinished ...>"
CALL = re.compile(r"(\w+)\((.*)\) += (\d+)")
HEX = r"((?:\\x[0-9a-f]{2})*)"
STRING, FILE = re.compile(f'"{HEX}"'), re.compile(f"<{HEX}>")


class Call(NamedTuple):
    """A system call that was done; `begun` is which of the events was the newest when it began."""

    name: str
    path: str
    begun: int
    at: float
    data: bytes = b""
    number: int = 0  # an offset, or a size
    creates: bool = False


def why_not() -> str | None:
    """Why nothing can be recorded here; None if it can."""
    if shutil.which("strace") is None:
        return "there is no strace here to record what is written to the disk"
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return f"strace cannot be used here: {tried.stderr.strip()}" if tried.returncode else None


def record(command: Sequence[str], paths: Sequence[Path], to: Path, env: dict[str, str], cwd: Path) -> None:
    """Run a command with all that it starts, and write down what is done to these files."""
    only = [part for path in paths for part in ("-P", str(path))]
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(to), "-ttt", "-yy", "-xx", "-s", "1000000"]
    subprocess.run([*strace, "-e", f"trace={CALLS}", *only, *command], env=env, cwd=cwd, check=True)


def read(trace: Path) -> Iterator[Call]:
    """The calls in the order in which they ended. A sync covers what had ended when it began."""
    begun: dict[str, tuple[int, str]] = {}
    count = 0
    with open(trace, encoding="ascii") as file:
        for line in file:
            found = LINE.match(line)
            assert found, line[:200]
            pid, at, text = found[1], float(found[2]), found[3]
            if text.endswith(UNFINISHED):
                begun[pid] = count, text.removesuffix(UNFINISHED)
                continue
            began = count
            if resumed := RESUMED.match(text):
                began, beginning = begun.pop(pid)
                text = beginning + resumed[1]
            done = CALL.match(text)  # and nothing else: signals, exits, calls that failed
            if done:
                yield call(done[1], done[2], began, at)
                count += 1


def call(name: str, arguments: str, begun: int, at: float) -> Call:
    strings = [decoded(text) for text in STRING.findall(arguments)]
    if name in ("openat", "unlink"):
        return Call(name, strings[0].decode(), begun, at, creates="O_CREAT" in arguments)
    assert name != "rename", "no file of the database is ever renamed"
    file = FILE.search(arguments)
    assert file, arguments[:200]
    path = decoded(file[1]).decode()
    last = arguments.rpartition(", ")[2]
    data = strings[0] if strings else b""
    return Call(name, path, begun, at, data, int(last) if name in ("pwrite64", "ftruncate") else 0)


def decoded(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))
