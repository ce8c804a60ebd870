"""The detached process: claim, run, finish, until told to stop.

`worker start` starts it as a file; its messages go to its log.
"""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports it has no job yet, so Ctrl+C may end it

if not __package__:  # started as a file: sys.path must hold the directory that contains the package
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import argparse
import gc
import json
import time
from functools import partial
from typing import Any

from queuectl.database import database_url, is_postgres
from queuectl.errors import LeaseLost, QueueError
from queuectl.event_log import EventLog
from queuectl.home import Home, open_home
from queuectl.housekeeping import Housekeeping, identity
from queuectl.job import AFTER_VARIABLES, TRACEPARENT, WORKER_STOPPED, Job, Outcome, State, after_run
from queuectl.patience import Patience
from queuectl.platforms import runs
from queuectl.recovery import run_mark
from queuectl.runner import OUT_OF_TOUCH, Interruption, Runner
from queuectl.stopping import StopRequest
from queuectl.storage import Storage, open_storage
from queuectl.tracing import Tracer, handed_on, is_configured

IDLE_LOOK_SECONDS = 1.0  # between two rounds of housekeeping while idle; a change of the database wakes it at once
RETRY_SECONDS = 1.0  # pause after a job that was put back
ENVIRONMENTS_KEPT = 100
GC_THRESHOLD = 50_000  # a job creates almost no reference cycles, and searching for them takes a twentieth of its time


class WorkerProcess:
    def __init__(self, name: str, home: Home, storage: Storage, guardian: runs.Guardian, log: EventLog) -> None:
        self.name = name
        self.log = log
        self.storage = storage
        self.guardian = guardian
        self.runner = Runner(home, name, guardian)
        self.tracer: Tracer | None = None
        self.stop = StopRequest(log)
        self.patience = Patience(storage, self.stop, log)
        self.house = Housekeeping(name, home, storage, guardian, self.stop, self.patience, log)
        self._environments: dict[str | None, dict[str, str]] = {}
        self._woken_at, self._was_woken = 0.0, False

    def work(self) -> None:
        job: Job | None = None
        self.patience.insist(partial(self.storage.wait, 0))  # start listening, so that no change is missed
        while not self._stopping():
            if self.house.is_outcast:  # its job may be another worker's now: _claim_once looks up what it still holds
                job, self.house.is_outcast, self.patience.has_failed = None, False, True
            job = job or self._claim()
            if job is None:
                self._idle()
                continue
            outcome = self._run(job)
            job = self._finish(job, outcome)
        if job is not None:  # the worker was told to stop after it had claimed this job
            self._finish(job, Outcome(None, 0.0, state=State.PENDING, has_started=False))
        self.house.bring_to_disk()

    # --- one job ---

    def _claim(self) -> Job | None:
        return self.patience.insist(self._claim_once)

    def _claim_once(self) -> Job | None:
        if self.patience.has_failed:  # the answer to a claim may have been lost
            held = self.storage.held_by(self.name)
            self.patience.has_failed = False
            if held:
                return held[0]
        return self.storage.claim(self.name) if self.storage.has_work() else None

    def _run(self, job: Job) -> Outcome:
        self.log.say("job_started", job)
        mark, environment = run_mark(self.storage, job), self._environment(job)
        if self.tracer is not None:
            environment = {**environment, TRACEPARENT: self.tracer.begin(job, self.name)}
        elif job.traceparent is not None:
            environment = {**environment, TRACEPARENT: handed_on(job.traceparent)}
        return self.runner.run(job, mark, environment, self.storage.known_settings, partial(self._watch, job))

    def _finish(self, job: Job, outcome: Outcome) -> Job | None:
        """Store the outcome, and take the next job unless it is time to stop."""
        reason = outcome.reason or ("not run" if outcome.exit_code is None else f"exit code {outcome.exit_code}")
        more = ended_facts(job, outcome) if self.log.is_json else {}
        self.log.say("job_ended", job, duration_seconds=outcome.duration_seconds, reason=reason, **more)
        if self.tracer is not None:
            self.tracer.end(job, outcome)
        put_back = outcome.state is State.PENDING
        next_for = None if put_back or self.stop.asked else self.name
        try:
            following = self.patience.insist(partial(self.storage.finish, job, outcome, next_for), until_overdue=True)
        except LeaseLost as error:
            self.log.say("job_refused", job, error=str(error))
            # The first attempt may have been committed, and only the answer been lost with the connection.
            self.patience.has_failed = True
            return None
        self.house.processed += not put_back
        if put_back and not self.stop.asked:
            time.sleep(RETRY_SECONDS)  # this worker lacks a resource; give another one time to take the job
        return following

    def _environment(self, job: Job) -> dict[str, str]:
        if job.environment not in self._environments:
            if len(self._environments) >= ENVIRONMENTS_KEPT:
                self._environments.clear()
            self._environments[job.environment] = self.patience.insist(partial(self._captured, job.environment))
        captured = self._environments[job.environment]
        return captured if job.after_id is None else {**captured, **told_of_need(job)}

    def _captured(self, hash: str | None) -> dict[str, str]:
        """The environment in which the job was enqueued; if that was on another machine, the worker's own."""
        variables, machine = (None, None) if hash is None else self.storage.environment(hash)
        captured: dict[str, str] = (
            json.loads(variables) if variables and machine == self.storage.machine else {**os.environ}
        )
        return captured

    def _watch(self, job: Job) -> Interruption | None:
        """Called ten times a second while a command runs; returns a reason to end the run, or None."""
        reason = self.patience.attempt(partial(self._look_while_running, job))
        if reason is not None:
            return Interruption(reason, State.CANCELLED)
        if self.house.is_outcast or self.guardian.is_overdue():
            return OUT_OF_TOUCH
        if self.stop.overdue:
            return Interruption(WORKER_STOPPED, State.PENDING)
        return None

    def _look_while_running(self, job: Job) -> str | None:
        self.house.look()
        return self.storage.cancel_reason(job)

    # --- between jobs ---

    def _stopping(self) -> bool:
        if self._was_woken and not self.house.is_due(IDLE_LOOK_SECONDS):
            # The change may be a job, which is not to wait for housekeeping, or a request to stop.
            self.patience.insist(partial(self.stop.read, self.storage, self.name))
        elif self.house.is_due():
            self.patience.insist(self.house.look)
        self._was_woken = False
        return self.stop.asked

    def _idle(self) -> None:
        """Wait until the database has changed, a job is due, or the worker must stop."""
        self._send_spans()
        self.patience.insist(self.house.bring_to_disk)
        due = self.patience.insist(self._next_due)
        settings = self.patience.insist(lambda: self.storage.known_settings)
        # If others commit all the time, the worker still checks at most once per poll interval.
        time.sleep(max(0.0, self._woken_at + settings.poll_interval - time.monotonic()))
        look_seconds = min(IDLE_LOOK_SECONDS, settings.heartbeat_interval)
        while not (self.stop.asked or self.patience.insist(self.storage.changed)):
            due_seconds = look_seconds if due is None else (due - self.storage.clock.now()) / 1000
            if due_seconds <= 0 or self.storage.clock_was_set():
                self.house.looked_at = 0.0  # run housekeeping at once, as a schedule may be due
                return
            seconds = min(due_seconds, look_seconds)
            self.patience.insist(partial(self.storage.wait, seconds))
            if time.monotonic() - self.house.looked_at >= look_seconds and self.patience.insist(self.house.look):
                return
        self._woken_at, self._was_woken = time.monotonic(), True

    def _send_spans(self) -> None:
        if self.tracer is not None:
            self.tracer.send()
            complaint, self.tracer.complaint = self.tracer.complaint, ""
            if complaint:
                self.log.say("traces_not_sent", error=complaint)

    def _next_due(self) -> int | None:
        """When the next job or schedule comes due."""
        times = (self.storage.next_due(), self.storage.next_occurrence())
        return min((time for time in times if time is not None), default=None)


