"""Command lines for shells, as pure text: quoting and switches, so that each shell reads exactly what was meant."""

from __future__ import annotations

import ntpath
import os
import re
from collections.abc import Sequence
from functools import lru_cache

# Commands that cmd.exe does itself, for which there is no program.
BUILTINS = (
    "assoc break call cd chdir cls color copy date del dir echo endlocal erase exit for ftype goto if md mkdir mklink "
    "move path pause popd prompt pushd rd rem ren rename rmdir set setlocal shift start time title type ver verify vol"
)
PLAIN = re.compile(r"[\w#$*+./:?@\\-]+")  # text that means the same to cmd.exe with and without quotes
SPECIAL = re.compile(r'[\^&|<>()!"]')
# A percent sign cannot be escaped for cmd.exe. But an empty substring of a variable after it, which expands to nothing,
# keeps the percent sign from beginning the name of another variable.
PERCENT = "%%cd:~,%"


class Verbatim(str):
    """A part of a Windows command line that must not be quoted: cmd.exe does not read quotes as other programs do."""


@lru_cache
def switches(shell: str) -> Sequence[str]:
    """The switches between a shell, other than cmd.exe, and the line that it runs."""
    name = os.path.basename(shell).lower().removesuffix(".exe")
    return ["-NoProfile", "-Command"] if name in ("powershell", "pwsh") else ["-c"]


def is_cmd(shell: str) -> bool:
    return ntpath.basename(shell).lower().removesuffix(".exe") == "cmd"


def cmd_argv(cmd: str, line: str) -> list[str]:
    # With /s cmd.exe removes the outer quotes and reads the rest as it was typed.
    return [cmd, "/d", "/s", "/c", Verbatim(f'"{line}"')]


def exact_argv(cmd: str, line: str) -> list[str]:
    """For a line made by this module: switches command extensions on and delayed expansion off."""
    return [cmd, "/e:on", "/v:off", *cmd_argv(cmd, line)[1:]]


def is_batch(program: str) -> bool:
    # Windows removes dots and spaces from the end of a name.
    return program.lower().rstrip(". ").endswith((".bat", ".cmd"))


def batch_line(script: str, arguments: Sequence[str]) -> str:
    """A line for cmd.exe that calls a batch file with exactly these arguments, whatever they contain."""
    return " ".join([_quoted(script), *map(_argument, arguments)])


def is_builtin(program: str) -> bool:
    return program.lower() in BUILTINS.split()


def builtin_line(argv: Sequence[str]) -> str:
    """A line for cmd.exe that runs one of its builtins with exactly these arguments."""
    name, *arguments = argv
    if name.lower() == "echo":
        # echo prints quotes, too, so special characters are escaped with carets instead. That does not work for a
        # percent sign, as cmd.exe expands variables before it reads carets.
        escaped = (SPECIAL.sub(r"^\g<0>", _one_line(text)) for text in arguments)
        return " ".join([name, *(text.replace("%", PERCENT) for text in escaped)])
    for text in arguments:
        if '"' in text:
            raise ValueError(f"{name}, a command of cmd.exe's own, takes no quotes within an argument")
    return " ".join([name, *map(_argument, arguments)])


def first_word(line: str) -> list[str]:
    """The program of a Windows command line, and the rest of the line, which the program reads by its own rules."""
    line = line.lstrip()
    if line.startswith('"'):
        program, _, rest = line[1:].partition('"')
    else:
        program, *more = line.split(maxsplit=1)
        rest = "".join(more)
    return [program, Verbatim(rest.strip())] if rest.strip() else [program]


def _argument(text: str) -> str:
    return text if PLAIN.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    # A quote is doubled, which both cmd.exe and programs read as one. Backslashes before a quote are doubled, because
    # programs take them as escapes.
    text = re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + found[2] * 2, _one_line(text))
    return '"' + text.replace("%", PERCENT) + '"'


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("cmd.exe, which runs this, takes no line break within an argument")
    return text
