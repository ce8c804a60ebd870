"""JSON as a user typed it, after the shell may have changed its quotes.

Text with only one possible meaning is accepted. Other text is refused with a command line to use instead, made of the
user's own values: PowerShell 5, and cmd.exe with single quotes, remove the double quotes, so that the end of a command
cannot be found.
"""

from __future__ import annotations

import re
from typing import Any

from queuectl.errors import InvalidInput
from queuectl.fields import CHECKS

# A group in a shell, `{ echo a; echo b; }`: a space after `{`, and the end of a command before `}`.
GROUP = re.compile(r"\{\s.*[;&\n]\s*\}", re.DOTALL)
NAMED = re.compile(r"""\{\s*("[^"]*"|'[^']*'|[\w-]+)\s*:""")
FIELD = re.compile(rf"""[{{,]\s*["']?({"|".join(CHECKS)})["']?\s*:""")
PLAIN = re.compile(r"[\w./:+-]+")
LONGEST_SHOWN = 200


def typed_job(command: tuple[str, ...]) -> dict[str, Any] | None:
    """The JSON object that was typed in the place of a command; None if it is a command."""
    if not command:
        return None
    return typed_object(command[0]) if len(command) == 1 else from_pieces(command)


def typed_object(text: str) -> dict[str, Any] | None:
    """The object that was typed; None if it is a line for the shell."""
    text = unwrapped(text)
    try:
        return json_object(text)
    except InvalidInput as error:
        if '"' not in text and text.startswith("{'"):
            try:
                return json_object(text.replace("'", '"'))
            except InvalidInput:
                pass
        raise InvalidInput(f"{error}. {advice(text)}") from None


def unwrapped(text: str) -> str:
    """The text without single quotes around it: cmd.exe does not treat them as quotes, and passes them on."""
    bare = text.strip()
    return bare[1:-1] if bare.startswith("'{") and bare.endswith("}'") else text


def json_object(text: str) -> dict[str, Any] | None:
    """The object, if the text is JSON; None if it is a line for the shell: `[ -f x ]` and `{ echo a; }` are no JSON."""
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if start == "[" or (GROUP.match(text.lstrip()) and not NAMED.match(text.lstrip())):
            return None
        raise InvalidInput(f"This begins like JSON but is not: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput('This is JSON but not an object. Write it like {"command": "echo hi"}')
    return found


def from_pieces(pieces: tuple[str, ...]) -> dict[str, Any] | None:
    """The object that the shell has split at its spaces; None if the pieces are a program and its arguments."""
    text = " ".join(pieces)
    return typed_object(text) if NAMED.match(text.removeprefix("'")) else None


def refuse_pieces(arguments: list[str]) -> None:
    """Explain a usage error whose wrong option may be a piece of JSON that the shell has split."""
    for place in range(len(arguments)):
        text = unwrapped(" ".join(arguments[place:]))
        if NAMED.match(text):
            raise InvalidInput(f"This is JSON that was taken apart. {advice(text)}")


def advice(text: str) -> str:
    """A command line with the same meaning that works where the shell removes quotes."""
    words = [f"--{name.replace('_', '-')} {quoted(value)}" for name, value in recognised(text).items()]
    line = " ".join(words or ["--id NAME", '--command "echo hi"'])
    return (
        f"PowerShell and cmd.exe take quotes out of JSON: there write queuectl enqueue {line}, "
        "or put the JSON in a file and write queuectl enqueue --file jobs.jsonl"
    )


def recognised(text: str) -> dict[str, str]:
    """The fields of a job that can still be recognised in broken JSON; none if the command cannot be."""
    found: dict[str, str] = {}
    places = list(FIELD.finditer(text))
    for place, after in zip(places, [*places[1:], None]):
        value = text[place.end() : after.start()] if after else text[place.end() :].strip().removesuffix("}")
        value = value.strip(" \t,\"'")
        if value and len(value) <= LONGEST_SHOWN and place[1] != "env":
            found[place[1]] = value
    return found if "command" in found else {}


def quoted(value: str) -> str:
    if PLAIN.fullmatch(value):
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'
