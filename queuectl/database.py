"""Which database the queue is in: QUEUECTL_DB, else config.json in the home, else the SQLite file there."""

from __future__ import annotations

import os
import re

from queuectl.errors import InvalidInput, brief
from queuectl.files import write_private
from queuectl.home import Home

VARIABLE = "QUEUECTL_DB"
ACCEPTED = "postgresql://user@host/database or sqlite:///path"
# Stricter than libpq is: it takes what follows an @ or / that is not encoded in a password for a host or a port, and
# names it in its errors. What has this form can be shown without its password, and nothing else is shown at all.
ENCODED = r"%(?!00)[0-9A-Fa-f]{2}"
PAIR = rf"\w+=(?:[^&%\s]|{ENCODED})*"
POSTGRES = rf"postgres(?:ql)?://(?:(?:[^@/?%\s]|{ENCODED})*@)?[^@?\s]*(?:[?]{PAIR}(?:&{PAIR})*)?"
UNREADABLE = (
    "This database URL cannot be read, and is not shown, for it may hold a password. Write "
    "postgresql://user:password@host:5432/name, and in the password %40 for @, %2F for /, %3F for ?, %25 for %"
)


def database_url(home: Home) -> str:
    """Where the queue is."""
    if given := os.environ.get(VARIABLE):
        return checked(given, VARIABLE)
    return configured(home) or f"sqlite:///{home.database}"


def configured(home: Home) -> str | None:
    """What `config set database` has written."""
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
    """Write it down, for the owner's eyes only: it may hold a password."""
    from json import dumps

    write_private(home.config_json, dumps({"database": url}, indent=1))


def checked(url: str, name: str = "database") -> str:
    """The URL, if it names a database of a kind that there is; the path of a file from the root on."""
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
    """The file that a sqlite:/// URL names; four slashes make it absolute on POSIX, as everywhere."""
    prefix = "sqlite:///"
    if not url.startswith(prefix) or len(url) == len(prefix):
        return None
    path = url[len(prefix) :]
    return os.path.abspath(os.path.expanduser(path))


def masked(url: str) -> str:
    """A URL that was checked, as it may be shown to anybody."""
    url = re.sub(r"^(\w+://[^:@/?]*:)[^@/?]*(?=@)", r"\1***", url)
    return re.sub(r"([?&]\w*password=)[^&]*", r"\1***", url)
