"""A worker's periodic tasks, each at its own interval, busy or idle: send heartbeats and maintain the queue."""

from __future__ import annotations

import os
import socket
import time

from queuectl import platforms
from queuectl.clock import steady_ns
from queuectl.event_log import EventLog
from queuectl.home import Home
from queuectl.liveness import LEASE_HEARTBEATS
from queuectl.patience import Patience
from queuectl.platforms import runs
from queuectl.recovery import recover
from queuectl.stopping import StopRequest
from queuectl.storage import Storage, Worker
from queuectl.tidying import tidy

LOOK_SECONDS = 0.1  # between two checks of what is due
SYNC_SECONDS = 0.1  # the longest time that a finish stays unsynced
RECOVER_SECONDS = 2.0  # between two searches for dead workers
# Between two searches for data that need not be kept; the second if the last one left some for the next.
TIDY_SECONDS, TIDY_ON_SECONDS = 30.0, 0.5
REALIGN_SECONDS = 60.0


class Housekeeping:
    def __init__(
        self,
        name: str,
        home: Home,
        storage: Storage,
        guardian: runs.Guardian,
        stop: StopRequest,
        patience: Patience,
        log: EventLog,
    ) -> None:
        self._name = name
        self._home = home
        self._storage = storage
        self._guardian = guardian
        self._stop = stop
        self._patience = patience
        self._log = log
        self.processed = self._processed_told = 0
        self.is_outcast = False  # the worker was taken for dead, and its job was put back in line
        self.looked_at = 0.0
        self._heartbeat_at = self._recovered_at = self._tidy_at = self._realign_at = 0.0

    def is_due(self, seconds: float = LOOK_SECONDS) -> bool:
        return time.monotonic() - self.looked_at >= seconds

    def look(self) -> bool:
        """Do the tasks that are due; True if a job was put in line."""
        if not self.is_due():
            return False
        now = self.looked_at = time.monotonic()
        self._guardian.check()
        self._stop.read(self._storage, self._name)
        was_set = self._storage.clock_was_set()
        if (
            was_set
            or self._storage.unsynced_seconds() >= SYNC_SECONDS
            or now - self._heartbeat_at >= self._storage.settings().heartbeat_interval
        ):
            self._beat()
        self._log.write_as(self._storage.known_settings.log_format)
        self._storage.sample()
        if now >= self._tidy_at:
            self._tidy_at = now + (TIDY_ON_SECONDS if tidy(self._storage, self._home) else TIDY_SECONDS)
        if was_set or now >= self._realign_at:
            self._realign_at = now + REALIGN_SECONDS
            self._realign()
        occurred = not self._stop.asked and self._enqueue_due()
        if now - self._recovered_at < RECOVER_SECONDS:
            return occurred
        self._recovered_at = now
        return self._recover() or occurred

    def bring_to_disk(self) -> None:
        """Before idling, sync unsynced commits, and store the number of jobs done since the last heartbeat."""
        if self._storage.unsynced_seconds() or self.processed != self._processed_told:
            self._beat()

    def _beat(self) -> None:
        began, lease_began = time.monotonic(), steady_ns() / 1e9
        processed = self.processed
        if self._storage.is_there() and self._storage.heartbeat(self._name, processed):
            self._heartbeat_at, self._processed_told = began, processed
            interval = self._storage.known_settings.heartbeat_interval
            # Retries come so often that the worker renews its lease in time after a short outage of the database.
            self._patience.longest_pause = interval / 4
            if self._storage.is_shared:
                self._guardian.extend(lease_began + LEASE_HEARTBEATS * interval)
        elif self._storage.is_shared:
            self._log.say("worker_rejoined")
            self.is_outcast = True
            self._storage.add_worker(identity(self._name, self._storage))
        else:
            self._log.say("worker_unknown")
            self._stop.ask(0)

    def _realign(self) -> None:
        """Correct the schedules' next times if the wall clock was set, perhaps while no worker was up."""
        if self._storage.next_occurrence() is not None:
            from queuectl.recurring import realign

            realign(self._storage)

    def _enqueue_due(self) -> bool:
        """Enqueue the jobs of schedules that are due; True if a job was put in line."""
        due = self._storage.next_occurrence()
        if due is None or due > self._storage.clock.now():
            return False
        from queuectl.recurring import enqueue_due

        occurred = enqueue_due(self._storage)
        for name, job, note in occurred:
            if job is None:
                self._log.say("schedule_passed_over", schedule=name, reason=note)
            else:
                self._log.say("schedule_enqueued", schedule=name, enqueued=job.id)
        return any(job for _, job, _ in occurred)

    def _recover(self) -> bool:
        """Recover the jobs of dead workers; True if there was one."""
        recovered = recover(self._storage, self._home)
        for worker, job, verdict in recovered:
            state, reason = verdict.state.value, verdict.error_message
            self._log.say("job_recovered", job, lost_worker=worker, state=state, reason=reason)
        return bool(recovered)


def identity(name: str, storage: Storage) -> Worker:
    """The row of `workers` that describes this process."""
    pid, now = os.getpid(), storage.clock.now()
    start_time = platforms.start_time(pid)
    assert start_time is not None
    place = (platforms.boot_id(), platforms.pid_space(), socket.gethostname())
    queues = None if storage.serves is None else ",".join(sorted(storage.serves))
    return Worker(name, pid, start_time, *place, now, now, 0, None, queues)
