"""A worker's log: one line an event, rotated. The standard library's would take a tenth of a short job's time."""

from __future__ import annotations

import os
import sys
import time
import traceback

from queuectl.files import replace

MOST_BYTES, FILES_KEPT = 1_000_000, 3


class EventLog:
    def __init__(self, path: str, on_console: bool = False) -> None:
        self.path = path
        self._on_console = on_console
        self._second, self._stamp = 0, ""
        self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size
        self._rotate_at = MOST_BYTES

    def info(self, event: str) -> None:
        self._write("INFO", event)

    def warning(self, event: str) -> None:
        self._write("WARNING", event)

    def error(self, event: str) -> None:
        self._write("ERROR", event)

    def exception(self, event: str) -> None:
        """With the traceback of the error that is being handled."""
        self._write("ERROR", f"{event}\n{traceback.format_exc().rstrip()}")

    def _write(self, level: str, event: str) -> None:
        now = int(time.time())
        if now != self._second:
            self._second, self._stamp = now, time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(now))
        line = f"{self._stamp} {level} {event}\n"
        if self._on_console:
            try:
                sys.stderr.write(line)
            except (OSError, ValueError):
                self._on_console = False  # it is gone
                # What is left in the buffer goes nowhere: on Windows it would fail again when the worker exits.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 2)
                os.close(nowhere)
        data = line.encode("utf-8", "replace")
        try:
            os.write(self._file, data)
        except OSError:
            return  # a full disk is no reason for a worker to fail
        self._size += len(data)
        if self._size > self._rotate_at:
            self._rotate()

    def _rotate(self) -> None:
        os.close(self._file)
        try:
            # This one first: if somebody has it open on Windows nothing has been moved.
            replace(self.path, f"{self.path}.0")
            for number in range(FILES_KEPT - 1, -1, -1):
                if os.path.exists(f"{self.path}.{number}"):
                    replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
            self._open()
        except OSError as error:
            self._open()
            self._rotate_at = self._size + MOST_BYTES  # each try costs the worker half a second
            self.warning(f"this log could not be rotated, and grows on: {error}")
