"""What a person types arrives: arguments, lines for shells, batch files, lines without a shell, on both platforms."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import job

from queuectl.errors import InvalidInput
from queuectl.fields import check_windows_directory
from queuectl.platforms.shells import Verbatim, batch_line, builtin_line, exact_argv, first_word, is_batch, switches

from .conftest import ROOT, Cli
from .test_docs import blocks, masked, section

WINDOWS = os.name == "nt"
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"
HARD = ["an arg with spaces", "50%", "a^b", "%PATH%", "$HOME", "'", '"', 'a\\"b', "tail\\", "*", "x&y|z>w", "!a!", ""]


@pytest.fixture
def show(tmp_path: Path) -> str:
    """A program, in a directory with a space in its name, that prints its arguments."""
    path = tmp_path / "my tools" / "show.py"
    path.parent.mkdir()
    path.write_text(SHOW)
    return str(path)


def arguments(cli: Cli, *args: str) -> list[str]:
    done = cli("run", *args)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


# --- several arguments, and a line ---


def test_several_arguments_arrive_as_they_are(cli: Cli, show: str) -> None:
    assert arguments(cli, "--", sys.executable, show, *HARD) == HARD


def test_one_argument_is_a_line_for_the_platforms_shell_as_it_is(cli: Cli, show: str) -> None:
    line = f'"{sys.executable}" "{show}" "an arg with spaces" 50% plain'
    assert arguments(cli, line) == ["an arg with spaces", "50%", "plain"]
    assert arguments(cli, "--command", line) == arguments(cli, "--", line)


# --- the shells ---


@pytest.mark.parametrize("way", ["option", "setting"])
def test_none_runs_a_line_without_a_shell(cli: Cli, show: str, way: str) -> None:
    line = f'"{sys.executable}" "{show}" "an arg with spaces" 50% "a && b" > $HOME %PATH%'
    if way == "setting":
        cli.ok("config", "set", "shell", "none")
    found = arguments(cli, *(["--shell", "none"] if way == "option" else []), "--command", line)
    assert found == ["an arg with spaces", "50%", "a && b", ">", "$HOME", "%PATH%"]


@pytest.mark.skipif(WINDOWS, reason="bash there is a program of others")
def test_bash_runs_a_line_and_the_setting_holds_for_the_others(cli: Cli) -> None:
    assert cli("run", "--shell", "bash", "echo ${BASH_VERSION:+yes}").stdout == "yes\n"
    assert cli("run", "echo ${BASH_VERSION:+yes}").stdout == "\n"
    cli.ok("config", "set", "shell", "bash")
    assert cli("run", "echo ${BASH_VERSION:+yes}").stdout == "yes\n"
    assert cli("run", "--shell", "NONE", "echo ${BASH_VERSION:+yes}").stdout == "${BASH_VERSION:+yes}\n"


@pytest.mark.skipif(not WINDOWS, reason="cmd.exe is a program of Windows's")
def test_cmd_runs_a_line_whatever_the_setting_says(cli: Cli) -> None:
    cli.ok("config", "set", "shell", "none")
    assert cli("run", "--shell", "cmd", "echo %OS%&& echo two").stdout.split() == ["Windows_NT", "two"]


def test_the_shell_of_a_job_is_shown_and_given_in_json_too(cli: Cli) -> None:
    cli.ok("enqueue", json.dumps({"id": "a", "command": "true", "shell": "none"}))
    cli.ok("enqueue", "--id", "b", "true")
    assert (job(cli, "a")["shell"], job(cli, "b")["shell"]) == ("none", None)
    assert re.search(r"^shell +none$", cli.ok("show", "a"), re.MULTILINE)


def test_an_unknown_shell_is_refused_and_so_is_one_for_a_list(cli: Cli) -> None:
    for done, said in (
        (cli("enqueue", "--shell", "fish", "true"), "shell cannot be 'fish'. It takes cmd, powershell, pwsh, bash or"),
        (cli("enqueue", '{"command": "true", "shell": 3}'), "shell cannot be 3"),
        (cli("enqueue", "--shell", "bash", "--", "echo", "hi"), "several arguments run without one"),
    ):
        assert done.returncode == 2 and said in done.stderr
    cli.ok("enqueue", "--shell", "none", "--", "echo", "hi")


def test_a_shell_that_is_not_there_is_refused_when_it_is_chosen(cli: Cli, tmp_path: Path) -> None:
    done = cli("enqueue", "--shell", "pwsh", "true", PATH=str(tmp_path))
    assert done.returncode == 2 and "No pwsh is there to run it. Install it, or choose another" in done.stderr
    assert json.loads(cli.ok("list", "--json")) == []


def test_a_shell_that_is_gone_when_the_job_runs_is_named(cli: Cli, tmp_path: Path) -> None:
    pwsh = tmp_path / ("pwsh.exe" if WINDOWS else "pwsh")
    shutil.copy(sys.executable, pwsh)
    cli.ok("enqueue", "--id", "a", "--max-retries", "0", "--shell", "pwsh", "true", PATH=str(tmp_path))
    pwsh.unlink()
    cli.ok("worker", "start")
    assert "cannot start: no pwsh on" in cli("logs", "-f", "a").stderr


@pytest.mark.skipif(WINDOWS, reason="Windows leaves it to the program how it reads its line")
def test_a_line_that_cannot_be_split_is_refused_without_a_shell(cli: Cli) -> None:
    done = cli("enqueue", "--shell", "none", "echo 'oops")
    assert done.returncode == 2 and "No closing quotation" in done.stderr
    assert cli("enqueue", "echo 'oops").returncode == 0


def test_powershell_reads_no_profile() -> None:
    for shell in ("pwsh", "powershell", "/opt/microsoft/PowerShell.exe"):
        assert switches(shell) == ["-NoProfile", "-Command"]
    assert switches("bash") == switches("/bin/zsh") == ["-c"]


# --- what cmd.exe is given ---


def test_a_batch_file_gets_its_arguments_in_quotes_that_cmd_and_programs_both_read() -> None:
    assert batch_line(r"C:\my tools\t.cmd", ["plain", "/s", "a b", ""]) == r'"C:\my tools\t.cmd" plain /s "a b" ""'
    assert batch_line("t.cmd", ["a^b", "x&calc", "a=b", "!x!"]) == '"t.cmd" "a^b" "x&calc" "a=b" "!x!"'
    assert batch_line("t.cmd", ['say "hi"', 'a\\"b', "tail \\"]) == '"t.cmd" "say ""hi""" "a\\\\""b" "tail \\\\"'


