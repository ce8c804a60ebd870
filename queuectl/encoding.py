"""Decode what a command printed: as UTF-8, or else in the code page of Windows's consoles. It never fails."""

from __future__ import annotations

import re

CUT_AT_START = re.compile(rb"[\x80-\xbf]{1,3}")
CUT_AT_END = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


def as_text(data: bytes, code_page: str | None, is_cut: bool = False) -> str:
    """Decode line by line, because the programs of one job may use different encodings.

    `is_cut` says that the data may begin within a multi-byte character. PostgreSQL cannot store NUL, so NUL becomes
    U+FFFD, as do bytes that cannot be decoded.
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
    """Decode as UTF-8 if that gives more non-ASCII letters than replacement characters; else in the code page."""
    text = line.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(letter > "\x7f" for letter in text) - broken
    return text if whole > broken or not broken else line.decode(code_page, "replace")


def whole_letters(data: bytes) -> bytes:
    """The data without an incomplete multi-byte character at its end."""
    return CUT_AT_END.sub(b"", data)
