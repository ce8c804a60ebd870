"""How much the dashboard slows down two workers on jobs that do nothing: with and without 200 requests at once."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Figure, Scale, alternate, at_least, python, ratio
from benchmarks.queues import Shelf
from benchmarks.throughput import rate_of, run_all
from benchmarks.web import serving

AT_ONCE = 200
BEFORE_SECONDS = 0.5  # the workers have started by then
# The requests are sent by a process of its own, so that they do not slow down the measuring process. It prints how many
# were answered with status 200, and when the requests began and ended.
ASKING = f"""
import http.client, sys, threading, time
host, port, token = sys.argv[1:]
paths = ["/api/overview", "/api/jobs?state=pending", "/api/jobs/last", "/api/metrics", "/metrics"]
answered = []
def ask(number):
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", paths[number % len(paths)], headers={{"Authorization": "Bearer " + token}})
    answer = connection.getresponse()
    answer.read()
    answered.append(answer.status)
askers = [threading.Thread(target=ask, args=(number,)) for number in range({AT_ONCE})]
time.sleep({BEFORE_SECONDS})
began = time.time_ns()
for asker in askers: asker.start()
for asker in askers: asker.join()
print(answered.count(200), began // 1_000_000, time.time_ns() // 1_000_000)
"""


def measure(scale: Scale, shelf: Shelf) -> Iterator[Figure]:
    during: list[float] = []
    jobs = scale.runs * 5
    found = alternate(
        {"asked": partial(asked_rate, shelf, jobs, during), "alone": partial(alone_rate, shelf, jobs)}, scale.rounds
    )
    what = f"{jobs:,} jobs `true` while {AT_ONCE} requests come at once : while none comes"
    aside = " : ".join(f"{statistics.median(side):,.0f}" for side in found.values())
    yield Figure("web_load", what, ratio(found["asked"], found["alone"]), "", at_least(0.9), f"{aside} jobs a second")
    what = "the same, only while the requests are being answered"
    yield Figure("web_load_during", what, ratio(during[1:], found["alone"]))  # the first round only warms up


def alone_rate(shelf: Shelf, jobs: int) -> float:
    """Jobs per second beside a dashboard without requests."""
    with shelf.queue() as home, serving(home):
        return rate_of(run_all(home, jobs))


def asked_rate(shelf: Shelf, jobs: int, during: list[float]) -> float:
    """Jobs per second beside a dashboard with many requests; the rate while it answers is added to `during`."""
    with shelf.queue() as home, serving(home) as client:
        asking = subprocess.Popen(python(ASKING, *client.address), stdout=subprocess.PIPE, text=True)
        runs = run_all(home, jobs)
        answered, began, ended = map(int, asking.communicate(timeout=60)[0].split())
        assert answered == AT_ONCE
        during.append(1000 * sum(began <= run.finished_at < ended for run in runs) / (ended - began))
        return rate_of(runs)
