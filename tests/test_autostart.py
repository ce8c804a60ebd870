"""Workers at logon: what is written is really started here, and brings up as many workers as were asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, eventually
from processes import state, workers

WINDOWS = os.name == "nt"
KINDS = ["Run key"] if WINDOWS else ["systemd user unit", "XDG autostart entry"]

# What systemctl does with a unit of the user's, recorded. It is a fake: where tests run, no systemd runs.
SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$XDG_CONFIG_HOME/systemctl.log"
wants="$XDG_CONFIG_HOME/systemd/user/default.target.wants"
case "$2" in
enable) mkdir -p "$wants" && ln -sf "../$3" "$wants/$3" ;;
disable) rm -f "$wants/$3" ;;
esac
"""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(cli: Cli, kind: str, tmp_path: Path) -> Iterator[Cli]:
    """A user who logs on nowhere else: with a home, a configuration and a systemctl of their own."""
    cli.home = tmp_path / "my $HOME 100% \\ `queue`"
    if WINDOWS:
        cli.home = tmp_path / "my 100% queue"
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "config").mkdir()
    if not WINDOWS:
        answer = SYSTEMCTL if kind == KINDS[0] else "#!/bin/sh\nexit 1\n"
        (tools / "systemctl").write_text(answer)
        (tools / "systemctl").chmod(0o755)
    cli.env.update(
        QUEUECTL_HOME=str(cli.home),
        XDG_CONFIG_HOME=str(tmp_path / "config"),
        PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
    )
    yield cli
    cli("worker", "autostart", "disable")


def status(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli.ok("worker", "autostart", "status", "--json"))
    return found


def line(cli: Cli, key: str = "Exec") -> list[str]:
    """The command line that was written, split as who starts it would."""
    found = status(cli)
    if WINDOWS:
        return [registered(found["place"])]
    is_unit = found["kind"] == KINDS[0]
    key = "ExecStart" if is_unit and key == "Exec" else key
    [text] = re.findall(f"^{key}=(.*)$", Path(found["place"]).read_text(), re.MULTILINE)
    if not is_unit:
        text = text.replace("\\\\", "\\")  # as of every value in a desktop entry
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r'"((?:[^"\\]|\\.)*)"', text)]
    specials = "%$" if is_unit else "%"  # written twice where they are to mean nothing
    for letter in specials:
        assert letter not in "".join(words).replace(letter * 2, ""), f"a lone {letter} would be read as something else"
        words = [word.replace(letter * 2, letter) for word in words]
    return words


def registered(place: str) -> str:
    import winreg

    path, _, name = place.partition("\\")[2].rpartition("\\")
    with winreg.OpenKey(winreg.HKEY_CURRENT_USER, path) as key:
        return str(winreg.QueryValueEx(key, name)[0])


def log_on(cli: Cli) -> None:
    """Start what was written, without the environment of the one who wrote it."""
    words = line(cli)
    bare = {name: value for name, value in cli.env.items() if not name.startswith("QUEUECTL")}
    done = subprocess.run(words[0] if WINDOWS else words, env=bare, cwd="/", timeout=120, stdin=subprocess.DEVNULL)
    log = cli.home / "logs" / "autostart.log"
    assert done.returncode == 0, log.read_text() if log.exists() else words


def test_at_logon_there_are_as_many_workers_as_were_asked_for_and_no_more(user: Cli, kind: str) -> None:
    user.ok("enqueue", "--id", "left", "exit 0")
    said = user.ok("worker", "autostart", "enable", "--count", "2")
    assert said.startswith(f"2 workers will run from your next logon on, by the {kind} ")
    assert workers(user) == [], "not before"
    log_on(user)
    assert len(workers(user)) == 2
    eventually(lambda: state(user, "left") == "completed")
    names = {worker.name for worker in workers(user)}
    log_on(user)
    assert {worker.name for worker in workers(user)} == names, "they were there already"
    user.ok("worker", "autostart", "enable", "--count", "3")
    log_on(user)
    assert len(workers(user)) == 3 and names < {worker.name for worker in workers(user)}


