"""Which user's program has made a connection to this server on the same machine, from the kernel's socket table."""

from __future__ import annotations

import os
import sys

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"  # in other states a closed socket is listed as root's


def is_ours(client_port: int, server_port: int) -> bool:
    """Whether this user or root made the connection. True without /proc, where others cannot read command lines."""
    if sys.platform == "win32" or not os.path.exists(TABLES[0]):
        return True
    owners = owners_of(client_port, server_port)
    return bool(owners) and owners <= {0, os.getuid()}


def owners_of(client_port: int, server_port: int) -> set[int]:
    """The user ids of sockets with this pair of ports: several, if they use different addresses of the machine."""
    ports, found = (client_port, server_port), set()
    for path in TABLES:
        if not os.path.exists(path):  # the machine has no IPv6
            continue
        with open(path, encoding="ascii") as table:
            for _, local, remote, state, *others in map(str.split, table.readlines()[1:]):
                if state == ESTABLISHED and (port_of(local), port_of(remote)) == ports:
                    found.add(int(others[3]))
    return found


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
