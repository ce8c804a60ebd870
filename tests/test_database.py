"""Which database the queue is in, and that nobody ever sees its password."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli, eventually
from postgres import Server
from processes import lives, open_queue, state, workers

from queuectl.database import UNREADABLE, checked, is_postgres, masked, sqlite_path
from queuectl.errors import InvalidInput

SECRETS = (Server.PASSWORD, Server.ENCODED, "ss:w", "w/rd", "w%2Frd", "hunter2")

# --- what is understood, and what is shown of it ---

SHOWN = [
    ("postgresql://me@server/queue", "postgresql://me@server/queue"),
    ("postgresql://server", "postgresql://server"),
    ("postgresql:///queue?host=/run/sockets", "postgresql:///queue?host=/run/sockets"),
    ("postgres://me:hunter2@server:5433/queue", "postgres://me:***@server:5433/queue"),
    ("postgresql://me:hunter2@a:1,b:2/queue", "postgresql://me:***@a:1,b:2/queue"),
    ("postgresql://me:hun:ter2@[::1]:5433/queue", "postgresql://me:***@[::1]:5433/queue"),
    (f"postgresql://me:{Server.ENCODED}@server/queue", "postgresql://me:***@server/queue"),
    ("postgresql://:hunter2@server/queue", "postgresql://:***@server/queue"),
    ("postgresql://server/queue?user=me@here&password=hunter2", "postgresql://server/queue?user=me@here&password=***"),
    ("postgresql://s/q?password=hunter2&sslmode=require", "postgresql://s/q?password=***&sslmode=require"),
    ("postgresql://s/q?sslpassword=hun@ter2&port=1", "postgresql://s/q?sslpassword=***&port=1"),
]
UNREAD = [
    "postgresql://me:hun@ter2@server/queue",
    "postgresql://me:hun/ter2@server/queue",
    "postgresql://me:hun?ter2@server/queue",
    "postgresql://me:hunter2%@server/queue",
    "postgresql://me:hunter2%zz@server/queue",
    "postgresql://me:hunter2%00@server/queue",
    "postgresql://me:hun ter2@server/queue",
    "postgresql://me:hunter2\udcff@server/queue",
    "postgresql://server/queue?password=hunter2%",
    "postgresql://server/queue?p%61ssword=hunter2",
]
UNKNOWN = [
    ("mysql://me:hunter2@server/queue", "'mysql://…'"),
    ("postgre://me:hunter2@server", "'postgre://…'"),
    ("POSTGRESQL://me:hunter2@server", "'POSTGRESQL://…'"),
    ("postgresql:/me:hunter2@server", "'…'"),
    ("host=server password=hunter2", "'…'"),
    ("host=server password = 'hunter2'", "'…'"),
    ("me:hunter2@server/queue", "'…'"),
    ("queue.db", "'queue.db'"),
    ("sqlite:///", "'sqlite://…'"),
    ("", "''"),
]


@pytest.mark.parametrize(("url", "shown"), SHOWN)
def test_a_server_is_shown_without_its_password(url: str, shown: str) -> None:
    assert is_postgres(url) and checked(f" {url}\n") == url
    assert masked(url) == shown


@pytest.mark.parametrize("url", UNREAD, ids=ascii)
def test_what_libpq_would_take_apart_in_the_wrong_place_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(url)
    assert str(refused.value) == UNREADABLE


@pytest.mark.parametrize(("url", "shown"), UNKNOWN)
def test_what_names_no_database_is_refused_with_what_would_and_no_more_is_shown_than_is_safe(
    url: str, shown: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(url)
    assert str(refused.value) == (
        f"database cannot be {shown}. It takes postgresql://user@host/database or sqlite:///path"
    )


def test_a_file_is_named_from_the_root_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checked("sqlite:///here.db") == f"sqlite:///{tmp_path / 'here.db'}"
    assert sqlite_path(f"sqlite:///{tmp_path}/there.db") == str(tmp_path / "there.db")
    assert checked(checked("sqlite:///here.db")) == checked("sqlite:///here.db")


# --- where it is set ---


def test_a_database_that_is_set_stays_the_same_from_every_directory_and_for_the_workers(
    cli: Cli, tmp_path: Path
) -> None:
    assert cli.ok("config", "set", "database", "sqlite:///mine.db") == (
        f"database is now sqlite:///{cli.cwd / 'mine.db'}.\n"
    )
    cli.ok("enqueue", "--id", "one", "echo hi", cwd=tmp_path)
    cli.ok("worker", "start", cwd=tmp_path)
    eventually(lambda: json.loads(cli.ok("show", "one", "--json"))["state"] == "completed")
    assert (cli.cwd / "mine.db").exists() and not (cli.home / "queuectl.db").exists()
    cli.ok("worker", "stop")
    assert cli.ok("config", "unset", "database") == (f"database is sqlite:///{cli.home / 'queuectl.db'} again.\n")
    assert cli.ok("list") == "No jobs.\n"


def test_the_variable_goes_before_the_file_and_reaches_a_worker_that_is_elsewhere(cli: Cli) -> None:
    cli.ok("config", "set", "database", "sqlite:///other.db")
    cli.env["QUEUECTL_DB"] = "sqlite:///mine.db"
    said = cli("config", "set", "database", "sqlite:///third.db")
    assert "QUEUECTL_DB is set, and takes precedence" in said.stderr
    assert cli.ok("config", "get", "database") == f"sqlite:///{cli.cwd / 'mine.db'}\n"
    assert cli.ok("run", "echo hello") == "hello\n"
    assert (cli.cwd / "mine.db").exists()
    refused = cli("status", QUEUECTL_DB="mysql://me:hunter2@server")
    assert refused.returncode == 2 and refused.stderr.startswith("Error: QUEUECTL_DB cannot be 'mysql://…'. It takes")


@pytest.mark.skipif(os.name == "nt", reason="who may read a file is not told by its mode on Windows")
def test_the_file_that_may_hold_a_password_is_its_owners_only(cli: Cli, server: Server) -> None:
    url = f"postgresql://careful:{Server.ENCODED}@127.0.0.1:{server.port}/{server.new_database()}"
    before = os.umask(0)
    try:
        said = cli("config", "set", "database", url)
    finally:
        os.umask(before)
    assert said.returncode == 0, said.stderr
    assert said.stdout == f"database is now {masked(url)}.\n"
    assert (cli.home / "config.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((cli.home / "config.json").read_text()) == {"database": url}
    for look in (["config", "list"], ["config", "list", "--json"], ["config", "get", "database"]):
        shown = cli.ok(*look)
        assert "careful:***@127.0.0.1" in shown
        assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[" * 3_000, "\udcff", '{"database": 5}', '{"database": "mysql://me:hunter2@x"}', "{}"]
)
def test_a_damaged_file_is_named_with_what_to_do_and_not_quoted(cli: Cli, text: str) -> None:
    cli.ok("status")
    (cli.home / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    done = cli("status")
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: {cli.home / 'config.json'} is damaged. Remove it, and set the database again: "
        "queuectl config set database URL\n"
    )


def test_without_psycopg_the_error_says_what_to_install(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ImportError('not here')")
    done = cli("list", QUEUECTL_DB="postgresql://me:hunter2@server/q", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: PostgreSQL needs psycopg. Install it: pip install 'psycopg[binary]>=3.2'\n"


# --- servers that cannot be used: one line, within seconds, without the password ---


def urls_that_fail(server: Server) -> dict[str, tuple[str, str]]:
    here = f"127.0.0.1:{server.port}"
    password = Server.ENCODED
    return {
        "nobody listens": (f"postgresql://me:{password}@127.0.0.1:1/q", "Connection refused. Is the server running"),
        "unknown host": (f"postgresql://me:{password}@nowhere.invalid/q", "Is the host's name right"),
        "wrong password": (f"postgresql://careful:hunter2@{here}/postgres", "Give the user and password"),
        "no password": (f"postgresql://careful@{here}/postgres", "Give the user and password"),
        "unknown user": (f"postgresql://nobody:{password}@{here}/postgres", "Give the user and password"),
        "no database": (f"postgresql://careful:{password}@{here}/missing", "Make it first: createdb NAME"),
        "may not": (f"postgresql://careful:{password}@{here}/postgres", "GRANT CREATE ON DATABASE"),
        "unknown option": (f"postgresql://careful:{password}@{here}/postgres?colour=red", "Set it right"),
        "bad port": (f"postgresql://careful:{password}@127.0.0.1:high/postgres", "Set it right"),
        "in the query": (f"postgresql://{here}/missing?user=careful&password={password}", "Make it first"),
    }


@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
def test_a_server_that_cannot_be_used_is_reported_in_one_line_without_the_password(
    cli: Cli, server: Server, debug: bool
) -> None:
    for name, (url, advice) in urls_that_fail(server).items():
        done = cli(*["--debug"] * debug, "enqueue", "true", QUEUECTL_DB=url, timeout=15)
        assert (done.returncode, done.stdout) == (1, ""), name
        assert advice in done.stderr, (name, done.stderr)
        assert not any(secret in done.stderr for secret in SECRETS), name
        assert debug or (done.stderr.count("\n") == 1 and done.stderr.startswith(f"Error: {masked(url)}: ")), name


def test_nobody_sees_the_password_of_a_queue_at_work(cli: Cli, server: Server) -> None:
    """Neither in a process listing, nor in a worker's log when the server goes away, nor in what any command says."""
    database = server.new_database()
    cli.env["QUEUECTL_DB"] = url = f"postgresql://careful:{Server.ENCODED}@127.0.0.1:{server.port}/{database}"
    said = [cli.ok("config", "set", "heartbeat-interval", "0.5"), cli.ok("config", "list")]
    said.append(cli.ok("worker", "start", "--count", "2"))
    cli.ok("enqueue", "--id", "busy", "while [ ! -e go ]; do sleep 0.05; done")
    eventually(lambda: state(cli, "busy") == "processing")
    listing = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert any(worker.name in listing for worker in workers(cli))
    known = [worker.pid for worker in workers(cli)]
    server.stop()
    try:
        logs = list((cli.home / "logs").glob("worker-*.log"))
        eventually(lambda: all("trying again" in log.read_text() for log in logs))
        said += [cli(*words).stderr for words in (["status"], ["worker", "start"], ["--debug", "list"])]
    finally:
        server.start()
    eventually(lambda: all("can be used again" in log.read_text() for log in logs))
    (cli.cwd / "go").touch()
    eventually(lambda: state(cli, "busy") == "completed")
    said.append(cli.ok("worker", "stop"))
    assert not any(map(lives, known))
    everything = [listing, *said, *(log.read_text() for log in logs), (cli.home / "workers.json").read_text()]
    assert masked(url) in "".join(everything)
    assert not any(secret in text for text in everything for secret in SECRETS)


def test_a_worker_that_fails_leaves_no_password_in_the_traceback_of_its_log(cli: Cli, server: Server) -> None:
    """Broken on purpose, with the database open."""
    cli.env["QUEUECTL_DB"] = f"postgresql://careful:{Server.ENCODED}@127.0.0.1:{server.port}/{server.new_database()}"
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n"
        "from queuectl import worker\n"
        "def work(self):\n"
        "    self.storage._connection.close(); self.storage._in_transaction = True; self.storage.run('meta')\n"
        "worker.WorkerProcess.work = work\nworker.QueueError = KeyError\nsys.exit(worker.main())"
    )
    done = subprocess.run([sys.executable, "-c", code, "--name", "w-broken"], env=cli.env, timeout=30)
    assert done.returncode == 1
    log = (cli.home / "logs" / "worker-w-broken.log").read_text()
    assert "Traceback" in log and "the connection is closed" in log
    assert not any(secret in log for secret in SECRETS)
    open_queue(cli).close()
