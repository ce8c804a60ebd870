"""Every request of the dashboard, with many finished and waiting jobs against few, on two servers in turn."""

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
from queuectl.selection import MOST_LOOKED_AT

REQUESTS = 5  # per measurement
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
    "/api/metrics",
    "/api/workers",
    "/api/queues",
    "/api/schedules",
    "/api/settings",
    "/metrics",
]
# Each of these requests reads up to MOST_LOOKED_AT rows, whether they match or not, so both queues must have that many.
SEARCHED = 2 * MOST_LOOKED_AT
SEARCHING = [
    "/api/jobs?match=nothing-like-it",
    "/api/jobs?match=nothing-like-it&state=pending",
    "/api/jobs?reason=nothing-like-it&state=completed",
    "/api/jobs?older_than=10000d",
    "/api/jobs?label=nothing-like-it&state=completed",
    "/api/timeline",
    "/api/timeline?minutes=1440",
]
BULK = {
    "retry": {"match": "nothing-like-it", "state": "completed"},
    "cancel": {"match": "nothing-like-it", "state": "pending"},
    "delete": {"reason": "nothing-like-it", "state": "completed"},
}
CHANGES = "enqueue, promote, cancel, retry and delete"


class Client:
    """One connection that is kept open, like a browser's."""

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

    def change_many(self, name: str) -> float:
        """One request that changes all matching jobs, of which there are none."""
        body = json.dumps({"select": BULK[name]})
        began = time.perf_counter()
        for _ in range(REQUESTS):
            self.ask("POST", f"/api/bulk/{name}", body)
        return (time.perf_counter() - began) / REQUESTS

    def change(self) -> float:
        """Enqueue a job, change it several times, and delete it."""
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
        some = min(SEARCHED, scale.middle)
        part = stack.enter_context(serving(stack.enter_context(shelf.queue(waiting=some, passed=some))))
        clients["short"] = part
        compared = f"{scale.large:,} finished, {scale.middle:,} waiting : {some:,} of each"
        for path in SEARCHING:
            found = alternate({size: partial(client.look, path) for size, client in clients.items()}, scale.rounds)
            yield figure(path, f"GET {path}, {compared}", found)
        for name in BULK:
            found = alternate({size: partial(one.change_many, name) for size, one in clients.items()}, scale.rounds)
            yield figure(f"bulk/{name}", f"POST /api/bulk/{name} by a text that is nowhere, {compared}", found)


def figure(name: str, what: str, found: dict[str, list[float]]) -> Figure:
    long, short = found["long"], found["short"]
    return Figure(f"web {name}", what, ratio(long, short), "", at_most(1.5), versus(long, short))
