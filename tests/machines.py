"""Machines for the tests: in namespaces of their own, where root may make them, and pretended ones anywhere."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from conftest import SCRIPT, Cli
from pretend import pretend


class Machine(Cli):
    """queuectl as it is called on one machine of several."""

    def __init__(self, name: str, root: Path, database: str) -> None:
        self.name = name
        cwd = root / name / "work"
        cwd.mkdir(parents=True)
        super().__init__(root / name / "home", cwd)
        self.env["QUEUECTL_DB"] = database

    def log(self) -> str:
        return "\n".join(path.read_text() for path in (self.home / "logs").glob("worker-*.log"))

    def cut_off(self) -> None:
        raise NotImplementedError

    def come_back(self) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        raise NotImplementedError


class PretendedMachine(Machine):
    """This machine under another name, boot and clock; what it says to the server goes through a wire of its own."""

    def __init__(self, name: str, root: Path, database: str, ahead_seconds: int = 0) -> None:
        host, _, rest = database.partition("@")[2].partition("/")
        address, port = host.split(":")
        self.wire = Wire((address, int(port)))
        super().__init__(name, root, f"postgresql://postgres@127.0.0.1:{self.wire.port}/{rest}")
        self.env.update(pretend(root / name, name, ahead_seconds))

    def cut_off(self) -> None:
        self.wire.cut()

    def come_back(self) -> None:
        self.wire.mend()

    def remove(self) -> None:
        self.wire.mend()
        self("worker", "stop", "--force")
        self.wire.close()


class Wire:
    """Passes on what two sides say; when it is cut both are left waiting, as when a cable is pulled."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._whole = threading.Event()
        self._whole.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._whole.wait()
                try:
                    far = socket.create_connection(self._to)
                except OSError:
                    near.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._whole.wait()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self._listener.close()


# --- namespaces ---

APART = ["unshare", "--net", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]


def why_no_namespaces() -> str | None:
    """Why this machine cannot be divided into several; None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces are made by root on Linux only"
    for tool in ("ip", "unshare", "nsenter", "runuser"):
        if shutil.which(tool) is None:
            return f"there is no {tool} here to make network namespaces with"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--uts", "--fork", "--mount-proc", "true"], capture_output=True
    )
    if tried.returncode:
        return f"no namespaces can be made here: {tried.stderr.decode().strip()}"
    name = f"qtry{os.getpid()}"
    tried = subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], capture_output=True)
    subprocess.run(["ip", "link", "del", name], capture_output=True)
    return f"no veth can be made here: {tried.stderr.decode().strip()}" if tried.returncode else None


class Namespace:
    """A network, pid and host name of its own; it is gone, with all that runs in it, when its first process is."""

    def __init__(self, name: str) -> None:
        self._first = subprocess.Popen(
            [*APART, "sh", "-c", f"hostname {name}; echo up; exec sleep infinity"], stdout=subprocess.PIPE
        )
        assert self._first.stdout and self._first.stdout.readline() == b"up\n"
        [child] = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text().split()
        self.pid = int(child)
        self.enter = ["nsenter", "--target", child, "--net", "--pid", "--uts", "--mount"]
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command: str) -> None:
        subprocess.run([*self.enter, *command], check=True)

    def remove(self) -> None:
        self._first.kill()
        self._first.wait()


class Network:
    """A server in the middle, and a wire from it to each machine; nothing leads out."""

    def __init__(self) -> None:
        self.middle = Namespace("middle")
        self.names: list[str] = []

    def join(self, namespace: Namespace, name: str) -> str:
        """Lay a wire; returns the server's address as seen from there."""
        self.names.append(name)
        number = len(self.names)
        near, far = f"q{os.getpid()}n{number}", f"q{os.getpid()}f{number}"
        subprocess.run(["ip", "link", "add", near, "type", "veth", "peer", "name", far], check=True)
        try:
            for end, owner in ((near, self.middle), (far, namespace)):
                subprocess.run(["ip", "link", "set", end, "netns", str(owner.pid)], check=True)
        except subprocess.CalledProcessError:
            subprocess.run(["ip", "link", "del", near], check=False)
            raise
        self.middle.run("ip", "link", "set", near, "name", name)
        namespace.run("ip", "link", "set", far, "name", "out")
        self.middle.run("ip", "addr", "add", f"10.99.{number}.1/24", "dev", name)
        namespace.run("ip", "addr", "add", f"10.99.{number}.2/24", "dev", "out")
        self.middle.run("ip", "link", "set", name, "up")
        namespace.run("ip", "link", "set", "out", "up")
        return f"10.99.{number}.1"

    def set_link(self, name: str, state: str) -> None:
        self.middle.run("ip", "link", "set", name, state)

    def remove(self) -> None:
        self.middle.remove()


class RealMachine(Machine):
    """One with pids, a network and a name of its own."""

    def __init__(self, name: str, root: Path, network: Network, port: int, database: str) -> None:
        self.network = network
        self.namespace = Namespace(name)
        try:
            address = network.join(self.namespace, name)
        except BaseException:
            self.namespace.remove()
            raise
        super().__init__(name, root, f"postgresql://postgres@{address}:{port}/{database}")

    def argv(self, args: Sequence[str]) -> list[str]:
        return [*self.namespace.enter, "--wd=" + str(self.cwd), sys.executable, str(SCRIPT), *args]

    def cut_off(self) -> None:
        self.network.set_link(self.name, "down")

    def come_back(self) -> None:
        self.network.set_link(self.name, "up")

    def remove(self) -> None:
        self.namespace.remove()
