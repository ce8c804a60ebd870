"""`queuectl web`: it starts, says where it is, and ends; who else has its port; who may reach it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Cli, eventually
from web import Web

from queuectl.storage import Sample
from queuectl.web.address import Address, must_be_meant
from queuectl.web.chart import minutes


def test_it_prints_its_address_with_the_token_in_it(cli: Cli, start_web: Callable[..., Web]) -> None:
    web = start_web()
    assert web.said == [f"The dashboard is at http://127.0.0.1:{web.port}/?token={web.token}\n"]
    assert web.ask("GET", "/", web.enter()).status == 200


@pytest.mark.skipif(os.name == "nt", reason="a test cannot press Ctrl+C for one process of its own console there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_or_a_signal_ends_it_with_a_line(cli: Cli, start_web: Callable[..., Web], number: int) -> None:
    web = start_web()
    assert web.get("/api/stats").status == 200
    web.process.send_signal(number)
    assert web.rest() == "Ctrl+C ends it.\nThe dashboard has ended.\n"
    assert web.process.returncode == 0
    assert not (cli.home / "web.json").exists()


def test_a_second_one_on_the_same_port_is_told_of_the_first(cli: Cli, start_web: Callable[..., Web]) -> None:
    web = start_web()
    done = cli("web", "--port", str(web.port))
    assert done.returncode == 1
    assert done.stderr == f"Error: A dashboard of this queue runs there already: {web.url}\n"


def test_of_two_dashboards_the_one_that_lives_is_told_of(cli: Cli, start_web: Callable[..., Web]) -> None:
    first, second = start_web(), start_web()
    first.process.terminate()
    first.process.wait()
    done = cli("web", "--port", str(second.port))
    assert done.stderr == f"Error: A dashboard of this queue runs there already: {second.url}\n"


def test_who_finds_another_program_on_its_port_is_told_what_to_do(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = cli("web", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: Port {port} is in use by another program. Choose another: queuectl web --port {port + 1}\n"
    )


def test_a_dashboard_that_was_killed_is_not_taken_for_one_that_runs(cli: Cli, start_web: Callable[..., Web]) -> None:
    web = start_web()
    web.process.kill()
    web.process.wait()
    assert (cli.home / "web.json").exists()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", web.port))
        taken.listen()
        assert "by another program" in cli("web", "--port", str(web.port)).stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_are_let_in_only_on_purpose(cli: Cli, host: str) -> None:
    done = cli("web", "--port", "0", "--host", host)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "--allow-remote" in done.stderr and "whoever has the token can run commands as you" in done.stderr


def test_with_allow_remote_it_goes_by_the_names_of_the_machine(cli: Cli, start_web: Callable[..., Web]) -> None:
    web = start_web("--host", "0.0.0.0", "--allow-remote")
    web.host = "127.0.0.1"
    assert "Other machines may reach it, unencrypted" in "".join(web.said)
    for name in ("127.0.0.1", socket.gethostname()):
        assert web.get("/api/stats", Host=f"{name}:{web.port}").status == 200
    assert web.get("/api/stats", Host=f"evil.example:{web.port}").status == 403


def test_a_host_that_nobody_knows_is_refused_in_one_line(cli: Cli) -> None:
    for host in ("no.such.host.invalid", "", "a b", "ä" * 100):
        done = cli("web", "--port", "0", "--host", host)
        assert done.returncode == 2 and done.stderr.startswith("Error: --host") and done.stderr.count("\n") == 1


def test_loopback_needs_no_permission() -> None:
    for host in ("127.0.0.1", "127.0.0.2", "localhost"):
        must_be_meant(Address(host, 0), allow_remote=False)


def test_a_damaged_database_is_told_before_anything_is_served(cli: Cli) -> None:
    cli.ok("enqueue", "echo 1")
    for path in cli.home.glob("queuectl.db-*"):
        path.unlink()
    (cli.home / "queuectl.db").write_bytes(b"not a database" * 1000)
    done = cli("web", "--port", "0")
    assert done.returncode == 1 and "not a database" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a browser is stood in for by a program on the PATH")
def test_open_lets_one_browser_in_once_and_does_not_show_it_the_token(
    cli: Cli, start_web: Callable[..., Web], tmp_path: Path
) -> None:
    browser = tmp_path / "xdg-open"
    browser.write_text(f'#!/bin/sh\ncd {tmp_path} && printf %s "$1" > new && mv new opened\n')
    browser.chmod(0o755)
    cli.env["PATH"] = f"{tmp_path}{os.pathsep}{cli.env['PATH']}"
    web = start_web("--open")
    eventually((tmp_path / "opened").exists)
    opened = (tmp_path / "opened").read_text()
    assert opened.startswith(f"{web.origin}/?token=") and web.token not in opened
    path = opened.removeprefix(web.origin)
    assert "Set-Cookie" in web.ask("GET", path).headers
    assert web.ask("GET", path).status == 401, "only once"


def test_it_follows_a_database_file_that_was_replaced(cli: Cli, start_web: Callable[..., Web], tmp_path: Path) -> None:
    if os.name == "nt":
        pytest.skip("Windows replaces no file that is open")
    cli.ok("enqueue", "--id", "one", "echo 1")
    cli.ok("db", "backup", str(tmp_path / "copy.db"))
    web = start_web()
    cli.ok("cancel", "one")
    eventually(lambda: web.get("/api/jobs/one").json["state"] == "cancelled")
    for name in ("queuectl.db", "queuectl.db-wal", "queuectl.db-shm"):
        (cli.home / name).unlink(missing_ok=True)
    os.replace(tmp_path / "copy.db", cli.home / "queuectl.db")
    assert {web.get("/api/jobs/one").json["state"] for _ in range(20)} == {"pending"}


def test_nothing_of_it_is_loaded_by_other_commands(cli: Cli) -> None:
    done = cli("status", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "click" in loaded and not loaded & {"flask", "werkzeug", "jinja2", "waitress", "prometheus_client"}


# --- the charts ---


def sample(minute: int, completed: int, waiting: int, running: int = 0) -> Sample:
    return Sample(minute, completed, 0, 0, waiting, running)


def test_what_lies_between_two_samples_happened_in_the_minute_of_the_first() -> None:
    found = minutes([sample(11, 5, 9), sample(12, 7, 6)], sample(13, 8, 4, 1), 10)
    assert [(one.minute, one.completed, one.waiting, one.running) for one in found] == [
        (10, 0, 9, 0),
        (11, 2, 6, 0),
        (12, 1, 4, 1),
        (13, 0, 4, 1),
    ]


def test_in_a_minute_without_a_sample_nothing_has_happened() -> None:
    found = minutes([sample(10, 5, 9)], sample(13, 8, 4), 10)
    assert [(one.completed, one.waiting) for one in found] == [(3, 4), (0, 4), (0, 4), (0, 4)]


def test_without_any_sample_the_chart_is_flat() -> None:
    found = minutes([], sample(13, 8, 4, 2), 10)
    assert [(one.completed, one.waiting, one.running) for one in found] == [(0, 4, 2)] * 4
