"""Which database the queue is in: QUEUECTL_DB, else config.json in the home, else the SQLite file there."""

from __future__ import annotations

import os
import re

from queuectl.errors import InvalidInput, brief
from queuectl.files import write_private
from queuectl.home import Home

VARIABLE = "QUEUECTL_DB"
ACCEPTED = "postgresql://user@host/database or sqlite:///path"
# Stricter than libpq: where a password contains an @ or / that is not encoded, libpq takes the rest of the password
# for a host or port and prints it in its errors. A URL of this form is shown with its password masked; a URL of any
# other form is never shown.
ENCODED = r"%(?!00)[0-9A-Fa-f]{2}"
PAIR = rf"\w+=(?:[^&%\s]|{ENCODED})*"
POSTGRES = rf"postgres(?:ql)?://(?:(?:[^@/?%\s]|{ENCODED})*@)?[^@?\s]*(?:[?]{PAIR}(?:&{PAIR})*)?"
UNREADABLE = (
    "This database URL cannot be read, and is not shown, for it may hold a password. Write "
    "postgresql://user:password@host:5432/name, and in the password %40 for @, %2F for /, %3F for ?, %25 for %"
)


def database_url(home: Home) -> str:
    """The URL of the database that holds the queue."""
    if given := os.environ.get(VARIABLE):
        return checked(given, VARIABLE)
    return configured(home) or f"sqlite:///{home.database}"


def configured(home: Home) -> str | None:
    """The URL that `config set database` has written, if any."""
    try:
        with open(home.config_json, "rb") as file:
            written = file.read()
    except FileNotFoundError:
        return None
    import json

    try:
        found = json.loads(written)["database"]
        return None if found is None else checked(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidInput):
        raise InvalidInput(
            f"{home.config_json} is damaged. Remove it, and set the database again: queuectl config set database URL"
        ) from None


def configure(home: Home, url: str | None) -> None:
    """Store the URL in config.json, readable by its owner only: it may hold a password."""
    from json import dumps

    write_private(home.config_json, dumps({"database": url}, indent=1))


def checked(url: str, name: str = "database") -> str:
    """The URL, if it names a supported kind of database; a file's path is made absolute."""
    url = url.strip()
    if is_postgres(url):
        if re.fullmatch(POSTGRES, url) and url.isprintable():
            return url
        raise InvalidInput(UNREADABLE)
    path = sqlite_path(url)
    if path is not None:
        return f"sqlite:///{path}"
    scheme, is_url, _ = url.partition("://")
    shown = f"{scheme}://…" if is_url else url if re.fullmatch(r"[\w./\\-]*", url) else "…"
    raise InvalidInput(f"{name} cannot be {brief(shown)}. It takes {ACCEPTED}")


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def sqlite_path(url: str) -> str | None:
    """The file that a sqlite:/// URL names; as in other programs, four slashes make it absolute on POSIX."""
    prefix = "sqlite:///"
    if not url.startswith(prefix) or len(url) == len(prefix):
        return None
    path = url[len(prefix) :]
    return os.path.abspath(os.path.expanduser(path))


def masked(url: str) -> str:
    """A checked URL with its passwords masked, so that it can be shown to anybody."""
    url = re.sub(r"^(\w+://[^:@/?]*:)[^@/?]*(?=@)", r"\1***", url)
    return re.sub(r"([?&]\w*password=)[^&]*", r"\1***", url)
