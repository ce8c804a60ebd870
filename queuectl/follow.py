"""Show what a job prints while it runs, from the spool files of the worker that runs it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import IO

from queuectl.encoding import as_text, whole_letters
from queuectl.job import Job, State
from queuectl.platforms import CODE_PAGE
from queuectl.queue import Queue

POLL_SECONDS = 0.02
CHUNK = 1 << 16


def follow(queue: Queue, job_id: str, streams: tuple[IO[bytes], IO[bytes]], every_second: Callable[[], None]) -> Job:
    """Copy what the job prints to stdout and stderr to these streams, try by try, until it has ended for good."""
    shown = 0
    watch = Paced(every_second)
    while True:
        job = queue.storage.glance(job_id)
        if job.lease > shown:
            shown += 1
            show_try(queue, job, shown, streams, watch)
        elif job.state.has_ended:
            return job
        else:
            time.sleep(POLL_SECONDS)
            watch()


def show_try(queue: Queue, job: Job, lease: int, streams: tuple[IO[bytes], IO[bytes]], watch: Paced) -> None:
    """One try, from its beginning or where it is by now to its end."""
    tails = [Tail(stream) for stream in streams]
    while job.lease == lease and job.state is State.PROCESSING:
        chunks = [tail.read(path) for tail, path in zip(tails, queue.home.spool(job.worker or ""))]
        job = queue.storage.glance(job.id)
        if job.lease != lease or job.state is not State.PROCESSING:
            break  # the spool may belong to the next job by now: what was read proves nothing
        for tail, chunk in zip(tails, chunks):
            tail.show(chunk)
        if not any(chunks):
            time.sleep(POLL_SECONDS)
        watch()
    printed = queue.storage.printed(job.seq, lease)
    for tail, path, text in zip(tails, queue.home.kept(job.seq, lease), printed):
        tail.show_rest(path, text)


class Paced:
    """Does something once a second, however often it is called."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._done_at = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._done_at >= 1:
            self._done_at = time.monotonic()
            self._action()


class Tail:
    """How far one stream of a run has been shown, in bytes of the file and in letters of the text.

    Bytes are passed on as they are, but to a console of Windows, which Python writes UTF-8 to. Otherwise they are
    decoded only to know how much of the text in the row has been shown.
    """

    def __init__(self, stream: IO[bytes], code_page: str | None = CODE_PAGE) -> None:
        self._stream = stream
        self._code_page = code_page
        self._is_console = code_page is not None and stream.isatty()
        self._bytes = self._letters = 0
        self._line = b""  # what was shown of a line whose end is still to come
        self._held = b""  # what a console was not shown: the beginning of a letter

    def read(self, path: str) -> bytes:
        """What the file has beyond what was shown, or a part of it."""
        try:
            with open(path, "rb") as file:
                file.seek(self._bytes)
                return file.read(CHUNK)
        except OSError:
            return b""

    def show(self, chunk: bytes) -> None:
        if chunk:
            self._bytes += len(chunk)
            self._count(chunk)
            if self._is_console:
                chunk = self._held + chunk
                whole = whole_letters(chunk)
                self._held = chunk[len(whole) :]
                chunk = as_text(whole, self._code_page).encode()
            self._write(chunk)

    def _count(self, chunk: bytes) -> None:
        """Letters are counted by whole lines, as which the text in the row was decoded."""
        line = self._line + chunk
        end = max(line.rfind(b"\n"), line.rfind(b"\r")) + 1
        if len(line) - end > CHUNK:
            end = len(whole_letters(line))
        self._letters += len(as_text(line[:end], self._code_page))
        self._line = line[end:]

    def show_rest(self, kept: str, text: str) -> None:
        """What the run printed after the last look: from the file that was kept of it, else from the row."""
        if os.path.exists(kept):
            while chunk := self.read(kept):
                self.show(chunk)
        else:
            self._write(self._rest(text[self._letters :]))

    def _rest(self, text: str) -> bytes:
        """What comes after the part of this text that was shown, in the encoding in which that was."""
        if self._is_console:
            seen = self._line[: len(self._line) - len(self._held)]
            return text[len(as_text(seen, self._code_page)) :].encode("utf-8", "replace")
        for encoding in filter(None, ("utf-8", self._code_page)):
            data = text.encode(encoding, "replace")
            if data.startswith(self._line):
                return data[len(self._line) :]
        return text[len(as_text(self._line, self._code_page)) :].encode("utf-8", "replace")

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()
