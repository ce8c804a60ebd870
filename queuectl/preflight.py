"""A look before a job is stored: whether its directory is there, and its program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from queuectl import platforms
from queuectl.errors import InvalidInput
from queuectl.job import NewJob

# The first word of a line, where it is plainly the name of a program: no quotes, no variables, no assignment.
FIRST_WORD = r"\s*([\w./+-]+)(?=[\s;&|<>]|$)"
if os.name == "nt":  # not a drive that is gone to, either
    FIRST_WORD = r"\s*(?!\w:(?:[\s&|<>]|$))([\w./+\\:-]+)(?=[\s&|<>]|$)"
# What a shell knows by itself.
BUILTINS = """. alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs
disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help history if
in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source
suspend test then time times trap true type typeset ulimit umask unalias unset until wait while"""


class Preflight:
    """Looks at one job after the other, and says the same thing once."""

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
        self._has_own_shell = has_own_shell  # one that the user has set
        self._strict = strict
        self._warn = warn
        self._said: set[str] = set()
        self._found: dict[tuple[str, ...], bool] = {}

    def look_at(self, job: NewJob, here: str) -> NewJob:
        """The job; refused where it cannot run, with a warning where it may not be able to."""
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
        """What is to be started, if that can be told."""
        if job.argv is not None:
            from json import loads

            word = str(loads(job.argv)[0])
            return None if platforms.is_builtin(word) else word
        if self._has_own_shell or job.shell:  # which may know other words
            return None
        found = re.match(FIRST_WORD, job.command)
        if not found or found[1] in BUILTINS.split():
            return None
        letters = re.match("[A-Za-z]*", found[1])  # cmd.exe takes `cd..`, `echo.` and `dir/w` for its own, too
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
    """Whether there is such a program, in the directory that it names or on the path."""
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
