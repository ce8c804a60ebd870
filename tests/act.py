"""What the commands of the tests do, on every platform alike: `python act.py "say hello" "wait go" "exit 3"`.

A step is a verb and its words, see VERBS. What is printed ends its lines with \\n on Windows too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
OPEN_FOR_LIFE = []


def act(*steps: str) -> str:
    """A command line that /bin/sh and cmd.exe read alike, and that takes these steps."""
    return " ".join(f'"{part}"' for part in (sys.executable, os.path.abspath(__file__), *steps))


def variable(name: str) -> str:
    """How a command line names a variable of its environment."""
    return f"%{name}%" if os.name == "nt" else f"${name}"


def say(*words: str) -> None:
    sys.stdout.buffer.write(" ".join(words).encode() + b"\n")
    sys.stdout.flush()


def complain(*words: str) -> None:
    sys.stderr.buffer.write(" ".join(words).encode() + b"\n")
    sys.stderr.flush()


def say_bytes(digits: str) -> None:
    sys.stdout.buffer.write(bytes.fromhex(digits))


def flood(size: str) -> None:
    for _ in range(int(size) // 1_000_000):
        sys.stdout.buffer.write(b"x" * 1_000_000)


def count(most: str) -> None:
    sys.stdout.buffer.write(b"".join(b"%d\n" % number for number in range(1, int(most) + 1)))


def show(path: str) -> None:
    sys.stdout.buffer.write(Path(path).read_bytes())


def number(path: str) -> None:
    """Say how often this has been done."""
    add(path, "x")
    say("try", str(Path(path).read_text().count("x")))


def shaky(path: str, good: str) -> None:
    """Say, and complain, how often this has been done; fail until it is so often."""
    add(path, "x")
    done = Path(path).read_text().count("x")
    say("out", str(done))
    complain("err", str(done))
    if done < int(good):
        sys.exit(1)


def where() -> None:
    say(os.getcwd())


def env(name: str) -> None:
    say(os.environ.get(name, "none"))


def read() -> None:
    say("in", repr(sys.stdin.read()))


def wait(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.02)


def add(path: str, *words: str) -> None:
    with open(path, "ab") as file:
        file.write(" ".join(words).encode() + b"\n")


def pid(path: str) -> None:
    """Write down who this is, all at once."""
    Path(f"{path}.new").write_text(f"{os.getpid()}\n")
    os.replace(f"{path}.new", path)


def spawn(*words: str) -> None:
    """A child in the background that takes these steps, with ; between them."""
    steps = " ".join(words).split("; ")
    subprocess.Popen([sys.executable, __file__, *steps], creationflags=NO_WINDOW)


def leave(*words: str) -> None:
    """The same, and meant to be left behind: it is in a session of its own where there are any."""
    steps = " ".join(words).split("; ")
    subprocess.Popen([sys.executable, __file__, *steps], creationflags=NO_WINDOW, start_new_session=True)


def chatter() -> None:
    while True:
        say("chatter")
        time.sleep(0.01)


def tree(depth: str) -> None:
    """So many processes one below the other; each writes down who it is, the lowest as pid-0."""
    pid(f"pid-{depth}")
    if int(depth):
        spawn(f"tree {int(depth) - 1}")
    time.sleep(300)


def alone(path: str) -> None:
    """Lock the file for as long as this process lives, or say that somebody else has."""
    if not locked(path):
        Path("overlap").touch()


def place(most: str) -> None:
    """The same with any of so many files; which one it was is written down."""
    for number in range(int(most)):
        if locked(f"place-{number}"):
            add("places", str(number))
            return
    Path("overlap").touch()


def locked(path: str) -> bool:
    file = open(path, "w")  # noqa: SIM115
    OPEN_FOR_LIFE.append(file)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def kill_worker() -> None:
    import psutil

    for ancestor in psutil.Process().parents():
        with suppress(psutil.Error):
            if any(word.endswith("worker.py") for word in ancestor.cmdline()):
                ancestor.kill()
                break
    time.sleep(300)


VERBS: dict[str, Callable[..., None]] = {
    "say": say,
    "complain": complain,
    "bytes": say_bytes,
    "flood": flood,
    "count": count,
    "show": show,
    "number": number,
    "shaky": shaky,
    "where": where,
    "env": env,
    "read": read,
    "wait": wait,
    "add": add,
    "touch": lambda path: Path(path).touch(),
    "pid": pid,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "spawn": spawn,
    "leave": leave,
    "chatter": chatter,
    "tree": tree,
    "alone": alone,
    "place": place,
    "kill-worker": kill_worker,
    "exit": lambda code: sys.exit(int(code)),
}

if __name__ == "__main__":
    for step in sys.argv[1:]:
        verb, *words = step.split(" ")
        VERBS[verb](*words)
