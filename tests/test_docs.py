"""What the documentation says is true: its commands parse and run, its tables and shapes are those of the code."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from queuectl import __version__
from queuectl.cli.commands import cli as root_command
from queuectl.config import SETTINGS, Settings
from queuectl.fields import CHECKS
from queuectl.job import State
from queuectl.web.openapi import PATHS, SCHEMAS

from .conftest import ROOT, Cli

DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
JSON_PAGE = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# --- reading the pages ---


def section(page: str, title: str) -> str:
    """What stands under a heading, up to the next one of its rank or a higher one."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title!r}"
    return found[2]


def table(text: str) -> list[list[str]]:
    """The rows of the first table, without its heading."""
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert lines, "there is no table"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[0].splitlines()[2:]]


def bare(cell: str) -> str:
    return cell.strip("` ")


def blocks(page: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(page) if language in languages]


def prose(page: str) -> str:
    return FENCE.sub("", page)


def command_lines(page: str) -> Iterator[str]:
    """Every line of code that a reader might copy: of the blocks, and between backquotes."""
    for block in blocks(page, "sh", "powershell"):
        yield from block.splitlines()
    for block in blocks(page, "console"):
        yield from (line[2:] for line in block.splitlines() if line.startswith("$ "))
    yield from re.findall(r"`([^`\n]+)`", prose(page))


def calls(line: str) -> list[list[str]]:
    """The arguments of each queuectl that a line of shell calls."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&{}")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a lone quote: this is no command line
        return []
    found: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("();<>|&{}"):
            found.append([])
        else:
            found[-1].append(word)
    arguments = []
    for call in found:
        for launcher in (["queuectl"], ["python", "queuectl.py"], ["python", "-m", "queuectl"]):
            if call[: len(launcher)] == launcher and call[len(launcher) :] not in ([], ["…"]):
                arguments.append(call[len(launcher) :])
    return arguments


# --- the commands ---


def commands(command: click.Command = root_command, path: str = "queuectl") -> Iterator[tuple[str, click.Command]]:
    """Every command and subcommand, by what one types to call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, **command.context_settings)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, f"{path} {name}")


COMMANDS = dict(commands())
LEAVES = {path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)}


def parse(arguments: list[str]) -> None:
    """Parse as the command line would, without running anything; raises what a user would be told."""
    command: click.Command = root_command
    context = click.Context(command, info_name="queuectl", **command.context_settings)
    rest = list(arguments)
    while isinstance(command, click.Group):
        _, rest, _ = command.make_parser(context).parse_args(rest)
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            raise click.UsageError(f"no such command: {arguments}")
        command, name, rest = found, rest[0], rest[1:]
        context = click.Context(command, parent=context, info_name=name)
    command.make_context(context.info_name, rest, parent=context.parent)


def test_the_whole_tree_of_commands_is_seen() -> None:
    assert {"queuectl enqueue", "queuectl worker start", "queuectl dlq purge", "queuectl config unset"} <= set(LEAVES)
    assert "queuectl worker" in COMMANDS and "queuectl worker" not in LEAVES


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_with_an_example_that_parses(path: str) -> None:
    help = inspect.cleandoc(COMMANDS[path].help or "")
    found = re.search(r"^Examples?:\n((?:  .+\n?)+)", help, re.MULTILINE)
    assert found, f"{path} --help shows no example"
    examples = [line.strip() for line in found[1].splitlines()]
    assert any(line.startswith(path) for line in examples)
    for line in examples:
        assert calls(line)
        for arguments in calls(line):
            parse(arguments)


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_is_in_the_readme_with_all_its_options(path: str) -> None:
    listed = [bare(row[0]) for row in table(section(README, "Commands"))]
    assert any(line == path or line.startswith(f"{path} ") for line in listed)
    options = [name for param in LEAVES[path].params if isinstance(param, click.Option) for name in param.opts]
    for name in options:
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", README), f"the README does not know {path} {name}"


