"""The command line: parse, call one thing, print. This is where it begins and ends."""

from __future__ import annotations

import gc

gc.disable()  # nothing here lives long enough for a collection to pay

import os
import sys
from contextlib import suppress
from typing import NoReturn

from queuectl.errors import QueueError


def main() -> NoReturn:
    """Run the command line, and turn every error into one line."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we live
        # A console that cannot show a letter is no reason to fail, and what a job printed keeps its line ends.
        getattr(sys, name).reconfigure(errors="replace", newline="\n")
    try:
        code = call(sys.argv[1:])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in sys.argv[1:2]:
            raise
        code = report(error)
    leave(code)


def call(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "enqueue" and not arguments[1].startswith("-"):
        # The plainest call, and the one that scripts make by the thousand: loading Click would double its time.
        from queuectl.cli.hand_in import hand_in_one

        hand_in_one(arguments[1])
        return 0
    from queuectl.cli import commands

    return commands.call(arguments)


def report(error: BaseException) -> int:
    """One line to stderr, and the exit code: 2 for wrong usage, 1 for the rest."""
    code = 1
    if isinstance(error, BrokenPipeError):
        return code
    if isinstance(error, KeyboardInterrupt):
        line, code = "Interrupted", 130
    elif isinstance(error, QueueError):
        line, code = str(error), error.exit_code
    elif isinstance(error, OSError):
        line = f"{error.filename or 'queuectl'}: {error.strerror or error}"
    else:
        line = f"Something unforeseen: {error!r}. Run it again as queuectl --debug …, and report what it says"
    with suppress(OSError):  # it may be the very thing that has failed
        sys.stdout.flush()
    sys.stderr.write(f"Error: {' '.join(line.split())}\n")
    return code


def leave(code: int) -> NoReturn:
    """Exit without taking the interpreter apart, which would be a seventh of an enqueue; all is committed by now."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code if code < 1 << 31 else code - (1 << 32))  # Windows has exit codes that C takes for negative
