"""Run one command: give it its directory, environment and files, watch it, and say what came of it.

Output goes from the command to the spool files and never through this process's memory; only its last part is read.
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

# How often the watcher is asked while a command runs; with it a finish is on disk within 0.2 s.
TICK_SECONDS = 0.1
# How long a command may take to end when asked politely.
POLITE_SECONDS = 3.0
BINARY = getattr(os, "O_BINARY", 0)
FOR_WRITING = os.O_WRONLY | os.O_APPEND | BINARY
SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)


class Interruption(NamedTuple):
    """Why a run is ended before its time."""

    reason: str
    state: State | None = None  # what the job becomes, where that is not for its retries to say


OUT_OF_TOUCH = Interruption("its worker lost touch with the database", State.PENDING)

# Asked at every tick: a reason to end the run, or None to let it go on.
Watch = Callable[[], Interruption | None]


class Runner:
    """Runs a worker's jobs, one after the other, with one pair of spool files for all of them."""

    def __init__(self, home: Home, worker: str, guardian: runs.Guardian) -> None:
        self._guardian = guardian
        self._stdout, self._stderr = (Spool(home, worker, stream) for stream in (0, 1))
        self._environment: Mapping[str, str] = {}
        self._variables = runs.as_given(self._environment)

    def run(self, job: Job, mark: str, environment: Mapping[str, str], settings: Settings, watch: Watch) -> Outcome:
        """Run the job's command to its end; every process of it carries the mark."""
        began = time.monotonic()
        self._guardian.watch(mark)
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
                command.end(0)  # what it leaves behind is no daemon of its choice, and another try must not meet it
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
        if environment is not self._environment:  # most jobs come from where the one before came from
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
        """Whether it is no fault of the job's that it cannot be started, but what the worker is short of."""
        ours = (self._stdout.path, self._stderr.path, os.path.dirname(self._stdout.path))
        return isinstance(error, OSError) and (error.errno in SHORT_OF or error.filename in ours)

    def _wait(self, command: runs.Command, deadline: float | None, watch: Watch, timeout: int) -> Interruption | None:
        """Until the command ends by itself, or there is a reason to end it."""
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
    """A file that one run after the other writes its output to: making a new one for each would cost half the rate."""

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
        """For a command to write to; it is empty, because whoever took from it last has emptied it."""
        if self.path != self._usual_path:
            self._return()
        if self._file is None:
            self._make()
        try:
            return os.open(self.path, FOR_WRITING)
        except FileNotFoundError:  # somebody has tidied up
            self._close()
            self._make()
            return os.open(self.path, FOR_WRITING)

    def take(self, job: Job, most: int) -> str:
        """The last `most` bytes that its run has written, as text.

        The whole is kept in a file of its own if there were more, or if the text does not say which bytes they were.
        The file is empty afterwards: whoever follows the next run must not see what this one printed.
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
                # What the command left behind goes on writing, but not into the next job's output.
                aside = self._new_name()  # on Windows a removed file keeps its name while it is written to
                self._move(aside)
                remove(aside)
            elif size:
                with suppress(FileNotFoundError):
                    os.truncate(self.path, 0)
        except OSError as error:  # a disk that is full, or fails, is no reason to run the job again
            text = f"[not all of it could be kept: {error.strerror}]\n{text}"
            self._close()
            if not remove(self.path):  # whoever follows the next run must not see it
                self.path = self._new_name()
        return text

    def _return(self) -> None:
        """To the usual name, under which others look for it, once nobody keeps that from being free."""
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
        """Give the file another name, and go on with a new one."""
        self._close()  # Windows moves no file that is open here
        try:
            replace(self.path, to)
        except FileNotFoundError:
            pass  # somebody has tidied up
        except PermissionError:
            # Somebody will not let go of it. Whoever follows the next jobs sees nothing of them until they end.
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
