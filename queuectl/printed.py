"""A part of what a try has printed, from any place on: of the spool while it runs, then of the file or row it is in."""

from __future__ import annotations

import os
from typing import NamedTuple

from queuectl.encoding import as_text, whole_letters
from queuectl.follow import elsewhere, runs, size_of
from queuectl.job import Job
from queuectl.platforms import CODE_PAGE
from queuectl.queue import Queue

CONTINUED = range(0x80, 0xC0)  # a byte of UTF-8 with which no letter begins
LONGEST_LETTER = 4
CUT = "["  # a text of which the beginning is missing begins with a line in brackets that says so
CUT_LINE = " bytes cut; the whole is in "


class Part(NamedTuple):
    """The text from `start` to `offset`, in bytes of the whole as far as it is there."""

    text: str
    start: int
    offset: int
    size: int
    is_running: bool
    is_cut: bool  # what came before the beginning is not to be had here
    host: str | None  # where it runs, if that is a machine whose files cannot be seen from here


def part_of_try(queue: Queue, job: Job, lease: int, stream: int, offset: int, most: int) -> Part:
    """From this byte on, or so many before the end; of stdout (0) or stderr (1)."""
    if runs(job, lease):
        path = queue.home.spool(job.worker or "")[stream]
        size = size_of(path)
        start = place(offset, size)
        data = read(path, start, most)
        job = queue.storage.glance(job.id)
        if runs(job, lease):  # otherwise what was read may be the next job's
            return part(data, start, size, True, host=elsewhere(queue, job))
    kept = queue.home.kept(job.seq, lease)[stream]
    if os.path.exists(kept):
        size = size_of(kept)
        start = place(offset, size)
        return part(read(kept, start, most), start, size)
    text = queue.storage.printed(job.seq, lease)[stream]
    whole = text.encode("utf-8", "replace")
    start = place(offset, len(whole))
    is_cut = text.startswith(CUT) and CUT_LINE in text.partition("\n")[0]
    return part(whole[start : start + most], start, len(whole), is_cut=is_cut)


def place(offset: int, size: int) -> int:
    return max(0, size + offset) if offset < 0 else min(offset, size)


def part(
    data: bytes, start: int, size: int, is_running: bool = False, is_cut: bool = False, host: str | None = None
) -> Part:
    """As text, of whole letters: what is left of one comes with the next part."""
    begun = next((n for n, byte in enumerate(data[:LONGEST_LETTER]) if byte not in CONTINUED), 0) if start else 0
    is_last = start + len(data) >= size and not is_running
    whole = data if is_last else whole_letters(data)
    text = as_text(whole[begun:], CODE_PAGE)
    return Part(text, start + begun, start + len(whole), size, is_running, is_cut, host)


def read(path: str, start: int, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(most)
    except OSError:
        return b""
