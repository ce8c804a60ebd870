"""The command line: parse, call one thing, print. Here are its entry point and its error handling."""

from __future__ import annotations

import gc

gc.disable()  # a command is too short-lived for garbage collection to pay off

import os
import sys
from contextlib import suppress
from typing import NoReturn

from queuectl.errors import QueueError


def main() -> NoReturn:
    """Run the command line, and turn every error into one line."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the process exits
        # Replace letters that the console cannot show instead of failing; keep the line ends of a job's output.
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
        # The simplest call, which scripts make by the thousand: loading Click would double its time.
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
    with suppress(OSError):  # stdout itself may be what has failed
        sys.stdout.flush()
    sys.stderr.write(f"Error: {' '.join(line.split())}\n")
    return code


def leave(code: int) -> NoReturn:
    """Exit without the interpreter's shutdown, which takes a seventh of an enqueue's time; all is committed by now."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code if code < 1 << 31 else code - (1 << 32))  # Windows has exit codes that exceed a signed C int
