"""The arrows of the design: they point down only, and a room never reaches back up."""

from __future__ import annotations

import ast
import graphlib
import os
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Cli

PACKAGE = ROOT / "queuectl"
OURS = "queuectl"


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(module: str) -> set[str]:
    """Every module that this one names in an import, wherever it stands: also in functions and for types only."""
    found: set[str] = set()
    path = FILES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            # `from queuectl import render` names a module, `from queuectl.job import Job` what is in one.
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in FILES else base)
    # The command line loads its commands by their names.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if name in FILES and name != OURS:
                found.add(name)
    return found - {module}


IMPORTS = {module: imports_of(module) for module in FILES}


def ours(module: str) -> set[str]:
    return {name for name in IMPORTS[module] if name.split(".")[0] == OURS}


def everything_under(module: str) -> set[str]:
    """The module and all modules of the house that it imports, directly or not."""
    found, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(ours(name) & FILES.keys())
    return found


def room(module: str) -> str:
    """The room of the design that a module stands in: a package is one room."""
    return module.split(".")[1] if "." in module else module


def in_room(*rooms: str) -> list[str]:
    found = [module for module in FILES if room(module) in rooms]
    assert {room(module) for module in found} == set(rooms), "a room that is not there cannot be checked"
    return found


# --- can the checks themselves see? ---


def test_the_checks_see_plain_lazy_and_named_imports() -> None:
    assert "queuectl.job" in ours("queuectl.queue"), "plain"
    assert "queuectl.liveness" in ours("queuectl.cli.hand_in"), "inside a function"
    assert "tabulate" in IMPORTS["queuectl.render"], "of somebody else's, inside a function"
    assert "queuectl.platforms" in ours("queuectl.housekeeping"), "`from queuectl import platforms`"
    assert "queuectl.cli.dlq" in ours("queuectl.cli.commands"), "by a name in a table"
    assert "click" in {name.split(".")[0] for module in everything_under("queuectl.cli") for name in IMPORTS[module]}


# --- the arrows ---


def test_no_arrow_leads_back_to_where_it_came_from() -> None:
    graph: dict[str, set[str]] = {}
    for module in FILES:
        graph.setdefault(room(module), set()).update(room(name) for name in ours(module) if name != OURS)
    for name, below in graph.items():
        below.discard(name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"rooms import each other in a circle: {' → '.join(reversed(error.args[1]))}")


def test_only_who_launches_it_imports_the_command_line() -> None:
    above = {module for module in FILES if room(module) != "cli" and any(room(name) == "cli" for name in ours(module))}
    assert above == {"queuectl.__main__"}
    launcher = ast.parse((ROOT / "queuectl.py").read_text(encoding="utf-8"))
    found = {node.module for node in ast.walk(launcher) if isinstance(node, ast.ImportFrom)}
    assert found == {"queuectl.cli"} and not any(isinstance(node, ast.Import) for node in ast.walk(launcher))


@pytest.mark.parametrize(
    "module", in_room("storage", "job", "fields", "config", "ranking", "errors", "times", "clock", "home")
)
def test_what_is_at_the_bottom_reaches_nothing_above(module: str) -> None:
    upper = {
        "cli",
        "web",
        "worker",
        "worker_manager",
        "workers_file",
        "runner",
        "recovery",
        "render",
        "shapes",
        "queue",
        "follow",
        "moving",
        "backup",
        "checking",
        "why",
        "estimates",
        "waiting",
        "housekeeping",
        "patience",
        "stopping",
        "screen",
    }
    assert not {room(name) for name in everything_under(module)} & upper


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("queuectl.errors", set()),
        ("queuectl.times", {"errors"}),
        ("queuectl.ranking", {"errors", "times"}),
        ("queuectl.config", {"errors", "times", "ranking"}),
        ("queuectl.job", {"errors", "times"}),
        ("queuectl.fields", {"errors", "times", "ranking", "config", "job"}),
    ],
)
def test_what_is_pure_knows_only_what_is_pure(module: str, allowed: set[str]) -> None:
    assert {room(name) for name in ours(module)} <= allowed
    for name in everything_under(module):
        used = {found.split(".")[0] for found in IMPORTS[name]}
        assert not used & {"sqlite3", "socket", "signal", "threading", "time", "random", "click", "psutil"}


def test_an_engine_is_chosen_in_one_place_only() -> None:
    engines = {"queuectl.storage.sqlite", "queuectl.storage.postgres"}
    assert [module for module in FILES if ours(module) & engines] == ["queuectl.storage"]
    users = {module for module in FILES if IMPORTS[module] & {"sqlite3", "psycopg"}}
    assert users <= engines and "queuectl.storage.sqlite" in users


