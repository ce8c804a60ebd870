"""Show what a job prints while it runs, from the spool files of the worker that runs it."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable
from typing import IO

from queuectl.job import Job, State
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

    Bytes are passed on as they are; they are decoded only to know how much of the text in the row has been shown.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._bytes = self._letters = 0

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
            self._letters += len(self._decoder.decode(chunk))
            self._write(chunk)

    def show_rest(self, kept: str, text: str) -> None:
        """What the run printed after the last look: from the file that was kept of it, else from the row."""
        if os.path.exists(kept):
            while chunk := self.read(kept):
                self.show(chunk)
        else:
            pending = len(self._decoder.getstate()[0])  # bytes of a letter that is not whole yet, shown already
            self._write(text[self._letters :].encode("utf-8", "replace")[pending:])

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()
