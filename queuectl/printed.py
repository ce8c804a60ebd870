"""Read a part of a try's output, from any offset: from the spool file while it runs, then from its kept file or row."""

from __future__ import annotations

import os
from typing import NamedTuple

from queuectl.encoding import as_text, whole_letters
from queuectl.follow import elsewhere, runs, size_of
from queuectl.job import Job
from queuectl.platforms import CODE_PAGE
from queuectl.queue import Queue

CONTINUED = range(0x80, 0xC0)  # continuation bytes of UTF-8: no character begins with one
LONGEST_LETTER = 4
CUT = "["  # a text whose beginning was cut off begins with a line in brackets that says so
CUT_LINE = " bytes cut; the whole is in "


class Part(NamedTuple):
    """The text between the byte offsets `start` and `offset` of an output that has `size` bytes so far."""

    text: str
    start: int
    offset: int
    size: int
    is_running: bool
    is_cut: bool  # the output before the text's beginning was not kept
    host: str | None  # the machine that runs it, if its spool files cannot be read here


def part_of_try(queue: Queue, job: Job, lease: int, stream: int, offset: int, most: int) -> Part:
    """At most `most` bytes of stdout (0) or stderr (1), from `offset` on, which counts from the end if negative."""
    if runs(job, lease):
        path = queue.home.spool(job.worker or "")[stream]
        size = size_of(path)
        start = place(offset, size)
        data = read(path, start, most)
        job = queue.storage.glance(job.id)
        if runs(job, lease):  # otherwise the data may be the next job's output
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
    """Decode only complete characters: an incomplete one at the end is left for the next part."""
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