def test_a_worker_loads_no_click_no_flask_and_no_tables() -> None:
    modules = everything_under("queuectl.worker")
    assert {"queuectl.runner", "queuectl.storage.sqlite", "queuectl.platforms.posix"} <= modules
    used = {name.split(".")[0] for module in modules for name in IMPORTS[module]}
    assert not used & {"click", "flask", "tabulate"}
    assert not {room(module) for module in modules} & {"cli", "web", "render", "queue", "worker_manager"}


def test_only_the_dashboard_loads_what_serves_it() -> None:
    serving = {"flask", "werkzeug", "waitress", "prometheus_client"}
    users = {module for module in FILES if {name.split(".")[0] for name in IMPORTS[module]} & serving}
    assert users and {room(module) for module in users} == {"web"}
    above = {module for module in FILES if room(module) != "web" and any(room(name) == "web" for name in ours(module))}
    assert above == {"queuectl.cli.web"}


def test_the_dashboard_knows_nothing_of_the_command_line_and_its_tables() -> None:
    for module in in_room("web"):
        assert not {room(name) for name in everything_under(module)} & {"cli", "render", "screen"}
        used = {name.split(".")[0] for found in everything_under(module) for name in IMPORTS[found]}
        assert not used & {"click", "tabulate"}


def test_who_starts_workers_does_not_import_them() -> None:
    assert [module for module in FILES if "queuectl.worker" in ours(module)] == []
    assert "queuectl.worker" not in everything_under("queuectl.worker_manager")


MIDDLE = [
    "worker_manager",
    "runner",
    "recovery",
    "queue",
    "retrying",
    "follow",
    "metrics",
    "moving",
    "backup",
    "checking",
    "why",
    "estimates",
    "waiting",
    "housekeeping",
    "patience",
    "stopping",
    "shapes",
    "printed",
]


@pytest.mark.parametrize("module", in_room(*MIDDLE))
def test_the_middle_knows_nothing_of_how_things_are_shown(module: str) -> None:
    assert not {room(name) for name in everything_under(module)} & {"cli", "web", "render"}
    used = {name.split(".")[0] for found in everything_under(module) for name in IMPORTS[found]}
    assert not used & {"click", "flask", "tabulate"}


@pytest.mark.parametrize("module", in_room("platforms"))
def test_the_platforms_know_nothing_of_the_house(module: str) -> None:
    assert {room(name) for name in ours(module) - {OURS}} <= {"platforms"}


def test_nobody_but_the_platforms_looks_behind_their_interface_or_asks_which_one_it_is() -> None:
    behind = {"queuectl.platforms.posix", "queuectl.platforms.windows"}
    assert [module for module in FILES if ours(module) & behind and room(module) != "platforms"] == []
    own = {"fcntl", "pty", "resource", "termios", "msvcrt", "winreg", "_winapi", "ctypes"}
    users = {module for module in FILES if IMPORTS[module] & own}
    assert {room(module) for module in users} <= {"platforms"}


def test_render_shows_and_does_not_ask_the_database() -> None:
    assert "queuectl.queue" not in ours("queuectl.render")
    assert not any(name.startswith("queuectl.cli") for name in ours("queuectl.render"))


# --- what a command loads ---


def loaded(cli: Cli, *args: str) -> set[str]:
    """The modules that a command loads, as `python -X importtime` tells."""
    done = cli(*args, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def test_enqueue_loads_nothing_that_is_slow(cli: Cli) -> None:
    for args in (
        ["enqueue", "true"],
        ["enqueue", '{"command": "true", "delay": "1d"}'],
        ["enqueue", "--", "echo", "a b"],
    ):
        found = loaded(cli, *args)
        assert {"queuectl.queue", "queuectl.storage.sqlite"} <= found, "or it would prove nothing"
        assert ("click" in found) == (len(args) > 2), "the plainest call of all needs no parser"
        slow = {
            "psutil",
            "tabulate",
            "flask",
            "psycopg",
            "hashlib",
            "_hashlib",
            "subprocess",
            "logging",
            "ssl",
            "socket",
        }
        slow |= {"asyncio", "argparse", "tempfile", "random", "difflib", "shutil", "urllib", "email", "pathlib"}
        if os.name == "nt" and "--" in args:
            slow.remove("subprocess")  # it knows how Windows quotes a list
        assert not {name for name in found if name.split(".")[0] in slow}
        assert (
            not {f"{OURS}.{name}" for name in ("render", "worker", "worker_manager", "runner", "metrics", "moving")}
            & found
        )


def test_a_worker_process_loads_no_click() -> None:
    import subprocess

    code = (
        "import sys, queuectl.worker; print(*(name for name in ('click', 'flask', 'tabulate') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_nobody_uses_os_kill() -> None:
    """By a bare pid it may hit another process; on Windows os.kill(pid, 0), meant as a question, is Ctrl+C."""
    assert [path.name for path in PACKAGE.rglob("*.py") if "os.kill" in path.read_text(encoding="utf-8")] == []
