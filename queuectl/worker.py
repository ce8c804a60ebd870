"""The detached process: claim, run, finish, until told to stop.

It is started as a file, by `worker start`; what it has to say goes to its log.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started as a file: the package is to be found, and not what is in it
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import argparse
import gc
import json
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from queuectl import platforms
from queuectl.clock import steady_ns
from queuectl.database import database_url, is_postgres
from queuectl.errors import LeaseLost, QueueError, StorageError
from queuectl.event_log import EventLog
from queuectl.home import Home, open_home
from queuectl.job import AFTER_VARIABLES, TRACEPARENT, Job, Outcome, State, after_run
from queuectl.liveness import LEASE_HEARTBEATS
from queuectl.platforms import runs
from queuectl.recovery import recover, run_mark
from queuectl.runner import OUT_OF_TOUCH, Interruption, Runner
from queuectl.storage import Storage, Worker, open_storage
from queuectl.tidying import tidy
from queuectl.tracing import Tracer, handed_on, is_configured

LOOK_SECONDS = 0.1  # between two looks at the stop request while busy
IDLE_LOOK_SECONDS = 1.0  # and while idle, when a change of the database tells of it at once
RECOVER_SECONDS = 2.0  # between two looks for dead workers
SYNC_SECONDS = 0.1  # a finish waits no longer for the disk
RETRY_SECONDS = 1.0  # after a job that was put back
SHORTEST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.25, 4.0  # while the database cannot be used
HANG_UP = getattr(signal, "SIGHUP", None)
TIDY_SECONDS, TIDY_ON_SECONDS = 60.0, 0.5  # between two looks for what need not be kept, and where there is more of it
COMPLAIN_SECONDS = 10.0  # between two of the same complaints
ENVIRONMENTS_KEPT = 100
GC_THRESHOLD = 50_000  # a job leaves next to no cycles behind, and looking for them takes a twentieth of its time

Result = TypeVar("Result")


class StopRequest:
    """Whether to stop, and until when the job in hand may go on. Signals and the database both say so."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.deadline: float | None = None
        self.signals = 0

    def on_signal(self, number: int, frame: Any) -> None:
        # A terminal that goes away may say so twice, and means it once.
        if number != HANG_UP or not self.signals:
            self.signals += 1

    def ask(self, grace_seconds: float) -> None:
        deadline = time.monotonic() + grace_seconds
        if self.deadline is None:
            self.log.say("worker_stopping", grace_seconds=grace_seconds)
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)

    @property
    def asked(self) -> bool:
        return self.deadline is not None or self.signals > 0

    @property
    def overdue(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


class WorkerProcess:
    def __init__(self, name: str, home: Home, storage: Storage, guardian: runs.Guardian, log: EventLog) -> None:
        self.name = name
        self.log = log
        self.home = home
        self.storage = storage
        self.guardian = guardian
        self.runner = Runner(home, name, guardian)
        self.tracer: Tracer | None = None
        self.stop = StopRequest(log)
        self.processed = self._processed_told = 0
        self._is_outcast = False  # taken for dead, and its job given to somebody else
        self._is_unsure = False  # of what it has in hand: the answer to a claim may have been lost
        self._complaint, self._complained_at = "", 0.0
        self._pause = self._retry_at = 0.0  # while the database cannot be used
        self._longest_pause = LONGEST_RETRY_SECONDS
        self._environments: dict[str | None, dict[str, str]] = {}
        self._looked_at = self._heartbeat_at = self._recovered_at = self._woken_at = 0.0
        self._tidy_at = self._realign_at = 0.0

    def work(self) -> None:
        job: Job | None = None
        while not self._stopping():
            if self._is_outcast:  # what it has claimed since it was taken for dead is still its own
                job, self._is_outcast, self._is_unsure = None, False, True
            job = job or self._claim()
            if job is None:
                self._idle()
                continue
            outcome = self._run(job)
            job = self._finish(job, outcome)
        if job is not None:  # claimed, and then told to stop
            self._finish(job, Outcome(None, 0.0, state=State.PENDING, has_started=False))
        self._bring_to_disk()

    # --- one job ---

    def _claim(self) -> Job | None:
        return self._patiently(self._claim_once)

    def _claim_once(self) -> Job | None:
        if self._is_unsure:
            held = self.storage.held_by(self.name)
            self._is_unsure = False
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
            following = self._patiently(partial(self.storage.finish, job, outcome, next_for))
        except LeaseLost as error:
            self.log.say("job_refused", job, error=str(error))
            self._is_unsure = True  # it may have been stored the first time, and the answer lost with the connection
            return None
        self.processed += not put_back
        if put_back and not self.stop.asked:
            time.sleep(RETRY_SECONDS)  # this worker is short of something; another may not be
        return following

    def _environment(self, job: Job) -> dict[str, str]:
        if job.environment not in self._environments:
            if len(self._environments) >= ENVIRONMENTS_KEPT:
                self._environments.clear()
            self._environments[job.environment] = self._patiently(partial(self._captured, job.environment))
        captured = self._environments[job.environment]
        if job.woken_by is None:
            return captured
        before = self._patiently(partial(self.storage.glance_at, job.woken_by))
        return captured if before is None else {**captured, **told_of(before)}

    def _captured(self, hash: str | None) -> dict[str, str]:
        """What the job was handed in with; the worker's own, where that is another machine's: it means nothing here."""
        variables, machine = (None, None) if hash is None else self.storage.environment(hash)
        captured: dict[str, str] = (
            json.loads(variables) if variables and machine == self.storage.machine else {**os.environ}
        )
        return captured

    def _watch(self, job: Job) -> Interruption | None:
        """Asked ten times a second while a command runs."""
        if time.monotonic() >= self._retry_at:
            try:
                self._housekeep()
                reason = self.storage.cancel_reason(job)
                if reason is not None:
                    return Interruption(reason, State.CANCELLED)
                self._be_back()
            except (StorageError, OSError) as error:
                self._retry_at = time.monotonic() + self._be_away(error)
        if self._is_outcast or self.guardian.is_overdue():
            return OUT_OF_TOUCH
        if self.stop.overdue:
            return Interruption("its worker was stopped", State.PENDING)
        return None

    # --- between jobs ---

    def _stopping(self) -> bool:
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._patiently(self._housekeep)
        return self.stop.asked

    def _idle(self) -> None:
        """Until something has changed, a job is due, or it is time to stop."""
        self._send_spans()
        self._patiently(self._bring_to_disk)
        due = self._patiently(self._next_due)
        settings = self._patiently(lambda: self.storage.known_settings)
        # Where others commit all the time, that is no reason to look all the time.
        time.sleep(max(0.0, self._woken_at + settings.poll_interval - time.monotonic()))
        look_seconds = min(IDLE_LOOK_SECONDS, settings.heartbeat_interval)
        while not (self.stop.asked or self._patiently(self.storage.changed)):
            due_seconds = look_seconds if due is None else (due - self.storage.clock.now()) / 1000
            if due_seconds <= 0 or self.storage.clock_was_set():
                self._looked_at = 0.0  # it may be something that recurs, which is housekeeping
                return
            seconds = min(due_seconds, look_seconds)
            self._patiently(partial(self.storage.wait, seconds))
            if time.monotonic() - self._looked_at >= look_seconds and self._patiently(self._housekeep):
                return
        self._woken_at = time.monotonic()
        self._looked_at = 0.0  # what has changed may be that it is to stop

    def _send_spans(self) -> None:
        if self.tracer is not None:
            self.tracer.send()
            complaint, self.tracer.complaint = self.tracer.complaint, ""
            if complaint:
                self.log.say("traces_not_sent", error=complaint)

    def _next_due(self) -> int | None:
        """When the next job's time comes, or the next one recurs."""
        times = (self.storage.next_due(), self.storage.next_occurrence())
        return min((time for time in times if time is not None), default=None)

    def _housekeep(self) -> bool:
        """What has to be done now and then, busy or idle, each at its own pace; True if a job was put in line."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        self.guardian.check()
        self._read_stop_request()
        was_set = self.storage.clock_was_set()
        if (
            was_set
            or self.storage.unsynced_seconds() >= SYNC_SECONDS
            or now - self._heartbeat_at >= self.storage.settings().heartbeat_interval
        ):
            self._beat()
        self.log.write_as(self.storage.known_settings.log_format)
        if now >= self._tidy_at:
            self._tidy_at = now + (TIDY_ON_SECONDS if tidy(self.storage, self.home) else TIDY_SECONDS)
        if was_set or now >= self._realign_at:
            self._realign_at = now + TIDY_SECONDS
            self._realign()
        occurred = self._enqueue_due()
        if now - self._recovered_at < RECOVER_SECONDS:
            return occurred
        self._recovered_at = now
        recovered = recover(self.storage, self.home)
        for worker, job, verdict in recovered:
            state, reason = verdict.state.value, verdict.error_message
            self.log.say("job_recovered", job, lost_worker=worker, state=state, reason=reason)
        return occurred or bool(recovered)

    def _realign(self) -> None:
        """What recurs goes by the clock on the wall, which may have been set, also while no worker was up."""
        if self.storage.next_occurrence() is not None:
            from queuectl.recurring import realign

            realign(self.storage)

    def _enqueue_due(self) -> bool:
        """What recurs and is due; True if a job was put in line."""
        due = self.storage.next_occurrence()
        if due is None or due > self.storage.clock.now():
            return False
        from queuectl.recurring import enqueue_due

        occurred = enqueue_due(self.storage)
        for name, job, note in occurred:
            if job is None:
                self.log.say("schedule_passed_over", schedule=name, reason=note)
            else:
                self.log.say("schedule_enqueued", schedule=name, enqueued=job.id)
        return any(job for _, job, _ in occurred)

    def _read_stop_request(self) -> None:
        if self.stop.signals:
            # A second signal means: at once.
            self.stop.ask(self.storage.settings().stop_grace if self.stop.signals == 1 else 0)
        grace = self.storage.stop_grace(self.name)
        if grace is not None:
            self.stop.ask(grace)

    def _beat(self) -> None:
        began, lease_began = time.monotonic(), steady_ns() / 1e9
        processed = self.processed
        if self.storage.is_there() and self.storage.heartbeat(self.name, processed):
            self._heartbeat_at, self._processed_told = began, processed
            interval = self.storage.known_settings.heartbeat_interval
            self._longest_pause = interval / 4  # so that a short outage is over for this worker while its lease holds
            if self.storage.is_shared:
                self.guardian.extend(lease_began + LEASE_HEARTBEATS * interval)
        elif self.storage.is_shared:
            self.log.say("worker_rejoined")
            self._is_outcast = True
            self.storage.add_worker(identity(self.name, self.storage))
        else:
            self.log.say("worker_unknown")
            self.stop.ask(0)

    def _bring_to_disk(self) -> None:
        """Before idling: what is not on disk yet, and the jobs done since the last heartbeat."""
        if self.storage.unsynced_seconds() or self.processed != self._processed_told:
            self._beat()

    def _patiently(self, action: Callable[[], Result]) -> Result:
        """Do it, however long the database cannot be used; a job in hand is not lost because a disk is full."""
        while True:
            try:
                result = action()
                if self._pause:
                    self._be_back()
                return result
            except (StorageError, OSError) as error:
                self._is_unsure = True
                pause = self._be_away(error)
                if not self.storage.is_there() or self.stop.signals:
                    raise
                time.sleep(pause)

    def _be_away(self, error: Exception) -> float:
        """The database cannot be used: say so, and how long to leave it alone."""
        self._complain(str(error))
        self._pause = min(2 * self._pause, LONGEST_RETRY_SECONDS, self._longest_pause) or SHORTEST_RETRY_SECONDS
        return self._pause

    def _be_back(self) -> None:
        if self._pause:
            self._pause, self._complaint = 0.0, ""
            self.log.say("database_back")

    def _complain(self, error: str) -> None:
        """Say what is wrong, and not ten times a second."""
        if (error, time.monotonic() - self._complained_at < COMPLAIN_SECONDS) != (self._complaint, True):
            self.log.say("database_away", error=error)
            self._complaint, self._complained_at = error, time.monotonic()


def ended_facts(job: Job, outcome: Outcome) -> dict[str, Any]:
    """What a program is told of a run besides; unless the job is cancelled at the last moment, it becomes this."""
    return {"exit_code": outcome.exit_code, "outcome": after_run(job, outcome, 0, 0).outcome}


def told_of(before: Job) -> dict[str, str]:
    """What a job that ran after another finds in its environment."""
    exit_code = "" if before.exit_code is None else str(before.exit_code)
    return dict(zip(AFTER_VARIABLES, (before.id, before.state.value, exit_code)))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--foreground", action="store_true")
    parser.add_argument("--queue", action="append")
    options = parser.parse_args()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    home = open_home()
    # Before the database is opened: a guardian has no business with it.
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
    log.say("worker_stopped", processed=worker.processed)
    return 0


def tracer_if_wanted(log: EventLog) -> Tracer | None:
    """Whatever is wrong with it is no reason not to work."""
    if is_configured():
        try:
            return Tracer()
        except Exception as error:
            log.say("traces_not_sent", error=str(error))
    return None


def identity(name: str, storage: Storage) -> Worker:
    pid, now = os.getpid(), storage.clock.now()
    start_time = platforms.start_time(pid)
    assert start_time is not None
    place = (platforms.boot_id(), platforms.pid_space(), socket.gethostname())
    queues = None if storage.serves is None else ",".join(sorted(storage.serves))
    return Worker(name, pid, start_time, *place, now, now, 0, None, queues)


def let_go_of_stdio() -> None:
    """They lead to the log, which could not be rotated on Windows while they do."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
