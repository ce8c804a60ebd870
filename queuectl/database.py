"""Which database the queue is in: QUEUECTL_DB, else config.json in the home, else the SQLite file there."""

from __future__ import annotations

import os
import re

from queuectl.errors import InvalidInput
from queuectl.files import replace
from queuectl.home import Home

VARIABLE = "QUEUECTL_DB"
ACCEPTED = "postgresql://user@host/database or sqlite:///path"
PASSWORDS = (r"(?<=:)[^:@/]*(?=@)", r"(?<=password=)[^&]*")


def database_url(home: Home) -> str:
    """Where the queue is."""
    return os.environ.get(VARIABLE) or configured(home) or f"sqlite:///{home.database}"


def configured(home: Home) -> str | None:
    """What `config set database` has written."""
    try:
        with open(home.config_json, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    import json

    try:
        found = json.loads(text)["database"]
        return None if found is None else checked(found)
    except (ValueError, TypeError, KeyError, InvalidInput):
        raise InvalidInput(
            f"{home.config_json} is damaged. Remove it, and set the database again: queuectl config set database URL"
        ) from None


def configure(home: Home, url: str | None) -> None:
    """Write it down, for the owner's eyes only: it may hold a password."""
    import json

    new = f"{home.config_json}.new"
    with open(new, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        json.dump({"database": url}, file, indent=1)
    replace(new, home.config_json)


def checked(url: str) -> str:
    """The URL, if it names a database of a kind that there is."""
    url = url.strip()
    if is_postgres(url) or sqlite_path(url) is not None:
        return url
    raise InvalidInput(f"database cannot be {masked(url)!r}. It takes {ACCEPTED}")


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
    """The URL as it may be shown to anybody."""
    for password in PASSWORDS:
        url = re.sub(password, "***", url, count=1)
    return url
