"""Run one command: set its directory, environment and output files, watch it, and return its outcome.

The command writes its output directly to the spool files; the worker reads only the last part of it.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import gethostname
from typing import NamedTuple

from queuectl.config import Settings
from queuectl.encoding import as_text
from queuectl.files import remove, replace
from queuectl.home import Home
from queuectl.job import TIMED_OUT, Job, Outcome, State
from queuectl.platforms import CODE_PAGE, runs

# The interval at which `watch` is called while a command runs; it also makes a finish reach the disk within 0.2 s.
TICK_SECONDS = 0.1
# How long a command may take to end after a polite request, before it is killed.
POLITE_SECONDS = 3.0
BINARY = getattr(os, "O_BINARY", 0)
FOR_WRITING = os.O_WRONLY | os.O_APPEND | BINARY
SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)


class Interruption(NamedTuple):
    """Why a run is ended before its command has ended."""

    reason: str
    state: State | None = None  # the job's next state; None: it has failed, and its retries decide


OUT_OF_TOUCH = Interruption("its worker lost touch with the database", State.PENDING)

# Called at every tick: returns a reason to end the run, or None to let it go on.
Watch = Callable[[], Interruption | None]


class Runner:
    """Runs a worker's jobs one after another, with one pair of spool files for all of them."""

    def __init__(self, home: Home, worker: str, guardian: runs.Guardian) -> None:
        self._guardian = guardian
        self._stdout, self._stderr = (Spool(home, worker, stream) for stream in (0, 1))
        self._environment: Mapping[str, str] = {}
        self._variables = runs.as_given(self._environment)

    def run(self, job: Job, mark: str, environment: Mapping[str, str], settings: Settings, watch: Watch) -> Outcome:
        """Run the job's command until it ends; all its processes carry the mark in their environment."""
        began = time.monotonic()
        self._guardian.watch(mark)
        if self._guardian.is_overdue():  # the worker was suspended since it claimed: another may run the job by now
            self._guardian.release()
            return Outcome(None, 0.0, reason=OUT_OF_TOUCH.reason, state=OUT_OF_TOUCH.state, has_started=False)
        try:
            command = self._start(job, environment, settings.shell, mark)
            self._guardian.follow(command)
        except (OSError, ValueError) as error:
            self._guardian.release()
            state = State.PENDING if self._is_ours(error) else None
            took = time.monotonic() - began
            return Outcome(None, took, reason=cannot_start(job, error), state=state, has_started=False)
        try:
            stopped = self._wait(command, began + job.timeout if job.timeout else None, watch, job.timeout)
            if self._guardian.is_overdue():
                stopped = OUT_OF_TOUCH
            if stopped:
                command.end(0 if stopped is OUT_OF_TOUCH else POLITE_SECONDS)
            elif command.was_killed():
                command.end(0)  # processes that a killed command leaves behind must not run beside its next try
            exit_code = command.close()
        except BaseException:
            command.end(0)
            raise
        duration = time.monotonic() - began
        self._guardian.release()
        output = self._stdout.take(job, settings.max_output)
        stderr = self._stderr.take(job, settings.max_output)
        if stopped:
            return Outcome(None, duration, output, stderr, stopped.reason, stopped.state)
        return Outcome(exit_code, duration, output, stderr)

    def _start(self, job: Job, environment: Mapping[str, str], shell: str, mark: str) -> runs.Command:
        argv = runs.list_argv(json.loads(job.argv)) if job.argv else runs.shell_argv(job.shell or shell, job.command)
        if environment is not self._environment:  # most jobs have the same environment as the job before
            self._variables = runs.as_given(environment)
            self._environment = environment
        own = {"QUEUECTL_JOB_ID": job.id} if job.env is None else {**json.loads(job.env), "QUEUECTL_JOB_ID": job.id}
        variables = {**self._variables, **runs.as_given(own)}
        stdout = self._stdout.open()
        try:
            stderr = self._stderr.open()
            try:
                return runs.Command(argv, job.cwd, variables, mark, stdout, stderr)
            finally:
                os.close(stderr)
        finally:
            os.close(stdout)

    def _is_ours(self, error: Exception) -> bool:
        """Whether the command could not be started because the worker lacks resources or its spool files."""
        ours = (self._stdout.path, self._stderr.path, os.path.dirname(self._stdout.path))
        return isinstance(error, OSError) and (error.errno in SHORT_OF or error.filename in ours)

    def _wait(self, command: runs.Command, deadline: float | None, watch: Watch, timeout: int) -> Interruption | None:
        """Wait until the command ends by itself, or return the reason to end it."""
        while True:
            left = TICK_SECONDS if deadline is None else min(TICK_SECONDS, deadline - time.monotonic())
            if command.wait(max(0.0, left)):
                return None
            if deadline is not None and time.monotonic() >= deadline:
                return Interruption(f"{TIMED_OUT} after {timeout} s")
            interruption = watch()
            if interruption:
                return interruption

    def close(self) -> None:
        self._stdout.remove()
        self._stderr.remove()


