"""A disk whose power may fail: what was synced is on it, and of the rest any part, in any order."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from .trace import Call

SECTORS = (512, 4096)


class Change(NamedTuple):
    """A write, or with no data the new size of the file."""

    number: int  # of the call that did it
    offset: int
    data: bytes | None


class File:
    def __init__(self) -> None:
        self.synced = bytearray()
        self.waiting: list[Change] = []

    def sync(self, begun: int) -> None:
        """All that had been done when the sync began is on the disk."""
        for change in [change for change in self.waiting if change.number < begun]:
            apply(self.synced, change)
        self.waiting = [change for change in self.waiting if change.number >= begun]

    def after_a_cut(self, random: Random) -> bytes:
        """The synced, and of what waits any sectors, in any order."""
        content = bytearray(self.synced)
        sector = random.choice(SECTORS)
        pieces = [piece for change in self.waiting for piece in torn(change, sector)]
        share = random.choice([0, 0.1, 0.5, 0.9, 1])
        pieces = [piece for piece in pieces if random.random() < share]
        if random.random() < 0.5:
            random.shuffle(pieces)
        for piece in pieces:
            apply(content, piece)
        return bytes(content)


class Disk:
    """The files of one directory by their paths, as they are, and as they are on the disk."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        self.synced_names: dict[str, File] = {}
        self.waiting: list[tuple[int, str, File | None]] = []

    def do(self, number: int, call: Call) -> None:
        if call.name == "openat":
            if call.creates and call.path not in self.names:
                self._name(number, call.path, File())
        elif call.name == "unlink":
            self.names.pop(call.path)
            self.waiting.append((number, call.path, None))
        elif call.name in ("fsync", "fdatasync"):
            if call.path in self.names:
                self.names[call.path].sync(call.begun)
            else:
                self._sync_names(call.begun)
        else:
            data = None if call.name == "ftruncate" else call.data
            self.names[call.path].waiting.append(Change(number, call.number, data))

    def _name(self, number: int, path: str, file: File) -> None:
        self.names[path] = file
        self.waiting.append((number, path, file))

    def _sync_names(self, begun: int) -> None:
        """The directory itself: which files there are."""
        for number, path, file in self.waiting:
            if number < begun:
                rename(self.synced_names, path, file)
        self.waiting = [waiting for waiting in self.waiting if waiting[0] >= begun]

    def after_a_cut(self, random: Random) -> dict[str, bytes]:
        names = dict(self.synced_names)
        for _, path, file in self.waiting:
            if random.random() < 0.5:
                rename(names, path, file)
        return {path: file.after_a_cut(random) for path, file in names.items()}


def rename(names: dict[str, File], path: str, file: File | None) -> None:
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file


def apply(content: bytearray, change: Change) -> None:
    if change.data is None:
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
    else:
        content.extend(bytes(max(0, change.offset - len(content))))
        content[change.offset : change.offset + len(change.data)] = change.data


def torn(change: Change, sector: int) -> list[Change]:
    """A write in pieces that are each in one sector."""
    if change.data is None:
        return [change]
    pieces, offset, data = [], change.offset, change.data
    while data:
        size = sector - offset % sector
        pieces.append(Change(change.number, offset, data[:size]))
        offset, data = offset + size, data[size:]
    return pieces


def write(files: dict[str, bytes], directory: Path) -> None:
    for path, content in files.items():
        (directory / Path(path).name).write_bytes(content)
