"""workers.json: the workers that run on this machine, by pid and start time.

It is read and written under a lock and replaced as a whole, so that concurrent changes are not lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from queuectl import platforms
from queuectl.files import replace, write_private
from queuectl.home import Home
from queuectl.storage import Worker


class Entry(NamedTuple):
    """A worker, as it registered itself; the start time shows whether its pid was reused."""

    name: str
    pid: int
    start_time: str
    boot_id: str
    pid_space: str

    @property
    def is_alive(self) -> bool:
        here = (platforms.boot_id(), platforms.pid_space())
        return (self.boot_id, self.pid_space) == here and platforms.start_time(self.pid) == self.start_time


def entry(worker: Worker) -> Entry:
    return Entry(worker.name, worker.pid, worker.start_time, worker.boot_id, worker.pid_space)


@contextmanager
def workers_file(home: Home, rebuild: Callable[[str], list[Entry]]) -> Iterator[list[Entry]]:
    """The entries, to be changed in place. A damaged file is renamed, and `rebuild` gets its new path."""
    with platforms.locked(home.workers_json + ".lock"):
        entries = _read(home.workers_json)
        before = None if entries is None else list(entries)
        if entries is None:
            aside = f"{home.workers_json}.damaged-{time.time_ns()}"
            replace(home.workers_json, aside)
            entries = rebuild(aside)
        yield entries
        if entries != before:
            _write(home.workers_json, entries)


def _read(path: str) -> list[Entry] | None:
    """The entries in the file; None if it exists but is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            return [_checked(Entry(**item)) for item in json.load(file)["workers"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _checked(found: Entry) -> Entry:
    if type(found.pid) is not int or not all(isinstance(text, str) for text in (found.name, *found[2:])):
        raise ValueError
    return found


def _write(path: str, entries: list[Entry]) -> None:
    write_private(path, json.dumps({"workers": [entry._asdict() for entry in entries]}, indent=1))
