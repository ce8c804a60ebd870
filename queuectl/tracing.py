"""Traces: one span per run, in the trace of the process that enqueued the job, if OpenTelemetry is configured.

A job stores its trace as a W3C `traceparent`; a parent id of zeros means that the job began its own trace. Without
configuration tracing costs nothing, and a dead or slow collector never delays a job.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from queuectl.job import OTLP_ENDPOINTS, TRACEPARENT, Job, Outcome, State, after_run

if TYPE_CHECKING:
    from logging import LogRecord
    from threading import Thread

WELL_FORMED = r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
NO_PARENT = "0" * 16
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTERS = "opentelemetry_traces_exporter"  # the group of entry points that lists exporters
EXIT_SECONDS = 2.0  # how long a worker waits at its end for its last spans to be sent


# --- the trace of a job ---


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's own variables ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER")
    return exporter != "none" if exporter else any(environment.get(name) for name in OTLP_ENDPOINTS)


def context() -> str | None:
    """The traceparent of this process: of its current span, or from its environment."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import trace

        current = trace.get_current_span().get_span_context()
        if current.is_valid:
            return f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}"
    given = os.environ.get(TRACEPARENT, "")
    return given if re.fullmatch(WELL_FORMED, given) else None


def begun() -> str | None:
    """The traceparent of a new trace that begins with the job, if tracing is configured."""
    return f"00-{os.urandom(16).hex()}-{NO_PARENT}-01" if is_configured() else None


def trace_id(traceparent: str | None) -> str | None:
    return traceparent.split("-")[1] if traceparent else None


def handed_on(traceparent: str) -> str:
    """The traceparent for a command whose run has no span: a parent id of zeros is replaced by a random one."""
    return traceparent.replace(f"-{NO_PARENT}-", f"-{os.urandom(8).hex()}-")


# --- spans ---


class Tracer:
    """Makes the spans of a worker's runs, and exports them in background threads."""

    def __init__(self) -> None:
        import logging

        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class Ids(RandomIdGenerator):
            """Random ids, except for a trace that a job has begun, whose id is already stored."""

            trace: str | None = None

            def generate_trace_id(self) -> int:
                return int(self.trace, 16) if self.trace else super().generate_trace_id()

        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "queuectl"}
        named_otherwise = "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        self._ids = Ids()
        self._provider = TracerProvider(
            resource=Resource.create({} if named_otherwise else named), id_generator=self._ids, shutdown_on_exit=False
        )
        for exporter in exporters():
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("queuectl")
        self._span: Any = None
        self._is_sent = True
        self._sender: Thread | None = None
        self.complaint = ""  # the SDK's last error
        # Collect the SDK's messages, as a worker has no console that shows them.
        handler = logging.Handler(logging.WARNING)
        handler.emit = self._hear  # type: ignore[method-assign]
        complaints = logging.getLogger("opentelemetry")
        complaints.propagate = False
        complaints.addHandler(handler)

    def _hear(self, record: LogRecord) -> None:
        self.complaint = record.getMessage()

    def begin(self, job: Job, worker: str) -> str:
        """Begin a span for this run of the job; return the traceparent for its command."""
        from opentelemetry import trace
        from opentelemetry.context import Context

        parent = Context()
        self._ids.trace = None
        if job.traceparent:
            _, of, span, flags = job.traceparent.split("-")
            if span == NO_PARENT:
                self._ids.trace = of
            else:
                origin = trace.SpanContext(int(of, 16), int(span, 16), True, trace.TraceFlags(int(flags, 16)))
                parent = trace.set_span_in_context(trace.NonRecordingSpan(origin), parent)
        facts: dict[str, str | int] = {
            "queuectl.job.id": job.id,
            "queuectl.job.queue": job.queue,
            "queuectl.job.attempt": job.attempts,
            "queuectl.job.lease": job.lease,
            "queuectl.job.worker": worker,
            "queuectl.job.enqueued_at_ms": job.created_at,
        }
        self._span = self._tracer.start_span(f"run {job.queue}", parent, trace.SpanKind.CONSUMER, facts)
        found = self._span.get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"

    def end(self, job: Job, outcome: Outcome) -> None:
        if self._span is None:  # the run was not started
            return
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("queuectl.job.outcome", after_run(job, outcome, 0, 0).outcome)
        if outcome.exit_code is not None:
            self._span.set_attribute("process.exit.code", outcome.exit_code)
        if outcome.exit_code != 0 and outcome.state is not State.PENDING:
            self._span.set_status(StatusCode.ERROR, outcome.reason or f"exit code {outcome.exit_code}")
        self._span.end()
        self._span, self._is_sent = None, False

    def send(self) -> None:
        """Send the finished spans in a background thread."""
        from threading import Thread

        if not self._is_sent and not (self._sender and self._sender.is_alive()):
            self._is_sent = True
            self._sender = Thread(target=self._provider.force_flush, daemon=True)
            self._sender.start()

    def close(self) -> None:
        """Send the last spans, and wait at most EXIT_SECONDS, as the collector may not answer."""
        give_up = monotonic() + EXIT_SECONDS
        for _ in range(2):  # for a sender that is running, and then for the spans that ended after it began
            if self._sender is not None:
                self._sender.join(max(0.0, give_up - monotonic()))
            self.send()


def exporters() -> list[Any]:
    """The exporters that OTEL_TRACES_EXPORTER names; they read their other settings from the environment themselves."""
    from importlib.metadata import entry_points

    there = {entry.name: entry for entry in entry_points(group=EXPORTERS)}
    wanted = (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(",")
    protocol = next((os.environ[name] for name in PROTOCOLS if os.environ.get(name)), None)
    otlp = ["otlp_proto_grpc"] if protocol == "grpc" else ["otlp_proto_http"] if protocol else []
    found = []
    for name in map(str.strip, wanted):
        names = [*otlp, "otlp_proto_http", "otlp_proto_grpc"][: 1 if otlp else None] if name == "otlp" else [name]
        entry = next((there[one] for one in names if one in there), None)
        if entry is None:
            package = "opentelemetry-exporter-otlp-proto-http"
            raise LookupError(f"no exporter {name!r} is installed. For otlp: pip install {package}")
        found.append(entry.load()())
    return found
