"""Adding jobs: read them, store them, print their ids, and tell the user their place in line. Needs no Click."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Any

from queuectl.cli.typed_json import json_object, typed_object
from queuectl.errors import DuplicateJob, InvalidInput, JobNotFound, QueueError, StorageError, sentence
from queuectl.queue import Queue
from queuectl.storage import Added

UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
NEEDS = ("depends_on", "after_any", "after_failed")
MOST_NAMED = 5  # ids in one message


def hand_in_one(text: str) -> None:
    """Enqueue a line for the shell, or a JSON object, as it was typed and without options."""
    queue = Queue()
    given = typed_object(text)
    announce(queue, queue.enqueue_all([{"command": text} if given is None else given], warn=tell))


def announce(queue: Queue, added: list[Added]) -> None:
    """Print nothing but the ids on stdout; print notes for the user on stderr."""
    try:
        sys.stdout.write("".join(f"{job.id}\n" for job in added))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        ids = ", ".join(job.id for job in added[:MOST_NAMED]) + (", …" if len(added) > MOST_NAMED else "")
        raise QueueError(f"Stored as {ids}, but this could not be printed: {error.strerror}") from error
    with suppress(StorageError):  # the jobs are stored; a note that fails is no error
        tell_place(queue, added)


def enqueue_file(queue: Queue, path: str, defaults: dict[str, Any], strict: bool) -> list[Added]:
    """All lines or none; an error names the line."""
    lines = Lines(path)
    try:
        return queue.enqueue_all(lines.fields(), defaults, strict, tell)
    except InvalidInput as error:
        if lines.number:
            raise InvalidInput(
                f"Line {lines.number} of {lines.name}: {sentence(str(error))} Nothing was stored"
            ) from None
        raise
    except DuplicateJob as error:
        raise QueueError(f"Line {lines.line_of[error.job_id]} of {lines.name}: {error}. Nothing was stored") from None
    except JobNotFound as error:
        line = lines.waiting_for.get(error.job_id)
        where = f"Line {line} of {lines.name}: " if line else ""
        raise QueueError(f"{where}{sentence(str(error))} Nothing was stored") from None


class Lines:
    """The jobs of a file, one per line, with the number of the line that was read last."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else path
        self.number = 0
        self.line_of: dict[Any, int] = {}  # by id; the last line, if the id occurs twice
        self.waiting_for: dict[str, int] = {}  # by the id that a job on the line waits for

    def fields(self) -> Iterator[dict[str, Any]]:
        with self._open() as file:
            for text in self._texts(file):
                if text:
                    given = json_object(text)
                    if given and "id" in given:
                        self.line_of[str(given["id"])] = self.number
                    for needs in (given.get(key) for key in NEEDS) if given else ():
                        if isinstance(needs, (str, list)):
                            ids = [needs] if isinstance(needs, str) else map(str, needs)
                            self.waiting_for.update(dict.fromkeys(ids, self.number))
                    yield {"command": text} if given is None else given
        self.number = 0

    def _texts(self, file: IO[bytes]) -> Iterator[str]:
        """Each line, stripped: UTF-8, or UTF-16 with a byte order mark, as PowerShell 5's `>` writes it."""
        import io

        mark = file.peek(2)[:2] if isinstance(file, io.BufferedReader) else b""
        lines: Iterable[Any] = io.TextIOWrapper(file, "utf-16") if mark in UTF_16_MARKS else file
        self.number = 1
        try:
            for number, line in enumerate(lines, 1):
                self.number = number
                text = line if isinstance(line, str) else line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.strip()
        except UnicodeDecodeError:
            raise InvalidInput("it is not UTF-8. Save the file as UTF-8") from None

    def _open(self) -> IO[bytes]:
        if self.path == "-":
            if sys.stdin is None:
                raise InvalidInput("stdin is closed. Name a file of jobs instead of -")
            return sys.stdin.buffer
        try:
            return open(self.path, "rb")
        except OSError as error:
            raise InvalidInput(
                f"Cannot read {self.path!r}: {error.strerror}. Name a file of jobs, or - for stdin"
            ) from None


def tell_place(queue: Queue, added: list[Added]) -> None:
    """Tell the user on stderr the place in line, and whether a worker will run the jobs."""
    from queuectl.liveness import available

    if not added:
        tell("No jobs in there: nothing was stored.")
        return
    if len(added) == 1:
        tell(place_line(queue, added[0]))
    else:
        stored = sum(job.is_new for job in added)
        others = len(added) - stored
        jobs = "1 job was" if stored == 1 else f"{stored:,} jobs were"
        tell(f"{jobs} stored{f', and {others:,} not: others have their keys' if others else ''}.")
    names = sorted({job.queue for job in added if job.is_new})
    for name in names:
        if queue.storage.queue(name).is_paused:
            tell(f"Queue {name} is paused. To let it go on: queuectl queue resume {name}")
    workers = available(queue.storage)
    if not workers:
        known = queue.storage.workers()
        stopping = any(worker.stop_grace is not None for worker in known)
        every = "Every worker was asked to stop" if stopping else "No worker is running"
        tell(f"{every}. Start one with: queuectl worker start")
        return
    for name in names:
        if not any(worker.serves(name) for worker in workers):
            tell(f"No worker serves queue {name}. Start one with: queuectl worker start --queue {name}")


def place_line(queue: Queue, job: Added) -> str:
    from queuectl.times import short

    if not job.is_new:
        return f"Job {job.id} waits or runs under this key already: no other was added."
    place = queue.place(job)
    if place.cancelled:
        return f"Job {job.id} is cancelled already: {place.cancelled}."
    if place.waits_for:
        more = len(place.waits_for) - MOST_NAMED
        others = f" and {more:,} more" if more > 0 else ""
        return f"Job {job.id} waits for {', '.join(place.waits_for[:MOST_NAMED])}{others}."
    if place.ahead is None:
        return f"Job {job.id} waits until {short(place.run_at)}."
    if place.ahead == 0:
        return f"Job {job.id} is next in line."
    return f"Job {job.id} is in line, {place.ahead:,}{'+' if place.ahead >= 1000 else ''} before it."


def tell(line: str) -> None:
    sys.stderr.write(line + "\n")
