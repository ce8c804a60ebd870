"""The dashboard's address, the host names it answers to, its token, and the record of a running dashboard."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import secrets
import socket
from contextlib import suppress
from typing import Any, NamedTuple

from queuectl import platforms
from queuectl.errors import InvalidInput, QueueError
from queuectl.files import remove, write_private
from queuectl.home import Home
from queuectl.platforms import locked, start_time

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
WAITING = 100  # connections that are not accepted yet
IN_USE = {errno.EADDRINUSE, getattr(errno, "WSAEADDRINUSE", None), getattr(errno, "WSAEACCES", None)}


class Address(NamedTuple):
    host: str
    port: int

    @property
    def origin(self) -> str:
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def url(self, token: str) -> str:
        """The address that lets a browser in."""
        return f"{self.origin}/?token={token}"

    @property
    def names(self) -> set[str]:
        """The host names that requests may use; any other name may be an attacker's that points to this machine."""
        names = {*LOOPBACK, self.host}
        if self.host in EVERYWHERE:
            import psutil

            names |= {socket.gethostname(), socket.getfqdn()}
            names |= {one.address.partition("%")[0] for found in psutil.net_if_addrs().values() for one in found}
        return names


class Place(NamedTuple):
    """An address as the operating system resolves it."""

    family: int
    address: Any  # in the family's format; its first part is the host

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(str(self.address[0]).partition("%")[0]).is_loopback


def place_of(address: Address) -> Place:
    if not address.host.strip():
        raise InvalidInput("--host is blank. Leave it out, or give an address")
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"--host {address.host!r} is not known: {error}. Leave it out, or give an address") from None
    return Place(found[0][0], found[0][4])


def must_be_meant(address: Address, allow_remote: bool) -> None:
    """Refuse an address that other machines can reach, unless --allow-remote is given."""
    if not allow_remote and not place_of(address).is_loopback:
        raise InvalidInput(
            f"--host {address.host} lets other machines in: whoever has the token can run commands as you, and it goes "
            "over the network unencrypted. If that is meant, add --allow-remote; safer is ssh -L "
            f"{address.port}:127.0.0.1:{address.port} from there"
        )


def listen(home: Home, address: Address) -> socket.socket:
    """The listening socket; getsockname() tells the port that it got."""
    place = place_of(address)
    listening = socket.socket(place.family, socket.SOCK_STREAM)
    # On Windows SO_REUSEADDR would let two programs share the port; SO_EXCLUSIVEADDRUSE prevents that.
    exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    listening.setsockopt(socket.SOL_SOCKET, exclusive or socket.SO_REUSEADDR, 1)
    try:
        listening.bind(place.address)
        listening.listen(WAITING)
    except OSError as error:
        listening.close()
        raise QueueError(refused(home, address, error)) from None
    return listening


def refused(home: Home, address: Address, error: OSError) -> str:
    if error.errno not in IN_USE:
        return f"Cannot serve on {address.host}, port {address.port}: {error.strerror}. Choose another with --port"
    running = who_serves(home)
    if running is not None and running.port == address.port:
        return f"A dashboard of this queue runs there already: {running.url(token_of(home))}"
    return f"Port {address.port} is in use by another program. Choose another: queuectl web --port {address.port + 1}"


# --- the token ---


def token_of(home: Home) -> str:
    """The token of this queue, created on first use; anyone who has it can do everything that its owner can."""
    path = os.path.join(home.root, "web-token")
    with locked(path + ".lock"):  # two dashboards that start at once must use one token
        with suppress(FileNotFoundError), open(path, encoding="ascii") as file:
            token = file.read().strip()
            # A token that other users could read is replaced. On Windows the mode does not tell who can read a file.
            if token and (os.name == "nt" or not os.fstat(file.fileno()).st_mode & 0o077):
                return token
        remove(path)
        token = secrets.token_urlsafe(32)
        with open(platforms.create_private(path), "w", encoding="ascii") as file:
            file.write(token)
    return token


# --- the record of a running dashboard ---


def tell_who_serves(home: Home, address: Address) -> None:
    """Record this dashboard, for a second one that is started on the same port."""
    entry = {**address._asdict(), "pid": os.getpid(), "start_time": start_time(os.getpid())}
    write_private(running_file(home), json.dumps(entry))


def who_serves(home: Home) -> Address | None:
    """The address of this home's dashboard, if its process is alive."""
    with suppress(OSError, ValueError, KeyError, TypeError), open(running_file(home), encoding="utf-8") as file:
        entry = json.load(file)
        if start_time(int(entry["pid"])) == entry["start_time"] is not None:
            return Address(str(entry["host"]), int(entry["port"]))
    return None


def running_file(home: Home) -> str:
    return os.path.join(home.root, "web.json")
