"""Show what a job prints while it runs, from the spool files of the worker that runs it, and what it has printed."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from typing import IO

from queuectl.encoding import as_text, whole_letters
from queuectl.errors import TryNotFound
from queuectl.job import Job, State
from queuectl.liveness import is_here
from queuectl.platforms import CODE_PAGE
from queuectl.queue import Queue

POLL_SECONDS = 0.02
LOOK_SECONDS = 1.0
CHUNK = 1 << 16

Streams = tuple[IO[bytes], IO[bytes]]


def follow(
    queue: Queue,
    job_id: str,
    streams: Streams,
    every_second: Callable[[], None],
    first: int = 1,
    lines: int | None = None,
) -> Job:
    """Copy what the job prints to these streams, try by try, until it has ended for good.

    It begins with the run of this lease, or with the last lines of what that has printed by now.
    """
    shown = first - 1
    watch = Paced(every_second)
    queue.storage.wait(0)  # from here on it hears of every change
    while True:
        job = queue.storage.glance(job_id)
        if job.lease > shown:
            shown += 1
            follow_try(queue, job, shown, [Tail(stream, lines) for stream in streams], watch)
            lines = None
        elif job.state.has_ended:
            return job
        else:
            queue.storage.wait(LOOK_SECONDS)
            watch()


def follow_try(queue: Queue, job: Job, lease: int, tails: list[Tail], watch: Paced) -> None:
    """One try, from its beginning or where it is by now to its end."""
    while runs(job, lease):
        chunks = [tail.read(path) for tail, path in zip(tails, queue.home.spool(job.worker or ""))]
        job = queue.storage.glance(job.id)
        if not runs(job, lease):
            break  # the spool may belong to the next job by now: what was read proves nothing
        for tail, chunk in zip(tails, chunks):
            tail.show(chunk)
        if not any(chunks):
            time.sleep(POLL_SECONDS)
        watch()
    show_ended(queue, job, lease, tails)


def show_try(queue: Queue, job: Job, lease: int, streams: Streams, lines: int | None) -> None:
    """What one try has printed by now, and no more of it, however fast it goes on."""
    tails = [Tail(stream, lines) for stream in streams]
    paths = queue.home.spool(job.worker or "")
    sizes = [size_of(path) for path in paths]
    while runs(job, lease):
        chunks = [tail.read(path, size) for tail, path, size in zip(tails, paths, sizes)]
        job = queue.storage.glance(job.id)
        if not runs(job, lease):
            break
        for tail, chunk in zip(tails, chunks):
            tail.show(chunk)
        if not any(chunks):
            return
    show_ended(queue, job, lease, tails)


def show_ended(queue: Queue, job: Job, lease: int, tails: list[Tail]) -> None:
    printed = queue.storage.printed(job.seq, lease)
    for tail, path, text in zip(tails, queue.home.kept(job.seq, lease), printed):
        tail.show_rest(path, text)


def runs(job: Job, lease: int) -> bool:
    return job.lease == lease and job.state is State.PROCESSING


def lease_of(job: Job, number: int) -> int:
    """The run of this try: tries are counted over the job's whole life, with those that were lost or stopped."""
    if number > job.lease:
        raise TryNotFound(job.id, number)
    return number


def elsewhere(queue: Queue, job: Job) -> str | None:
    """The machine where the job runs, if what it prints cannot be seen from here."""
    if job.state is not State.PROCESSING or any(map(os.path.exists, queue.home.spool(job.worker or ""))):
        return None
    return next(
        (worker.host for worker in queue.storage.workers() if worker.name == job.worker and not is_here(worker)), None
    )


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

    def __init__(self, stream: IO[bytes], lines: int | None = None, code_page: str | None = CODE_PAGE) -> None:
        self._stream = stream
        self._lines = lines  # so many at the end of what is there at the first look; None once they were found
        self._code_page = code_page
        self._is_console = code_page is not None and stream.isatty()
        self._bytes = self._letters = 0
        self._line = b""  # what was shown of a line whose end is still to come
        self._held = b""  # what a console was not shown: the beginning of a letter

    def read(self, path: str, size: int | None = None) -> bytes:
        """What the file has beyond what was shown, or a part of it; nothing beyond this size."""
        try:
            with open(path, "rb") as file:
                if self._lines is not None:
                    self._skip_to(file, start_of_last(file, self._lines))
                file.seek(self._bytes)
                return file.read(CHUNK if size is None else max(0, min(CHUNK, size - self._bytes)))
        except OSError:
            return b""

    def _skip_to(self, file: IO[bytes], start: int) -> None:
        self._lines = None
        file.seek(0)
        while self._bytes < start:
            self._pass(file.read(min(CHUNK, start - self._bytes)))

    def _pass(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        self._count(chunk)

    def show(self, chunk: bytes) -> None:
        if chunk:
            self._pass(chunk)
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
        elif self._lines is not None:
            data = text.encode("utf-8", "replace")
            self._write(data[start_of_last(io.BytesIO(data), self._lines) :])
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


def size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def start_of_last(file: IO[bytes], lines: int) -> int:
    """Where the last so many lines of a file begin; one that is not ended yet is a line too."""
    at = end = file.seek(0, os.SEEK_END)
    if not lines:
        return end
    while at:
        begin = max(0, at - CHUNK)
        file.seek(begin)
        part = file.read(at - begin)
        place = len(part) - (at == end and part.endswith(b"\n"))
        while (place := part.rfind(b"\n", 0, place)) >= 0:
            lines -= 1
            if not lines:
                return begin + place + 1
        at = begin
    return 0
