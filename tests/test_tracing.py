"""Traces: a span a run, by the real SDK, sent to a collector that listens on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from queuectl.queue import Queue, captured_environment
from queuectl.tracing import WELL_FORMED, begun, context, handed_on, is_configured, trace_id

from .act import act
from .conftest import ROOT, Cli, eventually
from .processes import counts, job, state

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OTEL_", "TRACE")):
            monkeypatch.delenv(name)


class Collector:
    """What is sent to it as OTLP over HTTP; it may take its time, and for ever."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.answers = threading.Event()
        self.answers.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                import gzip

                from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.answers.wait()
                for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
                    outer.resources.append({one.key: one.value.string_value for one in sent.resource.attributes})
                    outer.spans += [span for scope in sent.scope_spans for span in scope.spans]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, job_id: str) -> list[Any]:
        return [span for span in self.spans if facts(span)["queuectl.job.id"] == job_id]


def facts(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.proto", reason="traces are tested with opentelemetry-exporter-otlp-proto-http")
    made = Collector()
    yield made
    made.answers.set()
    made.server.shutdown()
    made.server.server_close()


# --- the trace of a job ---


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_opentelemetrys_own_variables_say_whether_there_are_traces(variables: dict[str, str], wanted: bool) -> None:
    assert is_configured(variables) == wanted


@pytest.mark.parametrize("text", ["", "x", PARENT[:-1], PARENT.upper(), PARENT.replace("b7ad6b7169203331", "0" * 16)])
def test_a_variable_that_is_no_traceparent_is_passed_over(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", text)
    assert context() is None
    monkeypatch.setenv("TRACEPARENT", PARENT)
    assert context() == PARENT and trace_id(PARENT) == "0af7651916cd43dd8448eb211c80319c"


def test_a_trace_of_its_own_has_no_parent_and_a_command_is_told_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert begun() is None
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    one, other = begun(), begun()
    assert one and other and one != other and not re.fullmatch(WELL_FORMED, one)
    assert re.fullmatch(WELL_FORMED, handed_on(one)) and trace_id(handed_on(one)) == trace_id(one)
    assert handed_on(PARENT) == PARENT


def test_the_environment_of_a_trace_is_not_stored_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has its own, so each would be an environment of its own."""
    before = captured_environment()
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACESTATE", "a=b")
    assert captured_environment() == before


def test_jobs_from_python_go_on_with_its_current_span(tmp_path: Path) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    with Queue(str(tmp_path)) as queue, sdk.TracerProvider().get_tracer("test").start_as_current_span("caller") as span:
        added = queue.enqueue("true")
        found = span.get_span_context()
        ids = f"00-{found.trace_id:032x}-{found.span_id:016x}"
        assert queue.get(added.id).traceparent == f"{ids}-{found.trace_flags:02x}"


def test_jobs_that_come_together_go_on_with_one_trace_or_begin_one_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Queue(str(tmp_path)) as queue:
        jobs = [{"command": "true"}] * 3

        def traces() -> list[str | None]:
            return [queue.get(added.id).traceparent for added in queue.enqueue_all(jobs)]

        assert traces() == [None] * 3
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        assert len(set(traces())) == 3
        monkeypatch.setenv("TRACEPARENT", PARENT)
        assert traces() == [PARENT] * 3


# --- without OpenTelemetry ---


def test_nothing_of_opentelemetry_is_imported_where_nothing_is_configured() -> None:
    code = (
        "import sys, queuectl.worker as w\n"
        "assert w.tracer_if_wanted(None) is None\n"
        "print(*(name for name in sys.modules if name.startswith('opentelemetry') or name == 'logging'))"
    )
    variables = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_trace_is_handed_on_to_the_command_also_without_the_sdk(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "in", act("env TRACEPARENT"), TRACEPARENT=PARENT)
    cli.ok("enqueue", "--id", "out", act("env TRACEPARENT"))
    cli.ok("worker", "start", TRACEPARENT="00-11111111111111111111111111111111-2222222222222222-01")
    cli.ok("wait", "in", "out")
    assert job(cli, "in")["output"] == f"{PARENT}\n" and job(cli, "in")["trace_id"] == PARENT[3:35]
    assert job(cli, "out")["output"] == "none\n" and job(cli, "out")["trace_id"] is None
    assert PARENT[3:35] in cli.ok("show", "in")


def test_who_asks_for_traces_that_cannot_be_made_is_told_and_jobs_run(cli: Cli) -> None:
    cli.env["OTEL_TRACES_EXPORTER"] = "nowhere"
    assert cli.ok("run", act("say hello")) == "hello\n"
    logs = "".join(path.read_text() for path in (cli.home / "logs").glob("worker-*.log"))
    assert logs.count("WARNING traces cannot be sent") == 1


# --- with it ---


def test_each_run_is_a_span_in_the_trace_of_who_enqueued_it(cli: Cli, collector: Collector) -> None:
    cli.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    cli.ok("enqueue", "--id", "child", act("env TRACEPARENT"), TRACEPARENT=PARENT)
    cli.ok("enqueue", "--id", "own", "--max-retries", "1", "--backoff-base", "0", act("env TRACEPARENT", "exit 3"))
    cli.ok("worker", "start")
    eventually(lambda: len(collector.spans) >= 3)
    [child], own = collector.of("child"), collector.of("own")
    assert (child.trace_id.hex(), child.parent_span_id.hex()) == (PARENT[3:35], PARENT[36:52])
    assert job(cli, "child")["output"] == f"00-{child.trace_id.hex()}-{child.span_id.hex()}-01\n"
    assert child.name == "run default" and child.end_time_unix_nano > child.start_time_unix_nano
    assert facts(child)["queuectl.job.outcome"] == "completed" and child.status.code == 0
    assert [facts(span)["queuectl.job.attempt"] for span in own] == [1, 2]
    assert [facts(span)["queuectl.job.outcome"] for span in own] == ["failed", "dead"]
    assert all(facts(span)["process.exit.code"] == 3 for span in own)
    assert all((span.status.code, span.status.message) == (2, "exit code 3") for span in own)
    assert {span.trace_id.hex() for span in own} == {job(cli, "own")["trace_id"]}
    assert not any(span.parent_span_id for span in own), "nobody else has made a span in that trace"
    assert {resource["service.name"] for resource in collector.resources} == {"queuectl"}


def test_what_a_job_enqueues_goes_on_with_its_run(cli: Cli, collector: Collector) -> None:
    cli.env.update(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SERVICE_NAME="mine")
    cli.ok("enqueue", "--id", "outer", "--", *cli.argv(["enqueue", "--id", "inner", "exit 0"]))
    cli.ok("worker", "start")
    eventually(lambda: collector.of("inner"))
    [outer], [inner] = collector.of("outer"), collector.of("inner")
    assert (inner.trace_id, inner.parent_span_id) == (outer.trace_id, outer.span_id)
    assert collector.resources[0]["service.name"] == "mine"


def test_the_last_spans_are_sent_when_the_worker_ends(cli: Cli, collector: Collector, tmp_path: Path) -> None:
    cli.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    cli.ok("enqueue", "--id", "final", act(f"touch {tmp_path / 'up'}", f"wait {tmp_path / 'go'}"))
    cli.ok("worker", "start")
    eventually((tmp_path / "up").exists)
    stopping = subprocess.Popen(cli.argv(["worker", "stop"]), env=cli.env)
    (tmp_path / "go").touch()
    assert stopping.wait(timeout=60) == 0
    eventually(lambda: collector.of("final"), seconds=5)


def test_recurring_jobs_begin_traces_of_their_own(cli: Cli, collector: Collector) -> None:
    cli.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    cli.ok("schedule", "add", "tick", "--every", "1s", "exit 0", TRACEPARENT=PARENT)
    cli.ok("worker", "start")
    eventually(lambda: len(collector.spans) >= 2, seconds=40)
    traces = [span.trace_id.hex() for span in collector.spans]
    assert len(set(traces)) == len(traces) and PARENT[3:35] not in traces


@pytest.mark.parametrize("kind", ["silent", "gone"])
def test_a_dead_collector_keeps_no_job_and_no_stop_waiting(cli: Cli, collector: Collector, kind: str) -> None:
    if kind == "silent":
        collector.answers.clear()
        cli.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    else:
        cli.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    cli.ok("worker", "start")
    for number in range(3):  # each after the worker was idle, and so has begun to send
        cli.ok("run", "--id", f"job{number}", "exit 0")
        assert state(cli, f"job{number}") == "completed"
    assert counts(cli)["completed"] == 3
    assert "has stopped" in cli.ok("worker", "stop", "--timeout", "15")