class Spool:
    """One stream's output file for all of the worker's runs: new files for each run would cost half the throughput."""

    def __init__(self, home: Home, worker: str, stream: int) -> None:
        self._home = home
        self._stream = stream
        self.path = self._usual_path = home.spool(worker)[stream]
        self._make()

    def _make(self) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        self._file: int | None = os.open(self.path, os.O_RDONLY | BINARY)

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def open(self) -> int:
        """Open the file for a command to write to; it is empty, because `take` emptied it after the last run."""
        if self.path != self._usual_path:
            self._return()
        if self._file is None:
            self._make()
        try:
            return os.open(self.path, FOR_WRITING)
        except FileNotFoundError:  # the user has deleted it
            self._close()
            self._make()
            return os.open(self.path, FOR_WRITING)

    def take(self, job: Job, most: int) -> str:
        """The last `most` bytes that the job's run has written, as text.

        The whole output is kept in a file of its own if it is longer, or if the text does not determine its bytes.
        The spool file is empty afterwards: a user who follows the next run must not see this run's output.
        """
        text = ""
        assert self._file is not None
        try:
            size = os.lseek(self._file, 0, os.SEEK_END)
            data = self._last(self._file, min(size, most)) if size else b""
            text = as_text(data, CODE_PAGE, size > most)
            if size > most or ("\ufffd" in text and text.encode() != data):
                keep_as = self._home.kept(job.seq, job.lease)[self._stream]
                self._move(keep_as)
                if size > most:
                    text = f"[{size - most} bytes cut; the whole is in {keep_as}]\n{text}"
            elif runs.is_written(self._file):
                # A process that the command left behind goes on writing to this file, so the next run gets a new one.
                aside = self._new_name()  # on Windows a removed file keeps its name while a process has it open
                self._move(aside)
                remove(aside)
            elif size:
                with suppress(FileNotFoundError):
                    os.truncate(self.path, 0)
        except OSError as error:  # a full or failing disk must not make the job run again
            text = f"[not all of it could be kept: {error.strerror}]\n{text}"
            self._close()
            if not remove(self.path):  # a user who follows the next run must not see this output
                self.path = self._new_name()
        return text

    def _return(self) -> None:
        """Return to the usual name, where `follow` looks for the file, once no program has a file of that name open."""
        with suppress(OSError):
            if os.path.exists(self._usual_path):
                os.remove(self._usual_path)
            self._close()
            remove(self.path)
            self.path = self._usual_path

    def _last(self, file: int, count: int) -> bytes:
        os.lseek(file, -count, os.SEEK_END)
        return os.read(file, count)

    def _new_name(self) -> str:
        return f"{self._usual_path}.{time.time_ns()}"

    def _move(self, to: str) -> None:
        """Rename the file, and continue with a new one."""
        self._close()  # Windows does not rename a file that this process has open
        try:
            replace(self.path, to)
        except FileNotFoundError:
            pass  # the user has deleted it
        except PermissionError:
            # Another program keeps the file open, so the next runs use a file of another name. A user who follows them
            # sees their output only when they end.
            from shutil import copyfile

            copyfile(self.path, to)
            with suppress(OSError):
                os.truncate(self.path, 0)
            self.path = self._new_name()
        self._make()

    def remove(self) -> None:
        self._close()
        for path in {self.path, self._usual_path}:
            remove(path)


def cannot_start(job: Job, error: Exception) -> str:
    if isinstance(error, OSError) and not os.path.isdir(job.cwd):
        return f"cannot start: no directory {job.cwd!r} on {gethostname()}"
    if isinstance(error, FileNotFoundError) and error.filename == job.shell:
        return f"cannot start: no {job.shell} on {gethostname()}. Install it there, or choose another with --shell"
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot start: {error.filename!r}: {error.strerror}"
    return f"cannot start: {error}"
