"""`enqueue`: hand in one job, or many at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO, Any

import click

from queuectl.cli.options import command_of, job_fields, job_options
from queuectl.errors import DuplicateJob, InvalidInput, QueueError, sentence
from queuectl.queue import Queue
from queuectl.storage import Added


@click.command()
@click.argument("command", nargs=-1)
@job_options
@click.option("--file", "path", help="Many jobs from a file, or - for stdin: a JSON object or a command a line.")
def enqueue(command: tuple[str, ...], path: str | None, line: str | None, **options: Any) -> None:
    """Put a command in the queue, and print the job's id.

    One argument is a line for the shell, or a JSON object; several are a program and its arguments, run without a
    shell: write -- before them.

    \b
    Examples:
      queuectl enqueue "sleep 2 && echo hello"
      queuectl enqueue -p 9 --timeout 60 -- ffmpeg -i "my film.mkv" out.mp4
      queuectl enqueue '{"id": "job1", "command": "echo hi", "priority": 8}'
      queuectl enqueue --file jobs.jsonl
    """
    queue = Queue()
    fields = job_fields(options)
    wanted = command_of(command, line)
    if path is not None:
        if wanted is not None or "id" in fields:
            raise InvalidInput("--file brings its own commands and ids. Leave out the command and --id")
        added = enqueue_file(queue, path, fields)
    elif isinstance(wanted, str) and line is None and (given := json_object(wanted)) is not None:
        added = queue.enqueue_all([given | fields])
    else:
        added = queue.enqueue_all([dict(fields, command=wanted)])
    sys.stdout.write("".join(f"{job.id}\n" for job in added))
    sys.stdout.flush()
    tell_place(queue, added)


def json_object(text: str) -> dict[str, Any] | None:
    """The object, if the text is JSON; None if it is a command line: a shell's `[ -f x ]` is no JSON."""
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if start == "[":
            return None
        raise InvalidInput(
            f"This begins like JSON but is not: {error}. PowerShell and cmd.exe eat quotes: there write it as "
            '--id NAME --command "echo hi", or put it in a file and use --file FILE'
        ) from None
    if not isinstance(found, dict):
        raise InvalidInput('This is JSON but not an object. Write it like {"command": "echo hi"}')
    return found


def enqueue_file(queue: Queue, path: str, defaults: dict[str, Any]) -> list[Added]:
    """All lines or none; an error names the line."""
    lines = Lines(path)
    try:
        return queue.enqueue_all(lines.fields(), defaults)
    except InvalidInput as error:
        if lines.number:
            raise InvalidInput(
                f"Line {lines.number} of {lines.name}: {sentence(str(error))} Nothing was stored"
            ) from None
        raise
    except DuplicateJob as error:
        raise QueueError(f"Line {lines.line_of[error.job_id]} of {lines.name}: {error}. Nothing was stored") from None


class Lines:
    """The jobs of a file, one a line, with the number of the line that was read last."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else path
        self.number = 0
        self.line_of: dict[Any, int] = {}  # by id; the last one, where it is there twice

    def fields(self) -> Iterator[dict[str, Any]]:
        with self._open() as file:
            for number, data in enumerate(file, 1):
                self.number = number
                try:
                    text = data.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                except UnicodeDecodeError:
                    raise InvalidInput("it is not UTF-8. Save the file as UTF-8") from None
                if text:
                    given = json_object(text)
                    if given and "id" in given:
                        self.line_of[str(given["id"])] = number
                    yield {"command": text} if given is None else given
        self.number = 0

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
    """What a person wants to know, on stderr: the place in line, and whether anybody will do it."""
    from queuectl.recovery import Condition, conditions

    if not added:
        click.echo("No jobs in there: nothing was stored.", err=True)
        return
    if len(added) == 1:
        click.echo(place_line(queue, added[0]), err=True)
    else:
        click.echo(f"{len(added):,} jobs were stored.", err=True)
    if all(condition is not Condition.ALIVE for _, condition in conditions(queue.storage)):
        click.echo("No worker is running. Start one with: queuectl worker start", err=True)


def place_line(queue: Queue, job: Added) -> str:
    from queuectl.times import short

    place = queue.place(job)
    if place.ahead is None:
        return f"Job {job.id} waits until {short(place.run_at)}."
    if place.ahead == 0:
        return f"Job {job.id} is next in line."
    return f"Job {job.id} is in line, {place.ahead:,}{'+' if place.ahead >= 1000 else ''} before it."
