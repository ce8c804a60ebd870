"""Every answer of the dashboard, with many jobs finished and waiting against few: two servers side by side."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks.harness import Figure, Scale, alternate, at_most, queuectl, ratio, versus
from benchmarks.queues import Shelf
from queuectl.home import Home

REQUESTS = 5  # that are measured as one
LOOKING = [
    "/",
    "/api/stats",
    "/api/overview",
    "/api/jobs",
    "/api/jobs?state=completed",
    "/api/jobs?state=pending&limit=200",
    "/api/jobs/last",
    "/api/jobs/last/output",
    "/api/jobs/last/why",
    "/api/dead/groups",
    "/api/history?span=day",
    "/api/timeline",
    "/api/metrics",
    "/api/workers",
    "/api/queues",
    "/api/schedules",
    "/api/settings",
    "/metrics",
]
CHANGES = "enqueue, promote, cancel, retry and delete"


class Client:
    """One connection that is kept, as a browser's is."""

    def __init__(self, url: str) -> None:
        found = re.search(r"http://([^:/]+):(\d+)/\?token=(\S+)", url)
        assert found is not None, url
        self.address = found.groups()
        self._connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=60)
        self._headers = {"Authorization": f"Bearer {found[3]}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: str | None = None) -> bytes:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        read = answer.read()
        assert answer.status < 300, read
        return read

    def look(self, path: str) -> float:
        began = time.perf_counter()
        for _ in range(REQUESTS):
            self.ask("GET", path)
        return (time.perf_counter() - began) / REQUESTS

    def change(self) -> float:
        """A job comes, and goes again."""
        began = time.perf_counter()
        [job_id] = json.loads(self.ask("POST", "/api/enqueue", '{"command": "true"}'))["ids"]
        for act in ("promote", "cancel", "retry", "cancel", "delete"):
            self.ask("POST", f"/api/{act}/{job_id}")
        return time.perf_counter() - began


@contextmanager
def serving(home: Home) -> Iterator[Client]:
    process = subprocess.Popen(
        queuectl("web", "--port", "0"),
        env={**os.environ, "QUEUECTL_HOME": home.root},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Client(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    with ExitStack() as stack:
        long = stack.enter_context(shelf.queue(waiting=scale.middle, passed=scale.large))
        short = stack.enter_context(shelf.queue(waiting=scale.small, passed=scale.small))
        clients = {"long": stack.enter_context(serving(long)), "short": stack.enter_context(serving(short))}
        compared = f"{scale.large:,} finished, {scale.middle:,} waiting : {scale.small:,} of each"
        for path in LOOKING:
            found = alternate({size: partial(client.look, path) for size, client in clients.items()}, scale.samples)
            yield figure(path, f"GET {path}, {compared}", found)
        found = alternate({size: client.change for size, client in clients.items()}, scale.samples)
        yield figure("changes", f"{CHANGES}, {compared}", found)


def figure(name: str, what: str, found: dict[str, list[float]]) -> Figure:
    long, short = found["long"], found["short"]
    return Figure(f"web {name}", what, ratio(long, short), "", at_most(1.5), versus(long, short))
