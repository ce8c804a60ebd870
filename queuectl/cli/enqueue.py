"""`enqueue`: hand in one job, or many at once."""

from __future__ import annotations

from typing import Any

import click

from queuectl.cli.hand_in import announce, enqueue_file, tell
from queuectl.cli.options import command_of, job_fields, job_options
from queuectl.cli.typed_json import typed_job
from queuectl.errors import InvalidInput
from queuectl.queue import Queue


@click.command()
@click.argument("command", nargs=-1)
@job_options
@click.option("--file", "path", help="Many jobs from a file, or - for stdin: a JSON object or a command a line.")
def enqueue(command: tuple[str, ...], path: str | None, line: str | None, strict: bool, **options: Any) -> None:
    """Put a command in the queue, and print the job's id.

    One argument is a line for the shell, or a JSON object; several are a program and its arguments, run without a
    shell: write -- before them.

    \b
    Examples:
      queuectl enqueue "sleep 2 && echo hello"
      queuectl enqueue -p 9 --timeout 60 -- ffmpeg -i "my film.mkv" out.mp4
      queuectl enqueue '{"id": "job1", "command": "echo hi", "priority": 8}'
      queuectl enqueue --file jobs.jsonl
      queuectl enqueue --after build --label nightly "make test"
    """
    queue = Queue()
    fields = job_fields(options)
    wanted = command_of(command, line)
    if path is not None:
        if wanted is not None or "id" in fields:
            raise InvalidInput("--file brings its own commands and ids. Leave out the command and --id")
        added = enqueue_file(queue, path, fields, strict)
    else:
        given = typed_job(command)
        job = dict(fields, command=wanted) if given is None else given | fields
        added = queue.enqueue_all([job], strict=strict, warn=tell)
    announce(queue, added)
