"""What is looked at before a job is stored: its directory, and its program where that can be told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from test_order import new_job

from queuectl.errors import InvalidInput
from queuectl.fields import to_json
from queuectl.job import NewJob
from queuectl.preflight import Preflight

posix = pytest.mark.skipif(sys.platform == "win32", reason="the lines are those of a POSIX shell")
windows = pytest.mark.skipif(sys.platform != "win32", reason="the lines are those of cmd.exe")


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    """A directory with one program, `tool`, and a file that is none, `notes`."""
    directory = tmp_path / "bin"
    directory.mkdir()
    tool = directory / ("tool.bat" if sys.platform == "win32" else "tool")
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (directory / "notes").write_text("hello")
    return directory


def warnings(job: NewJob, path: object = "", is_shared: bool = False, has_own_shell: bool = False) -> list[str]:
    said: list[str] = []
    Preflight({"PATH": str(path)}, is_shared, has_own_shell, False, said.append).look_at(job, "/")
    return said


@posix
@pytest.mark.parametrize(
    "line",
    [
        "tool",
        "tool --all; nosuch",
        "  tool|nosuch",
        "tool&&nosuch",
        "./tool",
        "echo nosuch",
        "cd /nosuch && nosuch",
        "if true; then nosuch; fi",
        "while true; do nosuch; done",
        "NAME=value nosuch",
        "$TOOL nosuch",
        "'nosuch' program",
        '"nosuch"',
        "(nosuch)",
        "{ nosuch; }",
        "[ -f nosuch ]",
        "! nosuch",
        "~/nosuch",
        "nosuch() { true; }",
        "no\\such",
        "# nosuch",
        "`nosuch`",
        ". ./nosuch",
        "nosuch*",
        "exec nosuch",
        ">nosuch true",
    ],
)
def test_what_is_found_or_is_not_plainly_a_program_is_not_warned_of(bin: Path, line: str) -> None:
    assert warnings(new_job(command=line, cwd=str(bin)), bin) == []


@windows
@pytest.mark.parametrize(
    "line",
    [
        "tool",
        "TOOL.BAT --all & nosuch",
        ".\\tool",
        "bin\\..\\tool",
        "echo nosuch",
        "ECHO.",
        "cd..",
        "dir/w",
        "D:",
        "d: && nosuch",
        "if exist nosuch nosuch",
        "(nosuch)",
        "@nosuch",
        "%TOOL% nosuch",
        '"nosuch" program',
        "start nosuch",
        "^nosuch",
        ">nosuch dir",
    ],
)
def test_what_cmd_finds_or_is_not_plainly_a_program_is_not_warned_of(bin: Path, line: str) -> None:
    assert warnings(new_job(command=line, cwd=str(bin)), bin) == []


@windows
@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("nosuch", "nosuch"),
        (" nosuch --all", "nosuch"),
        ("nosuch&tool", "nosuch"),
        ("nosuch>file", "nosuch"),
        (".\\nosuch", ".\\nosuch"),
        ("C:\\no\\such.exe /w", "C:\\no\\such.exe"),
        ("nosuch.py x", "nosuch.py"),
    ],
)
def test_a_program_that_cmd_does_not_find_is_warned_of(bin: Path, line: str, program: str) -> None:
    [said] = warnings(new_job(command=line, cwd=str(bin)), bin)
    assert said == f"Warning: no program {program!r} is found. The job fails unless it is there when the job runs."


@posix
@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("nosuch", "nosuch"),
        (" nosuch --all", "nosuch"),
        ("nosuch; true", "nosuch"),
        ("nosuch|tool", "nosuch"),
        ("nosuch>file", "nosuch"),
        ("./nosuch", "./nosuch"),
        ("/no/such arg", "/no/such"),
        ("notes", "notes"),
        ("./notes", "./notes"),
        ("g++-99 x.cc", "g++-99"),
    ],
)
def test_a_program_that_is_not_found_is_warned_of(bin: Path, line: str, program: str) -> None:
    [said] = warnings(new_job(command=line, cwd=str(bin)), bin)
    assert said == f"Warning: no program {program!r} is found. The job fails unless it is there when the job runs."


def test_a_list_names_its_program_whatever_it_looks_like(bin: Path) -> None:
    echo = 0 if sys.platform == "win32" else 1  # cmd.exe does it itself
    for program, count in (("tool", 0), ("nosuch", 1), ("echo", echo), ("no such", 1), ("./tool", 0)):
        job = new_job(argv=to_json([program, "x"]), command="x", cwd=str(bin))
        assert len(warnings(job, bin)) == count, program


def test_the_path_is_that_of_the_job(bin: Path) -> None:
    job = new_job(command="tool", env=to_json({"PATH": f"/nosuch{os.pathsep}{bin}"}))
    assert warnings(job, "/nosuch") == []
    assert len(warnings(job._replace(env=to_json({"PATH": "/nosuch"})), bin)) == 1


def test_a_shell_that_the_user_has_set_may_know_other_words(bin: Path) -> None:
    assert warnings(new_job(command="nosuch"), bin, has_own_shell=True) == []
    assert warnings(new_job(command="nosuch", shell="pwsh"), bin) == []
    assert len(warnings(new_job(command="x", argv=to_json(["nosuch"])), bin, has_own_shell=True)) == 1


def test_other_machines_have_other_programs_and_directories(bin: Path) -> None:
    assert warnings(new_job(command="nosuch"), bin, is_shared=True) == []
    [said] = warnings(new_job(command="nosuch", cwd="/no/such"), bin, is_shared=True)
    assert said.startswith("Warning: no directory '/no/such' on this machine.")


def test_the_same_is_said_once(bin: Path) -> None:
    said: list[str] = []
    preflight = Preflight({"PATH": str(bin)}, False, False, False, said.append)
    for line in ("nosuch 1", "nosuch 2", "other", "tool"):
        preflight.look_at(new_job(command=line), "/")
    assert len(said) == 2


def test_a_directory_that_is_not_there_is_refused_or_with_needs_warned_of(bin: Path) -> None:
    from queuectl.job import Need

    job = new_job(command="tool", cwd="/no/such")
    with pytest.raises(InvalidInput, match=r"No directory '/no/such'\. Make it first"):
        warnings(job, bin)
    [said] = warnings(job._replace(needs=(Need("a", "completed"),)), bin)
    assert "no directory '/no/such'" in said


@pytest.mark.parametrize("fields", [{"command": "nosuch"}, {"cwd": "/no/such"}], ids=str)
def test_strict_refuses_what_is_else_a_warning(bin: Path, fields: dict[str, str]) -> None:
    is_shared = "cwd" in fields
    preflight = Preflight({"PATH": str(bin)}, is_shared, False, True, None)
    with pytest.raises(InvalidInput, match=r"^No (program|directory) .*\. Mend that, or leave out --strict$"):
        preflight.look_at(new_job(**fields), "/")
