"""What the dashboard costs the workers: two of them on jobs that do nothing, with and without 200 requests at once."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Figure, Scale, alternate, at_least, python, ratio
from benchmarks.queues import Shelf
from benchmarks.throughput import queue_rate
from benchmarks.web import serving

AT_ONCE = 200
BEFORE_SECONDS = 0.5  # the workers have begun by then
# In a process of its own, so that who measures has nothing to do with it. It says how many were answered.
ASKING = f"""
import http.client, sys, threading, time
host, port, token = sys.argv[1:]
paths = ["/api/overview", "/api/jobs?state=pending", "/api/jobs/last", "/api/metrics", "/metrics"]
answered = []
def ask(number):
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", paths[number % len(paths)], headers={{"Authorization": "Bearer " + token}})
    answered.append(connection.getresponse().read())
askers = [threading.Thread(target=ask, args=(number,)) for number in range({AT_ONCE})]
time.sleep({BEFORE_SECONDS})
for asker in askers: asker.start()
for asker in askers: asker.join()
print(len(answered))
"""


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    found = alternate(
        {side: partial(rate, shelf, scale.runs * 5, side == "asked") for side in ("asked", "alone")}, scale.rounds
    )
    what = f"{scale.runs * 5:,} jobs `true` while {AT_ONCE} requests come at once : while none comes"
    aside = " : ".join(f"{statistics.median(side):,.0f}" for side in found.values())
    yield Figure("web_load", what, ratio(found["asked"], found["alone"]), "", at_least(0.9), f"{aside} jobs a second")


def rate(shelf: Shelf, jobs: int, is_asked: bool) -> float:
    """Jobs a second, with a dashboard that is asked for much or for nothing."""
    with shelf.queue() as home, serving(home) as client:
        if not is_asked:
            return queue_rate(home, jobs)
        asking = subprocess.Popen(python(ASKING, *client.address), stdout=subprocess.PIPE, text=True)
        found = queue_rate(home, jobs)
        assert int(asking.communicate(timeout=60)[0]) == AT_ONCE
        return found
