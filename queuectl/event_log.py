"""A worker's log: one line per event, as text or as JSON, with rotation. EVENTS lists all events.

The standard library's logging would take a tenth of a short job's time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from time import localtime, strftime, time
from typing import Any

from queuectl.config import LOG_JSON
from queuectl.files import replace
from queuectl.job import Job
from queuectl.tracing import trace_id

MOST_BYTES, FILES_KEPT = 1_000_000, 3
NO_FILE, REOPEN_SECONDS = -1, 1.0  # writing to descriptor -1 fails, which is ignored until the log can be opened again
INFO, WARNING, ERROR = "INFO", "WARNING", "ERROR"

# Each event's level, and its text, which follows the job and the try if the event is about a run. JSON has the same
# fields by their names.
EVENTS: Mapping[str, tuple[str, str]] = {
    "worker_up": (INFO, "up, pid %(pid)d"),
    "worker_stopping": (INFO, "stopping; the job in hand has %(grace_seconds)g s"),
    "worker_stopped": (INFO, "stopped after %(processed)d jobs"),
    "worker_failed": (ERROR, "the worker failed\n%(traceback)s"),
    "worker_rejoined": (WARNING, "this worker was taken for dead while it was out of touch; it joins again"),
    "worker_unknown": (ERROR, "the queue no longer knows this worker"),
    "job_started": (INFO, "started"),
    "job_ended": (INFO, "ended after %(duration_seconds).3f s: %(reason)s"),
    "job_refused": (WARNING, "%(error)s"),
    "job_recovered": (WARNING, "worker %(lost_worker)s died; it is %(state)s: %(reason)s"),
    "schedule_enqueued": (INFO, "schedule %(schedule)s: job %(enqueued)s enqueued"),
    "schedule_passed_over": (INFO, "schedule %(schedule)s: passed over: %(reason)s"),
    "database_away": (ERROR, "%(error)s; trying again"),
    "database_back": (INFO, "the database can be used again"),
    "traces_not_sent": (WARNING, "traces cannot be sent: %(error)s"),
    "log_not_rotated": (WARNING, "this log could not be rotated, and grows on: %(error)s"),
    "failed": (ERROR, "%(error)s"),
    "logon_done": (INFO, "%(there)d workers were there, %(started)d were started"),
    "logon_failed": (ERROR, "the workers could not be started or stopped\n%(traceback)s"),
    "logon_stopped": (INFO, "worker %(stopped)s has stopped"),
    "logon_told": (INFO, "%(said)s"),
}


class EventLog:
    def __init__(self, path: str, worker: str | None = None, on_console: bool = False) -> None:
        self.path = path
        self._worker = worker
        self._on_console = on_console
        self.is_json = False
        self._second = self._next_second = 0.0
        self._stamp = ""
        self._missed_at = 0.0
        self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size
        self._rotate_at = MOST_BYTES

    def write_as(self, log_format: str) -> None:
        """Use the format of the setting log_format from now on."""
        self.is_json = log_format == LOG_JSON

    def say(self, event: str, job: Job | None = None, **fields: Any) -> None:
        """Write an event's line; `job` is given if the event is about a run of it."""
        now = time()
        if not self._second <= now < self._next_second:
            self._second, self._next_second = now // 1, now // 1 + 1
            self._stamp = strftime("%Y-%m-%dT%H:%M:%S%z", localtime(now))
        if self.is_json:
            line = self._as_json(event, now - self._second, job, fields)
        else:
            level, text = EVENTS[event]
            if fields:
                text %= fields
            run = f"job {job.id}: try {job.attempts} " if job else ""
            line = f"{self._stamp} {level} {run}{text}\n"
        if self._on_console:
            self._show(line)
        data = line.encode("utf-8", "replace")
        try:
            if self._file == NO_FILE and abs(now - self._missed_at) >= REOPEN_SECONDS:
                self._missed_at = now
                self._open()
            os.write(self._file, data)
        except OSError:
            return  # a full disk is no reason for a worker to fail
        self._size += len(data)
        if self._size > self._rotate_at:
            self._rotate()

    def say_failed(self, event: str) -> None:
        """Write the event with the traceback of the exception that is being handled."""
        from traceback import format_exc

        self.say(event, traceback=format_exc().rstrip())

    def _as_json(self, event: str, fraction: float, job: Job | None, fields: Mapping[str, Any]) -> str:
        from json import dumps

        at = f"{self._stamp[:19]}.{int(fraction * 1000):03}{self._stamp[19:22]}:{self._stamp[22:]}"
        found: dict[str, Any] = {"time": at, "level": EVENTS[event][0].lower(), "event": event, "worker": self._worker}
        if job is not None:
            found.update(job=job.id, queue=job.queue, attempt=job.attempts, lease=job.lease)
            if job.traceparent:
                found["trace_id"] = trace_id(job.traceparent)
        return dumps({**found, **fields}) + "\n"

    def _show(self, line: str) -> None:
        try:
            sys.stderr.write(line)
        except (OSError, ValueError):
            self._on_console = False  # the console was closed
            # Send what is left in the buffer to the null device: on Windows flushing it at exit would fail again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)

    def _rotate(self) -> None:
        os.close(self._file)
        try:
            # Rename the current log first: if that fails because Windows has it open elsewhere, nothing was moved.
            replace(self.path, f"{self.path}.0")
            for number in range(FILES_KEPT - 1, -1, -1):
                if os.path.exists(f"{self.path}.{number}"):
                    replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
            self._open()
        except OSError as error:
            try:
                self._open()
            except OSError:
                self._file, self._size = NO_FILE, 0  # the worker goes on without a log
                return
            self._rotate_at = self._size + MOST_BYTES  # not at the next line: each try costs the worker half a second
            self.say("log_not_rotated", error=str(error))