def ended_facts(job: Job, outcome: Outcome) -> dict[str, Any]:
    """Further facts for the JSON log. The job gets this outcome unless it is cancelled before the result is stored."""
    return {"exit_code": outcome.exit_code, "outcome": after_run(job, outcome, 0, 0).outcome}


def told_of_need(job: Job) -> dict[str, str]:
    """Variables for a job that waited for another: that job's id, state and exit code."""
    exit_code = "" if job.after_exit_code is None else str(job.after_exit_code)
    return dict(zip(AFTER_VARIABLES, (job.after_id or "", job.after_state or "", exit_code)))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--foreground", action="store_true")
    parser.add_argument("--queue", action="append")
    options = parser.parse_args()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    home = open_home()
    # Before the database is opened, so that the guardian, a fork of this process, does not inherit its files.
    guardian = runs.Guardian(is_leased=is_postgres(database_url(home)))
    log = EventLog(home.worker_log(options.name), options.name, options.foreground)
    if not options.foreground:
        let_go_of_stdio()
    try:
        return serve(options.name, home, guardian, log, options.queue)
    except QueueError as error:
        log.say("failed", error=str(error))
    except Exception:
        log.say_failed("worker_failed")
    return 1


def serve(name: str, home: Home, guardian: runs.Guardian, log: EventLog, queues: list[str] | None) -> int:
    storage = open_storage(home)
    storage.serves = frozenset(queues) if queues else None
    worker = WorkerProcess(name, home, storage, guardian, log)
    for number in (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, worker.stop.on_signal)
    try:
        storage.add_worker(identity(name, storage))
        log.write_as(storage.known_settings.log_format)
        log.say("worker_up", pid=os.getpid())
        worker.tracer = tracer_if_wanted(log)
        worker.work()
    finally:
        worker.runner.close()
        if worker.tracer is not None:
            worker.tracer.close()
    storage.remove_worker(name)
    storage.close()
    log.say("worker_stopped", processed=worker.house.processed)
    return 0


def tracer_if_wanted(log: EventLog) -> Tracer | None:
    """A tracer if tracing is configured; if it cannot be made, the worker logs that and works without it."""
    if is_configured():
        try:
            return Tracer()
        except Exception as error:
            log.say("traces_not_sent", error=str(error))
    return None


def let_go_of_stdio() -> None:
    """Redirect stdout and stderr to the null device: they point to the log, which Windows could not rotate then."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