def test_a_percent_sign_for_a_batch_file_begins_no_variable() -> None:
    assert batch_line("t.cmd", ["%PATH%"]) == '"t.cmd" "%%cd:~,%PATH%%cd:~,%"'


@pytest.mark.parametrize("name", ["x.bat", "x.CMD", "x.bat.", "x.cmd ", "x.bat. ."])
def test_what_windows_takes_for_a_batch_file_is_quoted_as_one(name: str) -> None:
    assert is_batch(name)
    assert not is_batch("x.bat.exe") and not is_batch("bat")


def test_a_line_break_cannot_be_given_to_a_batch_file() -> None:
    for text in ("a\nb", "a\r"):
        with pytest.raises(ValueError, match="no line break"):
            batch_line("t.cmd", [text])


def test_echo_of_cmd_prints_its_arguments_and_no_quotes() -> None:
    assert builtin_line(["echo", "50%", "a^b", 'say "hi"', "x & y"]) == 'echo 50%%cd:~,% a^^b say ^"hi^" x ^& y'
    assert builtin_line(["echo", "%PATH:a=b%"]) == "echo %%cd:~,%PATH:a=b%%cd:~,%"


def test_other_commands_of_cmds_own_get_quotes_and_take_none_within() -> None:
    assert builtin_line(["mkdir", "my dir", "50%"]) == 'mkdir "my dir" "50%%cd:~,%"'
    with pytest.raises(ValueError, match="takes no quotes"):
        builtin_line(["del", 'a"b'])


@pytest.mark.parametrize(
    ("line", "program", "rest"),
    [
        ("prog a  b", "prog", "a  b"),
        ("  prog\ta", "prog", "a"),
        (r'"C:\my tools\p.exe" "a b" c', r"C:\my tools\p.exe", '"a b" c'),
        ("prog", "prog", None),
        ('"prog"', "prog", None),
    ],
)
def test_the_program_of_a_windows_line_is_its_first_word(line: str, program: str, rest: str | None) -> None:
    found = first_word(line)
    assert found == [program, *([rest] if rest else [])]
    assert all(isinstance(part, Verbatim) for part in found[1:])


@pytest.fixture
def batch(tmp_path: Path, show: str) -> str:
    path = tmp_path / "my tools" / "tool.cmd"
    path.write_text(f'@"{sys.executable}" "{show}" %*\n')
    return str(path)


