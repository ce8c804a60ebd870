"""What a command printed, as text: UTF-8, or else the code page of Windows's consoles. Never fails."""

from __future__ import annotations

import re

CUT_AT_START = re.compile(rb"[\x80-\xbf]{1,3}")
CUT_AT_END = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


def as_text(data: bytes, code_page: str | None, is_cut: bool = False) -> str:
    """Line by line, since a job's programs need not agree; `is_cut` says that a letter may be missing its beginning.

    NUL, which PostgreSQL cannot store, becomes U+FFFD as what cannot be read does.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        if code_page is None:
            text = data.decode("utf-8", "replace")
        else:
            cut = CUT_AT_START.match(data) if is_cut else None
            lines = data[cut.end() if cut else 0 :].splitlines(keepends=True)
            text = "\ufffd" * bool(cut) + "".join(_line(line, code_page) for line in lines)
    return text.replace("\0", "\ufffd")


def _line(line: bytes, code_page: str) -> str:
    """As UTF-8 if it has more letters beyond ASCII than bytes that are none; else in the code page."""
    text = line.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(letter > "\x7f" for letter in text) - broken
    return text if whole > broken or not broken else line.decode(code_page, "replace")


def whole_letters(data: bytes) -> bytes:
    """Without the beginning of a letter whose end is still to come."""
    return CUT_AT_END.sub(b"", data)