def test_it_is_enabled_once_however_often_and_gone_when_it_is_disabled(user: Cli, kind: str) -> None:
    assert status(user)["enabled"] is False
    assert "No worker starts at logon" in user.ok("worker", "autostart", "disable")
    for count in ("2", "2", "5"):
        user.ok("worker", "autostart", "enable", "--count", count)
        found = status(user)
        assert (found["enabled"], found["current"], found["count"], found["kind"]) == (True, True, int(count), kind)
    shown = user.ok("worker", "autostart", "status")
    assert shown == f"5 workers at logon, by the {kind} {found['place']}.\n"
    assert found["place"] in user.ok("worker", "autostart", "disable")
    assert status(user)["enabled"] is False
    assert not WINDOWS or "None" in str(status(user)["place"])
    if not WINDOWS:
        config = Path(user.env["XDG_CONFIG_HOME"])
        assert [path.name for path in config.rglob("*") if not path.is_dir()] in ([], ["systemctl.log"])


def test_without_a_count_the_setting_holds(user: Cli) -> None:
    user.ok("config", "set", "worker-count", "4")
    user.ok("worker", "autostart", "enable")
    assert status(user)["count"] == 4


def test_each_home_has_an_entry_of_its_own_and_the_usual_one_the_plain_name(user: Cli, tmp_path: Path) -> None:
    user.ok("worker", "autostart", "enable", "--count", "1")
    mine = status(user)["place"]
    usual = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "QUEUECTL_HOME": ""}
    assert json.loads(user.ok("worker", "autostart", "status", "--json", **usual))["enabled"] is False
    try:
        user.ok("worker", "autostart", "enable", "--count", "2", **usual)
        other = json.loads(user.ok("worker", "autostart", "status", "--json", **usual))["place"]
        assert other.replace("\\", "/").rpartition("/")[2].partition(".")[0] == "queuectl"
        assert other != mine and status(user)["count"] == 1
    finally:
        user.ok("worker", "autostart", "disable", **usual)
    assert status(user)["place"] == mine


def test_status_says_when_it_no_longer_fits(user: Cli) -> None:
    user.ok("worker", "autostart", "enable", "--count", "2")
    tamper(user, lambda text: text.replace("at_logon.py", "elsewhere.py"))
    assert (status(user)["enabled"], status(user)["current"]) == (True, False)
    assert "enable --count 2" in user.ok("worker", "autostart", "status")
    user.ok("worker", "autostart", "enable", "--count", "2")
    assert status(user)["current"] is True


def tamper(cli: Cli, change: Any) -> None:
    place = status(cli)["place"]
    if not WINDOWS:
        Path(place).write_text(change(Path(place).read_text()))
        return
    import winreg

    path, _, name = place.partition("\\")[2].rpartition("\\")
    with winreg.CreateKey(winreg.HKEY_CURRENT_USER, path) as key:
        winreg.SetValueEx(key, name, 0, winreg.REG_SZ, change(registered(place)))