@pytest.mark.skipif(not WINDOWS, reason="only Windows has batch files")
def test_a_batch_file_gets_what_was_typed_and_starts_nothing_else(cli: Cli, batch: str) -> None:
    # Wine's cmd.exe, other than that of Windows, reads a percent sign in a batch file's arguments once more.
    hard = [text for text in HARD if "%" not in text] + ["x&echo hacked", '"&echo hacked&"']
    assert arguments(cli, "--", batch, *hard) == hard
    assert arguments(cli, "--shell", "none", "--command", f'"{batch}" "a b" x^&y') == ["a b", "x^&y"]


@pytest.mark.skipif(not WINDOWS, reason="only Windows has cmd.exe")
def test_what_cmd_does_itself_gets_what_was_typed(cli: Cli) -> None:
    hard = ["50%", "a^b", "%PATH%", "%PATH:a=b%", "%PATH:~0,3%", "x & y", '"']
    assert cli("run", "--", "echo", *hard).stdout == " ".join(hard) + "\n"
    cli.ok("run", "--", "mkdir", "my %PATH% dir")
    assert (cli.cwd / "my %PATH% dir").is_dir()


@pytest.mark.skipif(not WINDOWS, reason="only Windows has cmd.exe")
def test_cmd_reads_a_percent_sign_as_one() -> None:
    cmd, *rest = exact_argv("cmd.exe", builtin_line(["rem"]))
    line = f'{cmd} {" ".join(rest[:-1])} "echo {batch_line("t", ["%PATH%", "50%"])}"'
    assert subprocess.run(line, capture_output=True, check=True).stdout == b'"t" "%PATH%" "50%"\r\n'


# --- directories ---


def test_cmd_is_refused_in_a_share_and_the_others_are_not() -> None:
    share = r"\\server\share\films"
    for shell in ("", "cmd", r"C:\Windows\System32\CMD.EXE"):
        with pytest.raises(InvalidInput, match=r"net use X: \\\\server\\share`.*--shell powershell"):
            check_windows_directory(share, shell)
    for shell in ("powershell", "none", "bash"):
        check_windows_directory(share, shell)
    check_windows_directory(r"C:\films", "cmd")


def test_a_directory_too_long_for_windows_is_refused_whatever_the_shell() -> None:
    check_windows_directory("C:\\" + "a" * 255, "none")
    with pytest.raises(InvalidInput, match=r"259 characters.*subst X:"):
        check_windows_directory("C:\\" + "a" * 256, "none")


@pytest.mark.skipif(not WINDOWS, reason="only Windows has a limit so low")
def test_a_long_directory_gets_a_clear_error_at_enqueue(cli: Cli) -> None:
    deep = cli.cwd
    while len(str(deep)) < 280:
        deep = deep / ("d" * 40)
    os.makedirs("\\\\?\\" + str(deep))
    done = cli("enqueue", "--cwd", str(deep), "true")
    assert done.returncode == 2 and f"is {len(str(deep))} characters long" in done.stderr
    done = cli("enqueue", "--cwd", "\\\\?\\" + str(cli.cwd), "echo hi")
    assert done.returncode == 2 and "cmd.exe cannot run in" in done.stderr


# --- JSON ---

JOB1 = {"id": "job1", "command": "echo hi", "priority": 8}
TYPED = '{"id": "job1", "command": "echo hi", "priority": 8}'
INSTEAD = 'queuectl enqueue --id job1 --command "echo hi" --priority 8, or put the JSON in a file'


def microsoft_words(line: str) -> list[str]:
    """A command line as Windows programs split it into arguments: how it looks to us after a shell passed it on."""
    words, word, quoted, place = [], "", False, 0
    begun = False
    while place < len(line):
        letter = line[place]
        if letter == "\\" and line[place + 1 : place + 2] == '"':
            word, place, begun = word + '"', place + 2, True
        elif letter == '"' and quoted and line[place + 1 : place + 2] == '"':
            word, place = word + '"', place + 2
        elif letter == '"':
            quoted, place, begun = not quoted, place + 1, True
        elif letter == " " and not quoted:
            words += [word] if begun else []
            word, place, begun = "", place + 1, False
        else:
            word, place, begun = word + letter, place + 1, True
    return words + ([word] if begun else [])


UNDERSTOOD = {
    "in cmd.exe, its quotes escaped": '"' + TYPED.replace('"', '\\"') + '"',
    "in cmd.exe, its quotes doubled": '"' + TYPED.replace('"', '""') + '"',
    "in cmd.exe, escaped and in single quotes": "'" + TYPED.replace('"', '\\"') + "'",
    "in PowerShell 5, its quotes escaped": '"' + TYPED.replace('"', '\\"') + '"',
    "anywhere, with single quotes within": '"' + TYPED.replace('"', "'") + '"',
}


