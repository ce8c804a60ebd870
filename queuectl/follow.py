"""Show what a job prints while it runs, from its worker's spool files, and what it has printed, from the database."""

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

    It begins with the run of lease `first`: with all of its output, or with the last `lines` lines so far.
    """
    shown = first - 1
    watch = Paced(every_second)
    queue.storage.wait(0)  # start listening, so that no change is missed from here on
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
    """Show one try until it ends, from its beginning or, if a tail has a number of lines, from the last of them."""
    while runs(job, lease):
        chunks = [tail.read(path) for tail, path in zip(tails, queue.home.spool(job.worker or ""))]
        job = queue.storage.glance(job.id)
        if not runs(job, lease):
            break  # what was read may be the next job's output, so it is not shown
        for tail, chunk in zip(tails, chunks):
            tail.show(chunk)
        if not any(chunks):
            time.sleep(POLL_SECONDS)
        watch()
    show_ended(queue, job, lease, tails)


def show_try(queue: Queue, job: Job, lease: int, streams: Streams, lines: int | None) -> None:
    """Show what one try has printed so far, and stop there, however fast it goes on printing."""
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
    """The lease of this try: tries are numbered over the job's whole life, including lost and stopped ones."""
    if number > job.lease:
        raise TryNotFound(job.id, number)
    return number


def elsewhere(queue: Queue, job: Job) -> str | None:
    """The host where the job runs, if its spool files are not on this machine."""
    if job.state is not State.PROCESSING or any(map(os.path.exists, queue.home.spool(job.worker or ""))):
        return None
    return next(
        (worker.host for worker in queue.storage.workers() if worker.name == job.worker and not is_here(worker)), None
    )


class Paced:
    """Run an action at most once a second, however often it is called."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._done_at = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._done_at >= 1:
            self._done_at = time.monotonic()
            self._action()


class Tail:
    """How far one stream of a run has been shown, in bytes of the file and in letters of the text.

    Bytes are passed on unchanged, except to a Windows console: Python expects UTF-8 there, so they are decoded and
    encoded again. Elsewhere they are decoded only to count how much of the text in the row has been shown.
    """

    def __init__(self, stream: IO[bytes], lines: int | None = None, code_page: str | None = CODE_PAGE) -> None:
        self._stream = stream
        self._lines = lines  # how many of the last lines to show at the first read; None once their start was found
        self._code_page = code_page
        self._is_console = code_page is not None and stream.isatty()
        self._bytes = self._letters = 0
        self._line = b""  # the part of an unfinished line that was shown
        self._held = b""  # an incomplete multi-byte character, which the console was not given yet

    def read(self, path: str, size: int | None = None) -> bytes:
        """The next bytes of the file that were not shown, at most CHUNK, and none beyond `size`."""
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
        """Count the letters of whole lines, because the text in the row was decoded line by line."""
        line = self._line + chunk
        end = max(line.rfind(b"\n"), line.rfind(b"\r")) + 1
        if len(line) - end > CHUNK:
            end = len(whole_letters(line))
        self._letters += len(as_text(line[:end], self._code_page))
        self._line = line[end:]

    def show_rest(self, kept: str, text: str) -> None:
        """Show what the run printed after the last read: from its kept file if there is one, else from the row."""
        if os.path.exists(kept):
            while chunk := self.read(kept):
                self.show(chunk)
        elif self._lines is not None:
            data = text.encode("utf-8", "replace")
            self._write(data[start_of_last(io.BytesIO(data), self._lines) :])
        else:
            self._write(self._rest(text[self._letters :]))

    def _rest(self, text: str) -> bytes:
        """What follows the shown part of the unfinished line, in the same encoding as that part."""
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
    """The offset at which the last `lines` lines of a file begin; an unfinished line counts as a line."""
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
