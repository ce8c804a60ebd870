"""Check before a job is stored whether its directory and its program exist."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from queuectl import platforms
from queuectl.errors import InvalidInput
from queuectl.job import NewJob

# The first word of a line, if it can only be the name of a program: without quotes, variables or an assignment.
FIRST_WORD = r"\s*([\w./+-]+)(?=[\s;&|<>]|$)"
if os.name == "nt":  # nor may it be a drive letter, which changes the drive
    FIRST_WORD = r"\s*(?!\w:(?:[\s&|<>]|$))([\w./+\\:-]+)(?=[\s&|<>]|$)"
# Commands and keywords that shells do themselves.
BUILTINS = """. alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs
disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help history if
in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source
suspend test then time times trap true type typeset ulimit umask unalias unset until wait while"""


class Preflight:
    """Checks one job after another, and gives each warning once."""

    def __init__(
        self,
        environment: Mapping[str, str],
        is_shared: bool,
        has_own_shell: bool,
        strict: bool,
        warn: Callable[[str], None] | None,
    ) -> None:
        self._environment = environment
        self._is_shared = is_shared  # other machines have other directories and programs
        self._has_own_shell = has_own_shell  # the setting `shell` names one
        self._strict = strict
        self._warn = warn
        self._said: set[str] = set()
        self._found: dict[tuple[str, ...], bool] = {}

    def look_at(self, job: NewJob, here: str) -> NewJob:
        """Return the job; raise an error if it cannot run, and warn if it might not be able to."""
        if job.cwd != here and not os.path.isdir(job.cwd):
            if not self._is_shared and not job.needs:
                existing(job.cwd)
            self._doubt(f"no directory {job.cwd!r} on this machine")
        elif (self._strict or self._warn) and not self._is_shared:
            program = self._program_of(job)
            if program and not self._is_found(program, job):
                self._doubt(f"no program {program!r} is found")
        return job

    def _doubt(self, what: str) -> None:
        if self._strict:
            raise InvalidInput(f"{what[0].upper()}{what[1:]}. Mend that, or leave out --strict")
        if self._warn and what not in self._said:
            self._warn(f"Warning: {what}. The job fails unless it is there when the job runs.")
            self._said.add(what)

    def _program_of(self, job: NewJob) -> str | None:
        """The program that the job starts, if that can be determined."""
        if job.argv is not None:
            from json import loads

            word = str(loads(job.argv)[0])
            return None if platforms.is_builtin(word) else word
        if self._has_own_shell or job.shell:  # that shell may have other builtins
            return None
        found = re.match(FIRST_WORD, job.command)
        if not found or found[1] in BUILTINS.split():
            return None
        letters = re.match("[A-Za-z]*", found[1])  # `cd..`, `echo.` and `dir/w` are builtins of cmd.exe, too
        return None if letters and platforms.is_builtin(letters[0]) else found[1]

    def _is_found(self, program: str, job: NewJob) -> bool:
        path = self._environment.get("PATH", os.defpath)
        if job.env is not None:
            from json import loads

            path = loads(job.env).get("PATH", path)
        key = (program, job.cwd, path)
        if key not in self._found:
            self._found[key] = is_found(program, job.cwd, path)
        return self._found[key]


def is_found(program: str, cwd: str, path: str) -> bool:
    """Whether the program exists, in the directory that its name contains or on the path."""
    places = [""] if os.path.dirname(program) else path.split(os.pathsep)
    endings = [""]
    if os.name == "nt":
        places.insert(0, "")
        endings += os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")
    candidates = (os.path.join(cwd, place, program + ending) for place in places for ending in endings)
    return any(os.path.isfile(candidate) and os.access(candidate, os.X_OK) for candidate in candidates)


def existing(directory: str) -> str:
    if not os.path.isdir(directory):
        raise InvalidInput(f"No directory {directory!r}. Make it first, or name another with --cwd")
    return directory
