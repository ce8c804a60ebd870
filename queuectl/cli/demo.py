"""`demo`: the queue at work, in a temporary directory, with jobs of all kinds."""

from __future__ import annotations

import gc
import io
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import click

from queuectl.cli import commands
from queuectl.cli.watch import can_watch, watch
from queuectl.database import VARIABLE as DATABASE_VARIABLE
from queuectl.job import RUN_VARIABLES
from queuectl.queue import Queue
from queuectl.worker_manager import WorkerManager

LONGEST_VIEW_SECONDS = 8.0
INTERRUPTED = 130
# The program of the jobs: it takes a moment and prints its steps; `shaky` fails the first time.
WORK = """\
import os, sys, time
name, seconds = sys.argv[1], float(sys.argv[2])
for step in (1, 2, 3):
    print(f"{name}: step {step} of 3", flush=True)
    time.sleep(seconds / 3)
if name == "shaky" and not os.path.exists("tried"):
    open("tried", "w").close()
    sys.exit("shaky: not this time")
"""
JOBS = {
    "of little hurry": ['--id backup --priority 3 "{python} work.py backup 0.9"'],
    "as usual": [f'--id build-{number} "{{python}} work.py build-{number} 0.6"' for number in (1, 2, 3)],
    "urgent": ['--id mail --priority 8 "{python} work.py mail 0.3"'],
    "fails once, and is tried again": ['--id shaky --backoff-base 0.5 "{python} work.py shaky 0.3"'],
    "cannot succeed": ['--id broken --max-retries 1 --backoff-base 0.5 "exit 3"'],
    "takes too long": ['--id slow --timeout 1 --max-retries 0 "{python} work.py slow 60"'],
    "only when the builds are completed": [
        '--id ship --after build-1 --after build-2 --after build-3 "{python} work.py ship 0.3"'
    ],
    "not now": ['--id tonight --delay 8h "echo good night"'],
}
BEFORE = ["list --state pending", "why ship", "why tonight", "worker start --count 2"]
AFTER = [
    "wait backup mail shaky broken slow ship",
    "list",
    "logs --follow shaky",
    "why mail",
    "dlq list",
    "metrics --recent 0",
]


@click.command()
def demo() -> None:
    """Show the queue at work: jobs of all kinds, two workers, a few seconds. Your own queue is not touched.

    \b
    Example:
      queuectl demo
    """
    with temporary_queue() as queue:
        click.echo(f"A queue in {queue.home.root}, which is removed at the end. Your own is not touched.")
        python = os.path.splitext(os.path.basename(sys.executable))[0]
        for remark, lines in JOBS.items():
            say(remark)
            for line in lines:
                with redirect_stderr(io.StringIO()):  # the note on the place in line would appear ten times
                    step("enqueue " + line.format(python=python))
        say("priority + waiting_time is the effective priority; every enqueue earns each waiting job a point")
        for line in BEFORE:
            step(line)
        look_on(queue)
        for line in AFTER:
            step(line)
    click.echo("\nThe workers have stopped, and the directory is gone. Now your own: queuectl enqueue …")


def say(remark: str) -> None:
    click.secho(f"\n# {remark}", dim=True)


def step(line: str) -> None:
    """Type a command, as a user would, and show what it prints."""
    click.secho(f"$ queuectl {line}", bold=True)
    sys.stdout.flush()
    try:
        code = commands.call(shlex.split(line))
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    sys.stdout.flush()
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        click.secho(f"(exit code {code})", dim=True)


def look_on(queue: Queue) -> None:
    """Show the live view if the terminal can draw it, until only the scheduled job is left."""
    if not can_watch():
        step("status")
        return
    give_up = time.monotonic() + LONGEST_VIEW_SECONDS

    def is_done() -> bool:
        counts = queue.counts()
        return counts["pending"] + counts["processing"] + counts["failed"] <= 1 or time.monotonic() > give_up

    click.secho("$ queuectl status --watch", bold=True)
    watch(queue, until=is_done)


@contextmanager
def temporary_queue() -> Iterator[Queue]:
    """A temporary queue with the program of its jobs; workers are stopped and files removed however the demo ends."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl+C
    before = os.getcwd()
    root = tempfile.mkdtemp(prefix="queuectl-demo-")
    for name in (DATABASE_VARIABLE, *RUN_VARIABLES):
        os.environ.pop(name, None)
    os.environ["QUEUECTL_HOME"] = os.path.join(root, "home")
    # The jobs call Python by its name, which is easier to read than its path.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    queue = Queue()
    try:
        os.chdir(root)
        with open("work.py", "w", encoding="utf-8") as file:
            file.write(WORK)
        yield queue
    finally:
        with redirect_stderr(io.StringIO()):
            WorkerManager(queue.home, queue.storage).stop(0)
        queue.close()
        os.chdir(before)
        gc.collect()  # closes the files that commands have opened: Windows cannot remove open files
        shutil.rmtree(root, ignore_errors=True)
