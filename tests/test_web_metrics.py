"""/metrics: what Prometheus reads, and that the dashboard and the alerts name only what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from act import act
from conftest import ROOT, Cli, eventually
from prometheus_client.parser import text_string_to_metric_families
from web import Web

Figures = dict[tuple[str, ...], float]


def figures(web: Web) -> Figures:
    """Each sample by its name and its labels, in the order of their names."""
    answer = web.get("/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=")
    found = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in found
        for sample in family.samples
    }


def test_counters_and_gauges_are_by_queue(cli: Cli, web: Web) -> None:
    cli.ok("queue", "add", "gpu")
    cli.ok("enqueue", "--queue", "gpu", "echo 1")
    cli.ok("enqueue", "echo 2")
    cli.ok("cancel", "last")
    cli.ok("queue", "pause", "gpu")
    found = figures(web)
    assert found["queuectl_jobs", "gpu", "pending"] == found["queuectl_jobs", "default", "cancelled"] == 1
    events = {key[1:]: value for key, value in found.items() if key[0] == "queuectl_events_total"}
    assert events["cancelled", "default"] == events["enqueued", "gpu"] == 1
    assert found["queuectl_workers_up",] == found["queuectl_workers_lost",] == 0
    assert (found["queuectl_queue_paused", "gpu"], found["queuectl_queue_paused", "default"]) == (1, 0)
    assert found["queuectl_oldest_waiting_seconds", "gpu"] > 0 == found["queuectl_oldest_waiting_seconds", "default"]
    assert found["queuectl_database_bytes",] >= (cli.home / "queuectl.db").stat().st_size


def test_runs_are_counted_from_the_start_of_the_server_each_once(cli: Cli, web: Web) -> None:
    def count(name: str = "queuectl_run_seconds_count") -> float:
        return figures(web).get((name, "default"), 0)

    cli.ok("run", "echo 1")
    cli.ok("run", act("sleep 0.2"))
    eventually(lambda: count() == 2)
    found = figures(web)
    assert found["queuectl_run_seconds_count", "default"] == 2, "each once"
    assert found["queuectl_run_seconds_sum", "default"] >= 0.2
    assert found["queuectl_run_seconds_bucket", "+Inf", "default"] == 2
    assert found["queuectl_run_seconds_bucket", "0.1", "default"] <= 1
    assert count("queuectl_waiting_seconds_count") == 2
    assert found["queuectl_workers_up",] == 1
    cli.ok("delete", "last")
    assert count() == 2, "what was counted stays counted"
    cli.ok("run", "echo 3")
    eventually(lambda: count() == 3)


def test_what_ran_before_the_server_began_is_not_counted(cli: Cli, request: pytest.FixtureRequest) -> None:
    cli.ok("run", "echo 1")
    web: Web = request.getfixturevalue("web")
    assert ("queuectl_run_seconds_count", "default") not in figures(web)
    assert figures(web)["queuectl_events_total", "completed", "default"] == 1


def named(path: Path) -> set[str]:
    """The metrics that a file names in its expressions."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        dashboard = json.loads(text)
        found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        found += [variable["query"] for variable in dashboard["templating"]["list"]]
    else:
        found = re.findall(r"^ +expr: (?:>-\n)?((?:.+\n)(?: {10}.+\n)*)", text, re.MULTILINE)
        assert len(found) == text.count("expr:") == text.count("- alert:")
    return set(re.findall(r"\bqueuectl_\w+", " ".join(found)))


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "alerts.yml"])
def test_every_metric_that_is_drawn_or_watched_exists(cli: Cli, web: Web, name: str) -> None:
    cli.ok("run", "echo 1")
    eventually(lambda: ("queuectl_run_seconds_count", "default") in figures(web))
    exist = {key[0] for key in figures(web)}
    wanted = named(ROOT / "docs" / name)
    assert len(wanted) >= 6 and wanted <= exist


def test_every_metric_says_what_it_is(web: Web) -> None:
    for family in text_string_to_metric_families(web.get("/metrics").text):
        assert family.name.startswith("queuectl_") and family.documentation.endswith(".")
