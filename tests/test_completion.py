"""Completion: live, silent, and without making anything; in a real bash where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import SCRIPT, Cli


def offered(cli: Cli, *words: str, shell: str = "zsh") -> dict[str, str]:
    """What could stand in the place of the last word, with its help."""
    place = str(len(words))
    env = {"COMP_WORDS": " ".join(["queuectl", *words]), "COMP_CWORD": place, "_QUEUECTL_COMPLETE": f"{shell}_complete"}
    done = cli(**env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    lines = done.stdout.splitlines()
    return dict(zip(lines[1::3], lines[2::3]))


@pytest.fixture
def filled(cli: Cli) -> Cli:
    cli.ok("enqueue", "--id", "alpha", "--label", "films", "echo 1")
    cli.ok("enqueue", "--id", "alps", "echo 2")
    cli.ok("enqueue", "--id", "beta", "echo 3")
    cli.ok("cancel", "alps")
    return cli


def test_commands_options_and_subcommands(cli: Cli) -> None:
    assert {"enqueue", "wait", "why", "worker", "completion"} <= offered(cli, "").keys()
    assert offered(cli, "wo").keys() == {"worker"}
    assert {"start", "stop", "list", "health", "autostart"} == offered(cli, "worker", "").keys()
    assert {"--follow", "--stderr", "--attempt", "--tail"} <= offered(cli, "logs", "--").keys()


def test_job_ids_are_those_that_the_command_can_do_something_to(filled: Cli) -> None:
    assert list(offered(filled, "show", "")) == ["last", "beta", "alps", "alpha"], "the newest first"
    assert offered(filled, "show", "al") == {"alps": "cancelled echo 2", "alpha": "pending echo 1"}
    assert offered(filled, "cancel", "").keys() == {"last", "alpha", "beta"}
    assert offered(filled, "retry", "").keys() == {"alps"}, "the newest one has not ended"
    assert {"bash", "none"} <= offered(filled, "enqueue", "--shell", "").keys()
    assert offered(filled, "config", "set", "log_format", "").keys() == {"text", "json"}
    assert offered(filled, "wait", "al").keys() == {"alpha"}
    assert offered(filled, "dlq", "retry", "").keys() == set()
    assert {"alpha", "beta"} <= offered(filled, "enqueue", "--after", "").keys()


def test_an_old_job_is_found_by_the_beginning_of_its_id(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "ancient", "true")
    cli.ok("enqueue", "--file", "-", input="true\n" * 600)
    assert "ancient" not in offered(cli, "show", "")
    assert offered(cli, "show", "anc").keys() == {"ancient"}
    assert len(offered(cli, "cancel", "")) == 51, "and no more than one can look through"


def test_states_labels_settings_and_their_values(filled: Cli) -> None:
    assert offered(filled, "list", "--state", "p").keys() == {"pending", "processing"}
    assert offered(filled, "enqueue", "--label", "").keys() == {"films"}
    assert "max_retries" in offered(filled, "config", "get", "")
    assert offered(filled, "config", "set", "max-r").keys() == {"max-retries"}
    filled.ok("config", "set", "max-retries", "9")
    assert offered(filled, "config", "set", "max-retries", "").keys() == {"9", "3"}
    assert "off" in offered(filled, "config", "set", "aging", "")
    assert offered(filled, "completion", "").keys() == {"bash", "zsh", "fish", "powershell"}


def test_queues_and_schedules_by_their_names(cli: Cli) -> None:
    cli.ok("queue", "add", "gpu")
    cli.ok("enqueue", "--queue", "gpu", "true")
    cli.ok("queue", "pause", "gpu")
    cli.ok("schedule", "add", "backup", "--every", "1d", "backup.sh")
    assert offered(cli, "queue", "resume", "") == {
        "default": "0 waiting, 0 running",
        "gpu": "paused, 1 waiting, 0 running",
    }
    for words in (["list", "--queue"], ["enqueue", "--queue"], ["worker", "start", "--queue"], ["wait", "--queue"]):
        assert offered(cli, *words, "g").keys() == {"gpu"}, words
    assert offered(cli, "dlq", "purge", "--queue", "g").keys() == {"gpu"}
    assert offered(cli, "schedule", "remove", "") == {"backup": "backup.sh"}
    assert offered(cli, "queue", "add", "") == offered(cli, "schedule", "add", "") == {}, "it is still to be made"


def test_asking_makes_no_home_and_says_nothing_of_errors(cli: Cli) -> None:
    for words in (["show", ""], ["enqueue", "--label", ""], ["config", "set", "aging", ""]):
        offered(cli, *words)
    assert not cli.home.exists()
    (cli.home / "logs").mkdir(parents=True)
    (cli.home / "queuectl.db").write_bytes(b"no database" * 1000)
    assert offered(cli, "show", "") == {}
    (cli.home / "config.json").write_text("no JSON")
    assert offered(cli, "show", "") == {}
    shutil.rmtree(cli.home)


def test_powershell_asks_in_its_own_way(filled: Cli) -> None:
    env = {"COMP_WORDS": "queuectl\nshow", "COMP_WORD": "al", "_QUEUECTL_COMPLETE": "powershell_complete"}
    assert filled(**env).stdout == "alps\tcancelled echo 2\nalpha\tpending echo 1\n"
    env = {"COMP_WORDS": "queuectl\nenqueue", "_QUEUECTL_COMPLETE": "powershell_complete"}
    assert filled(**env).stdout.strip() == "", "it completes files by itself when it is told nothing"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_the_script_asks_for_its_own_shell(cli: Cli, shell: str) -> None:
    script = cli.ok("completion", shell)
    assert f"{shell}_complete" in script and "_QUEUECTL_COMPLETE" in script
    assert not cli.home.exists()


def test_a_shell_that_nobody_knows_is_refused(cli: Cli) -> None:
    done = cli("completion", "cmd")
    assert done.returncode == 2 and "powershell" in done.stderr


# What completes `queuectl cancel al`, and prints it a line each. zsh completes only in its line editor, so a
# stand-in hands it the words; zsh itself runs the rest of the script.
BY_SHELL = {
    "bash": """
        eval "$(queuectl completion bash)"
        [[ $(complete -p queuectl) == *-F* ]] || exit 9
        COMP_WORDS=(queuectl cancel al) COMP_CWORD=2
        $(complete -p queuectl | sed 's/.*-F \\([^ ]*\\).*/\\1/') queuectl al cancel
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "fish": """
        queuectl completion fish | source
        complete --do-complete "queuectl cancel al" | string split --fields 1 (printf "\\t")
    """,
    "zsh": """
        autoload -U compinit && compinit -D
        source <(queuectl completion zsh)
        [[ $_comps[queuectl] == _queuectl_completion ]] || exit 9
        _describe() { print -l -- ${(P)3%%:*} }
        words=(queuectl cancel al) CURRENT=3
        _queuectl_completion
    """,
}


@pytest.mark.parametrize("shell", BY_SHELL)
def test_a_real_shell_completes(filled: Cli, tmp_path: Path, shell: str) -> None:
    program = None if sys.platform == "win32" else shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    command = tmp_path / "bin" / "queuectl"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SCRIPT}" "$@"\n')
    command.chmod(0o755)
    env = {**filled.env, "HOME": str(tmp_path), "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([program, "-c", BY_SHELL[shell]], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "alpha\n"), done.stderr
