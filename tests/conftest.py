"""What tests share: a home of their own, a clock that they set, and the certainty that no worker is left behind."""

from __future__ import annotations

import locale
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from queuectl.clock import Clock
from queuectl.storage.base import Storage
from queuectl.storage.sqlite import SQLiteStorage

pytest_plugins = ["postgres", "web", "browser", "whole_queue"]

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "queuectl.py"


class SetClock(Clock):
    """Time that passes only when a test says so; the wall clock can also be set, as by a user."""

    def __init__(self) -> None:
        self.steady_now = 1_000_000
        self.wall_offset = 1_790_000_000_000

    def now(self) -> int:
        return self.steady_now + self.wall_offset

    def steady(self) -> int:
        return self.steady_now

    def pass_seconds(self, seconds: float) -> None:
        self.steady_now += round(seconds * 1000)

    def be_set(self, seconds: float) -> None:
        self.wall_offset += round(seconds * 1000)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    """What is tested with this runs on both."""
    return str(request.param)


@pytest.fixture
def database(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'queuectl.db'}"
    url: str = request.getfixturevalue("postgres")
    return url


@pytest.fixture
def connect(database: str, clock: SetClock) -> Iterator[Callable[[], Storage]]:
    """Opens one more connection to the same database."""
    opened: list[Storage] = []

    def connection() -> Storage:
        opened.append(open_database(database, clock))
        return opened[-1]

    yield connection
    for storage in opened:
        storage.close()


def open_database(url: str, clock: Clock) -> Storage:
    if url.startswith("sqlite"):
        return SQLiteStorage(url.removeprefix("sqlite:///"), clock, "this boot")
    from queuectl.storage.postgres import PostgresStorage

    return PostgresStorage(url, clock, "this boot", "this machine")


@pytest.fixture
def storage(connect: Callable[[], Storage]) -> Storage:
    return connect()


if os.name == "nt":
    WINE_IS_BUSY = 1359  # "internal error": Wine's server now and then fails to start a process on a machine under load
    start = subprocess.Popen.__init__

    def start_insistently(process: Any, *args: Any, **options: Any) -> None:
        try:
            start(process, *args, **options)
        except OSError as error:
            if getattr(error, "winerror", None) != WINE_IS_BUSY:
                raise
            start(process, *args, **options)

    subprocess.Popen.__init__ = start_insistently  # type: ignore[method-assign]


class Cli:
    """queuectl as a user runs it: a process of its own, with a home of its own."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home = home
        self.cwd = cwd
        self.env = {**os.environ, "QUEUECTL_HOME": str(home)}
        self.env.pop("QUEUECTL_DB", None)

    def __call__(
        self, *args: str, input: str | bytes | None = None, cwd: Path | None = None, timeout: float = 120, **env: str
    ) -> subprocess.CompletedProcess[str]:
        data = input.encode() if isinstance(input, str) else input
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if data is None else {"input": data}
        given.update(capture_output=True, cwd=cwd or self.cwd, env={**self.env, **env}, timeout=timeout)
        done = subprocess.run(self.argv(args), **given)
        out, err = (text(stream).replace(os.linesep, "\n") for stream in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def argv(self, args: Sequence[str]) -> list[str]:
        return [sys.executable, str(SCRIPT), *args]

    def ok(self, *args: str, **options: object) -> str:
        """Its stdout, when it is to succeed."""
        done = self(*args, **options)  # type: ignore[arg-type]
        assert done.returncode == 0, done.stderr
        return done.stdout


def text(printed: bytes) -> str:
    """UTF-8, or what a pipe gets on Windows: the ANSI code page."""
    try:
        return printed.decode()
    except UnicodeDecodeError:
        return printed.decode(locale.getpreferredencoding(False), "replace")


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cwd = tmp_path / "work"
    cwd.mkdir()
    caller = Cli(tmp_path / "home", cwd)
    yield caller
    if any(caller.home.glob("workers.json*")) or any(caller.home.glob("logs/worker-*")):  # where a worker has been
        caller("worker", "stop", "--force")


def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition, and fail when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)
