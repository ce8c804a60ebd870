"""The metrics for Prometheus: the counters as they are, and histograms of run times and waiting times."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from flask import Blueprint, Response
from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from queuectl.job import State
from queuectl.liveness import Condition, conditions
from queuectl.metrics import EVENTS
from queuectl.storage import Storage
from queuectl.web.here import Here

MOST_RUNS = 10_000  # counted in one scrape; the next one goes on from there
LOOKED_AT = 100  # first jobs of each queue's line, searched for the oldest
BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 14400, 86400)
SINCE = "Since this server began; at most 10,000 runs are added a scrape."


class Figures:
    """Collected at each scrape; the cost does not grow with the queue."""

    def __init__(self, here: Here) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._here = here
        self._lock = threading.Lock()
        self._counted = here.queue.storage.newest_run()
        self.registry = CollectorRegistry(auto_describe=False)
        self._ran = self._histogram("queuectl_run_seconds", f"How long runs took. {SINCE}")
        self._waited = self._histogram("queuectl_waiting_seconds", f"How long jobs had waited when they ran. {SINCE}")
        self.registry.register(self)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, ["queue"], registry=self.registry, buckets=BUCKETS)

    def text(self) -> bytes:
        with self._lock:  # so that no run is counted twice
            self._count_runs(self._here.queue.storage)
            return generate_latest(self.registry)

    def _count_runs(self, storage: Storage) -> None:
        # The numbers of deleted runs may be used again.
        self._counted = min(self._counted, storage.newest_run())
        for number, queue, ran_seconds, waited_seconds in storage.runs_after(self._counted, MOST_RUNS):
            self._ran.labels(queue).observe(ran_seconds)
            self._waited.labels(queue).observe(waited_seconds)
            self._counted = number

    def collect(self) -> Iterable[Metric]:
        storage = self._here.queue.storage
        storage.look_at_clock()
        totals = storage.totals_by_queue()
        happened = CounterMetricFamily(
            "queuectl_events", "How often each event has happened to a job of the queue.", labels=["queue", "event"]
        )
        jobs = GaugeMetricFamily("queuectl_jobs", "Jobs in each state.", labels=["queue", "state"])
        for queue, counts in totals.items():
            for event in EVENTS:
                happened.add_metric([queue, event], counts[f"event_{event}"])
            for state in State:
                jobs.add_metric([queue, state.value], counts[state.value])
        yield happened
        yield jobs
        oldest = GaugeMetricFamily(
            "queuectl_oldest_waiting_seconds",
            f"For how long the oldest of the first {LOOKED_AT} in the queue's line has waited; 0 if nobody waits.",
            labels=["queue"],
        )
        paused = GaugeMetricFamily("queuectl_queue_paused", "Whether the queue is paused.", labels=["queue"])
        now = storage.clock.now()
        for row in storage.known_queues.values():
            since_at = storage.oldest_in_line(row.name, LOOKED_AT)
            oldest.add_metric([row.name], 0 if since_at is None else max(0, now - since_at) / 1000)
            paused.add_metric([row.name], row.is_paused)
        yield oldest
        yield paused
        found = [condition for _, condition in conditions(storage)]
        alive = found.count(Condition.ALIVE)
        yield GaugeMetricFamily("queuectl_workers_up", "Workers that live.", value=alive)
        yield GaugeMetricFamily(
            "queuectl_workers_lost", "Workers that died, until that is noticed.", len(found) - alive
        )
        yield GaugeMetricFamily("queuectl_database_bytes", "How large the database is.", value=storage.size_bytes())


def telling(here: Here) -> Blueprint:
    blueprint = Blueprint("telling", __name__)
    figures = Figures(here)

    @blueprint.get("/metrics")
    def metrics() -> Any:
        return Response(figures.text(), content_type=CONTENT_TYPE_LATEST)

    return blueprint