@pytest.mark.parametrize("page", DOCS, ids=lambda path: path.name)
def test_every_queuectl_line_in_the_docs_parses(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [line for line in prose(text).splitlines() if line.count("`") % 2] == [], "code that goes over a line's end"
    for line in command_lines(text):
        for arguments in calls(line):
            try:
                parse(arguments)
            except click.ClickException as error:
                pytest.fail(f"{page.name}: {line}: {error.format_message()}")


def test_the_lines_of_the_docs_are_found() -> None:
    found = [arguments for line in command_lines(README) for arguments in calls(line)]
    assert ["run", "echo hello"] in found, "python queuectl.py, after &&"
    assert ["enqueue", "make all"] in found, "in $(…)"
    assert ["dlq", "retry", "ID"] in found, "in a block"
    assert ["worker", "stop", "--timeout", "10"] in found, "between backquotes"
    assert ["enqueue", "--id", "urgent", "--priority", "9", "echo me first"] in found, "after a prompt"


@pytest.mark.parametrize(
    "line",
    [
        "queuectl enqueu true",
        "queuectl dlq retri job1",
        "queuectl list --stat dead",
        "queuectl list --state sleeping",
        "queuectl metrics --recent many",
        "queuectl show",
        "python queuectl.py config get",
        "queuectl --verbose list",
    ],
)
def test_a_line_that_does_not_parse_is_noticed(line: str) -> None:
    [arguments] = calls(line)
    with pytest.raises(click.UsageError):
        parse(arguments)


# --- what the README shows ---


def masked(text: str) -> str:
    """Without what is different each time, and without the widths of columns, which follow from it."""
    for what, mask in (
        (r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d", "TIME"),
        (r"\bw-[0-9a-f]{6}\b", "WORKER"),
        (r"\bpid \d+", "pid PID"),
        (r"\d+(\.\d\d)? m?s\b", "SECONDS"),
        (r"^WORKER +\d+", "WORKER PID"),
        (r"\b\d+ MB\b", "MEMORY"),
        (r"^directory +.+", "directory DIRECTORY"),
        (r"-{3,}", "-"),
        (r" +", " "),
        (r" +$", ""),
    ):
        text = re.sub(what, mask, text, flags=re.MULTILINE)
    return text.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="the session is one with a POSIX shell")
def test_the_session_of_the_readme_is_real(cli: Cli) -> None:
    [session] = blocks(section(README, "A session"), "console")
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert len(steps) == session.count("\n$ ") + 1
    for line, shown in steps:
        [arguments] = calls(line)
        done = cli(*arguments)
        assert masked(done.stdout + done.stderr) == masked(shown), line


def test_nobody_is_told_to_install_what_the_package_index_has_under_this_name() -> None:
    """That is somebody else's program: what is installed is the checkout, or the packages that it needs."""
    code = [path for folder in ("queuectl", "benchmarks", "tests") for path in (ROOT / folder).rglob("*.py")]
    told = re.compile(r"(?:pip|pipx|uv tool) install\b[^`\n]*?[\s'\"]queuectl\b(?!\.py)")
    assert told.search("Install it: pip install --upgrade 'queuectl[otel]'")
    places = [path.name for path in [*DOCS, *code] if told.search(path.read_text(encoding="utf-8"))]
    assert places == [Path(__file__).name]  # the line above


def test_the_quick_start_installs_what_is_needed_and_runs_a_job(cli: Cli) -> None:
    quick_start = section(README, "Quick start")
    [line] = blocks(quick_start, "sh")
    install, _, first_job = line.strip().partition(" && ")
    assert install == "python -m pip install -r requirements.txt" and (ROOT / "requirements.txt").exists()
    [same_for_powershell] = blocks(quick_start, "powershell")
    assert same_for_powershell.strip() == f"{install}; if ($?) {{ {first_job} }}"
    words = shlex.split(first_job)
    assert words[0] == "python"
    done = subprocess.run(
        [sys.executable, *words[1:]], cwd=ROOT, env=cli.env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_worked_example_of_the_order_is_true(cli: Cli) -> None:
    rows = [[bare(cell) for cell in row] for row in table(section(README, "How the order works"))]
    for job, priority, *_ in rows:
        cli.ok("enqueue", "--id", job, "-p", priority, "true")
    turns = ["first", "second", "third", "fourth", "fifth"]
    shown = sorted(rows, key=lambda row: turns.index(row[4]))
    keys = ["id", "priority", "waiting_time", "effective_priority"]
    found = json.loads(cli.ok("list", "--state", "pending", "--json"))
    assert [[str(job[key]) for key in keys] for job in found] == [row[:4] for row in shown]


def test_the_readme_knows_every_state() -> None:
    assert [bare(row[0]) for row in table(section(README, "The states"))] == [state.value for state in State]


def test_the_readme_knows_every_setting_with_its_true_default() -> None:
    shown = {bare(name): bare(default) for name, default, *_ in table(section(README, "Settings"))}
    assert shown == {name: str(value) or "empty" for name, value in Settings()._asdict().items()}
    assert shown.keys() == SETTINGS.keys()


def test_the_readme_knows_every_key_of_a_job_that_is_handed_in() -> None:
    rows = table(section(README, "Describing a job"))
    assert [bare(row[1]) for row in rows] == list(CHECKS)
    options = {"depends_on": "--after"}  # as others call it
    assert all(options.get(key, f"--{key.replace('_', '-')}") in row[0] for row in rows for key in [bare(row[1])])


# --- what --json prints ---


Shape = dict[str, set[str]]


def documented(title: str) -> Shape:
    """Each key of a section's table, with the types that it may have."""
    return {bare(key): set(types.split(" or ")) for key, types, *_ in table(section(JSON_PAGE, title))}


def each(of: str, shape: Shape) -> Shape:
    return {f"{of}[].{key}": types for key, types in shape.items()}


JOB, WORKER, SETTING = documented("A job"), documented("A worker"), documented("Settings")
SCHEDULE = documented("A schedule")
SHAPES: dict[str, Shape] = {
    "list": each("", JOB),
    "dlq list": each("", JOB),
    "show": JOB | documented("What only show has"),
    "why": documented("Why"),
    "status": documented("Status")
    | each("queues", documented("A queue"))
    | each("workers", WORKER)
    | each("next", SCHEDULE),
    "worker list": each("", WORKER),
    "worker health": each("", WORKER),
    "worker autostart status": documented("Autostart"),
    "metrics": documented("Metrics"),
    "config list": SETTING,
    "config get": {"max_retries": SETTING["max_retries"]},
    "db check": documented("Check"),
    "queue list": each("", documented("A queue")),
    "schedule list": each("", SCHEDULE),
    "schedule show": SCHEDULE | documented("What only schedule show has"),
}


def type_of(value: Any) -> set[str]:
    """What JSON calls it; a whole number is a number too."""
    names = {
        bool: {"boolean"},
        int: {"integer", "number"},
        float: {"number"},
        str: {"string"},
        list: {"array"},
        dict: {"object"},
    }
    return names.get(type(value), {"null"})


def keys_of(value: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            yield here, type_of(inner)
            yield from keys_of(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, f"{path}[]")


def differences(value: Any, shape: Shape) -> list[str]:
    found: dict[str, list[set[str]]] = {}
    for key, types in keys_of(value):
        found.setdefault(key, []).append(types)
    return [
        *(f"{key} is not documented" for key in found if key not in shape),
        *(f"{key} is documented, and not there" for key in shape if key not in found),
        *(f"{key} is a {types}" for key in found for types in found[key] if not types & shape.get(key, types)),
    ]


def test_what_json_prints_is_what_is_documented(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "first", "exit 0")
    cli.ok("enqueue", "--id", "shaky", "--after", "first", "--max-retries", "1", "--backoff-base", "0", "exit 3")
    cli.ok("enqueue", "--id", "listed", "--after-any", "shaky", "--", sys.executable, "-c", "print('hello')")
    cli.ok("worker", "start")
    for job in ("shaky", "listed"):
        cli("logs", "-f", job)
    cli.ok("enqueue", "--id", "later", "--delay", "1h", "true")
    cli.ok("schedule", "add", "hourly", "--every", "1h", "true")
    arguments = {
        "show": ["show", "shaky"],
        "why": ["why", "shaky"],
        "schedule show": ["schedule", "show", "hourly"],
        "config get": ["config", "get", "max_retries"],
    }
    for command, shape in SHAPES.items():
        printed = json.loads(cli.ok(*arguments.get(command, command.split()), "--json"))
        assert differences(printed, shape) == [], command
    for job in ("listed", "later"):
        shown = json.loads(cli.ok("show", job, "--json"))
        shape = {
            key: types for key, types in SHAPES["show"].items() if "[]" not in key or shown[key.partition("[]")[0]]
        }
        assert differences(shown, shape) == [], job


def test_every_command_with_json_is_documented() -> None:
    with_json = {path for path, command in LEAVES.items() if any("--json" in param.opts for param in command.params)}
    assert with_json == {f"queuectl {command}" for command in SHAPES}
    lines = [bare(row[0]) for row in table(JSON_PAGE)]
    assert all(any(line.startswith(f"{path} ") for line in lines) for path in with_json)


def test_the_examples_of_json_have_the_documented_keys() -> None:
    examples = re.findall(r"^```console\n\$ queuectl (.*)\n```\n\n```json\n([^`]*)^```$", JSON_PAGE, re.MULTILINE)
    assert len(examples) == len(blocks(JSON_PAGE, "json"))
    for line, shown in examples:
        [command] = [name for name in SHAPES if line.startswith(f"{name} ")]
        assert differences(json.loads(shown), SHAPES[command]) == [], line


def test_a_key_too_many_too_few_or_of_another_type_is_noticed() -> None:
    shape: Shape = {"a": {"integer"}, "b": {"array"}, "b[].c": {"string", "null"}}
    assert differences({"a": 1, "b": [{"c": None}, {"c": "x"}]}, shape) == []
    assert len(differences({"a": 1, "b": [{"c": None, "d": 1}]}, shape)) == 1
    assert len(differences({"a": 1, "b": []}, shape)) == 1
    assert len(differences({"a": 1.5, "b": [{"c": 1}]}, shape)) == 2


# --- the pages themselves ---


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", DOCS, ids=lambda path: path.name)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(text)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), f"{page.name} links to {target}"


def test_the_readme_lists_every_page() -> None:
    listed = set(re.findall(r"^- \[[^\]]*\]\(([^)\s]+)\)", section(README, "Development"), re.MULTILINE))
    assert listed == {path.relative_to(ROOT).as_posix() for path in DOCS if path.name != "README.md"}


def test_the_changelog_knows_this_version() -> None:
    assert __version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def imported(path: Path) -> Iterator[Path]:
    """The files of the package that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "queuectl":
            base = ROOT.joinpath(*node.module.split("."))
            for place in [*(base / alias.name for alias in node.names), base]:
                yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file in MODULES)


MODULES = set((ROOT / "queuectl").rglob("*.py")) - {ROOT / "queuectl" / "__init__.py"}


def test_the_map_of_the_rooms_is_complete_and_its_arrows_point_down() -> None:
    [drawn, *_] = blocks(section(ARCHITECTURE, "The rooms and the arrows"), "text")
    lines = [line.partition("  ")[0].split(", ") for line in drawn.splitlines()]
    height = {ROOT / room: -number for number, rooms in enumerate(lines) for room in rooms}

    def height_of(path: Path) -> int:
        assert path in height or path.parent in height, f"{path} is not on the map"
        return height[path] if path in height else height[path.parent]

    arrows = [(path, used) for path in MODULES for used in imported(path)]
    assert (ROOT / "queuectl" / "worker.py", ROOT / "queuectl" / "platforms" / "__init__.py") in arrows
    assert [(path, used) for path, used in arrows if height_of(used) > height_of(path)] == []


# --- the API ---


def test_every_route_of_the_api_is_in_its_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(GET|POST) (/api/[^`?]*)", page, re.MULTILINE)
    routes = {(method.upper(), path) for path, found in PATHS.items() for method in found}
    assert len(listed) == len(set(listed)) and set(listed) == routes


def test_the_parameters_of_the_api_are_in_its_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for path, names in re.findall(r"^\| `GET (/api/[^`?]*)\??([^`]*)`", page, re.MULTILINE):
        documented = {parameter["name"] for parameter in PATHS[path]["get"]["parameters"]}
        assert set(filter(None, names.replace("=", "").split("&"))) == documented, path


def test_the_shapes_of_the_api_have_the_keys_of_json() -> None:
    """Some have more: what only the page needs is said in the page of the API."""
    more = {"Worker": {"cpu_percent"}, "Schedule": {"last_job", "next_times"}}
    for name in ("Job", "Worker", "Queue", "Schedule"):
        shape = SHAPES["list" if name == "Job" else f"{name.lower()} list"]
        documented = {key[3:].partition("[")[0] for key in shape if key.startswith("[].") and key.count(".") == 1}
        assert set(SCHEMAS[name]["properties"]) - more.get(name, set()) == documented, name


def test_every_metric_is_in_the_page_of_the_api() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    source = (ROOT / "queuectl" / "web" / "prometheus.py").read_text(encoding="utf-8")
    made = set(re.findall(r'"(queuectl_\w+)"', source))
    assert {name.removesuffix("_total") for name in re.findall(r"^\| `(queuectl_\w+)`", page, re.MULTILINE)} == made