def test_a_database_of_the_environment_will_not_be_there_and_that_is_said(user: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{(tmp_path / 'other.db').as_posix()}"
    assert "QUEUECTL_DB will not be set" in user("worker", "autostart", "enable", QUEUECTL_DB=url).stderr
    assert "QUEUECTL_DB" not in user("worker", "autostart", "enable").stderr


# --- systemd ---

systemd = pytest.mark.skipif(WINDOWS, reason="only Linux has systemd")


@systemd
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_the_unit_is_enabled_through_systemctl_and_linger_is_explained(user: Cli) -> None:
    done = user("worker", "autostart", "enable", "--count", "2")
    assert "loginctl enable-linger" in done.stderr
    log = Path(user.env["XDG_CONFIG_HOME"]) / "systemctl.log"
    unit = Path(status(user)["place"]).name
    assert log.read_text().splitlines() == ["--user daemon-reload"] * 2 + [f"--user enable {unit}"]
    user.ok("worker", "autostart", "disable")
    assert log.read_text().splitlines()[3:] == [f"--user disable {unit}", "--user daemon-reload"]


@systemd
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_a_unit_that_was_disabled_by_hand_is_said_to_be_off(user: Cli) -> None:
    user.ok("worker", "autostart", "enable", "--count", "2")
    place = Path(status(user)["place"])
    (place.parent / "default.target.wants" / place.name).unlink()
    assert status(user)["enabled"] is False
    assert "switched off by other means" in user.ok("worker", "autostart", "status")


@systemd
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_stopping_the_unit_stops_its_workers(user: Cli) -> None:
    user.ok("worker", "autostart", "enable", "--count", "1")
    log_on(user)
    assert len(workers(user)) == 1
    subprocess.run(line(user, "ExecStop"), env=user.env, check=True, timeout=60)
    assert workers(user) == []


@systemd
@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit_for_a_good_one(user: Cli, tmp_path: Path) -> None:
    user.ok("worker", "autostart", "enable", "--count", "1")
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", status(user)["place"]],
        env={**user.env, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    complaints = [said for said in done.stderr.splitlines() if "queuectl" in said]
    assert complaints == []


@systemd
def test_systemd_or_the_desktop_never_both(user: Cli, kind: str) -> None:
    user.ok("worker", "autostart", "enable", "--count", "1")
    tools = Path(user.env["PATH"].partition(os.pathsep)[0])
    (tools / "systemctl").write_text("#!/bin/sh\nexit 1\n" if kind == KINDS[0] else SYSTEMCTL)
    user.ok("worker", "autostart", "enable", "--count", "1")
    assert status(user)["kind"] == next(other for other in KINDS if other != kind)
    config = Path(user.env["XDG_CONFIG_HOME"])
    written = [path for path in config.rglob("queuectl*") if not path.is_symlink()]
    assert len(written) == 1


# --- Windows ---

windows = pytest.mark.skipif(not WINDOWS, reason="only Windows has a Run key")


@windows
def test_the_run_key_starts_the_interpreter_that_has_no_console(user: Cli) -> None:
    user.ok("worker", "autostart", "enable", "--count", "1")
    assert "pythonw.exe" in registered(status(user)["place"])


@windows
def test_what_was_switched_off_in_the_task_manager_is_said_to_be_off(user: Cli) -> None:
    import winreg

    user.ok("worker", "autostart", "enable", "--count", "1")
    name = status(user)["place"].rpartition("\\")[2]
    approved = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
    with winreg.CreateKey(winreg.HKEY_CURRENT_USER, approved) as key:
        winreg.SetValueEx(key, name, 0, winreg.REG_BINARY, b"\x03" + bytes(11))
    assert status(user)["enabled"] is False
    user.ok("worker", "autostart", "enable", "--count", "1")
    assert status(user)["enabled"] is True


@windows
def test_a_line_too_long_for_the_run_key_is_in_a_file_that_it_names(user: Cli, tmp_path: Path) -> None:
    user.home = tmp_path / "ü".ljust(199 - len(str(tmp_path)), "h")
    user.env["QUEUECTL_HOME"] = str(user.home)
    user.ok("worker", "autostart", "enable", "--count", "1")
    assert len(registered(status(user)["place"])) <= 260
    assert (status(user)["current"], status(user)["count"]) == (True, 1)
    log_on(user)
    assert len(workers(user)) == 1
    [_, launcher] = registered(status(user)["place"]).split(" ", 1)
    path = Path(launcher.strip('"'))
    path.write_text(path.read_text(encoding="utf-8").replace("at_logon.py", "elsewhere.py"), encoding="utf-8")
    assert status(user)["current"] is False
    user.ok("worker", "autostart", "disable")
    assert not path.exists()


@windows
def test_the_python_of_the_microsoft_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from queuectl.platforms import windows_autostart

    monkeypatch.setattr(sys, "base_prefix", r"C:\Program Files\WindowsApps\PythonSoftwareFoundation.Python.3.12_x64")
    with pytest.raises(ValueError, match="of the Microsoft Store has a registry of its own"):
        windows_autostart.install("queuectl-test", ["pythonw.exe", "at_logon.py"], [])
    assert windows_autostart.find("queuectl-test") is None


@windows
def test_an_interpreter_whose_own_path_is_too_long_is_refused() -> None:
    from queuectl.platforms import windows_autostart

    with pytest.raises(ValueError, match="Windows takes 260 characters there"):
        windows_autostart.install("queuectl-test", ["p" * 260, "at_logon.py"], [])
    assert windows_autostart.find("queuectl-test") is None