@pytest.mark.parametrize("case", UNDERSTOOD)
def test_json_is_understood_where_there_is_one_way_to(cli: Cli, case: str) -> None:
    assert cli.ok("enqueue", *microsoft_words(UNDERSTOOD[case])) == "job1\n"
    found = job(cli, "job1")
    assert {name: found[name] for name in JOB1} == JOB1


EATEN = {
    # PowerShell 5 puts quotes around what has a space in it, and escapes none of those within.
    "in PowerShell 5": f'"{TYPED}"',
    "in PowerShell 5 without spaces": '{"id":"job1","command":"echo hi","priority":8}',
    "in cmd.exe in single quotes": f"'{TYPED}'",
    "in cmd.exe in single quotes without spaces": f"'{TYPED.replace(', ', ',').replace(': ', ':')}'",
}


@pytest.mark.parametrize("case", EATEN)
def test_json_whose_quotes_are_gone_is_refused_with_how_to_write_this_job_there(cli: Cli, case: str) -> None:
    words = microsoft_words(EATEN[case])
    assert '"' not in "".join(words)
    done = cli("enqueue", *words)
    assert done.returncode == 2 and INSTEAD in done.stderr and "--file jobs.jsonl" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert json.loads(cli.ok("list", "--json")) == []


def test_a_piece_of_json_that_looks_like_an_option_is_no_option(cli: Cli) -> None:
    for words in (["{id: job1, command: ls", "-l}"], ["-p", "9", "'{command:", "ls", "-x", "y,", "id:", "job1}'"]):
        done = cli("enqueue", *words)
        assert done.returncode == 2 and "JSON that was taken apart" in done.stderr
        assert "--id job1" in done.stderr and '--command "ls -' in done.stderr
    assert "No such option" in cli("enqueue", "--prio", "9", "echo {a: b}").stderr


def test_what_the_advice_says_works(cli: Cli) -> None:
    said = cli("enqueue", *microsoft_words(EATEN["in PowerShell 5"])).stderr
    advised = said.partition("write queuectl ")[2].partition(", or put")[0]
    assert cli.ok(*microsoft_words(advised)) == "job1\n"
    found = job(cli, "job1")
    assert {name: found[name] for name in JOB1} == JOB1


@pytest.mark.parametrize(
    "line", ["{ echo a; echo b; }", "{ echo a; } > x", '{ "my prog" x; }', "{\n  echo a\n}", "{ a & }"]
)
def test_a_group_of_a_shells_is_no_json(cli: Cli, line: str) -> None:
    cli.ok("enqueue", "--id", "a", line)
    assert job(cli, "a")["command"] == line


def test_a_file_as_powershell_5_writes_it_is_read(cli: Cli) -> None:
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        text = f'{{"command": "echo ü ✓", "priority": 9}}\r\n\r\necho {encoding}\r\n'
        cli.ok("enqueue", "--file", "-", input=mark + text.encode(encoding))
    found = [listed["command"] for listed in json.loads(cli.ok("list", "--json"))]
    assert found == ["echo utf-16-be", "echo ü ✓", "echo utf-16-le", "echo ü ✓"]


# --- the first session of docs/windows.md ---

PAGE = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")


def powershell_5_words(line: str) -> list[str]:
    """PowerShell 5 puts double quotes around what was in single ones, and escapes none of those within."""
    return microsoft_words(re.sub(r"'([^']*)'", r'"\1"', line))


@pytest.mark.parametrize(
    ("title", "prompt", "words"),
    [
        ("The first session in PowerShell", "PS C:\\films> queuectl ", powershell_5_words),
        ("The first session in cmd.exe", "C:\\films> queuectl ", microsoft_words),
    ],
)
def test_the_first_session_on_windows_is_real(
    cli: Cli, title: str, prompt: str, words: Callable[[str], list[str]]
) -> None:
    [session] = blocks(section(PAGE, title), "text")
    steps = [step.partition("\n") for step in session.split(prompt)[1:]]
    assert len(steps) == 10 and steps[-1][0] == "worker stop"
    try:
        for line, _, shown in steps:
            if "autostart" in line and not WINDOWS:
                continue  # this is another platform's way
            done = cli(*words(line))
            said = re.sub(r"\\queuectl-\w+\.", r"\\queuectl.", done.stdout + done.stderr)  # a home other than the usual
            if not WINDOWS:
                shown = shown.replace('"an arg with spaces" 50% a^b', shlex.join(["an arg with spaces", "50%", "a^b"]))
            assert masked(said.replace("\r\n", "\n")) == masked(shown), line
    finally:
        cli("worker", "autostart", "disable", XDG_CONFIG_HOME=str(cli.home))
