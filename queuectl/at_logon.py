"""The program that runs at logon: start the missing workers; with --stop, stop them when the session ends.

It is started as a file and has no console, so its messages go to a log.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started as a file: sys.path must hold the directory that contains the package
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import argparse
import time
from collections.abc import Callable

from queuectl import platforms
from queuectl.errors import QueueError, StorageError
from queuectl.event_log import EventLog
from queuectl.home import Home, open_home
from queuectl.liveness import Condition, conditions, is_here
from queuectl.storage import Storage, open_storage
from queuectl.worker_manager import End, WorkerManager

PATIENT_SECONDS, RETRY_SECONDS = 600.0, 5.0  # at logon the network or the database may not be reachable yet


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--stop", action="store_true")
    options = parser.parse_args()
    home = open_home(options.home)
    log = EventLog(os.path.join(home.logs, "autostart.log"))
    try:
        if options.stop:
            stop(home, log)
        else:
            start(home, options.count, log)
        return 0
    except QueueError as error:
        log.say("failed", error=str(error))
    except Exception:
        log.say_failed("logon_failed")
    return 1


def start(home: Home, count: int, log: EventLog) -> None:
    """Start only the missing workers: a second logon, or workers that already run, do not raise the number."""
    with platforms.locked(os.path.join(home.root, "autostart.lock")):
        storage = patiently_opened(home, log)
        here = [worker for worker, found in conditions(storage) if found is Condition.ALIVE and is_here(worker)]
        log.write_as(storage.settings().log_format)
        up = WorkerManager(home, storage, tell_to(log)).start(max(0, count - len(here)))
    log.say("logon_done", there=len(here), started=len(up))


def stop(home: Home, log: EventLog) -> None:
    storage = open_storage(home)
    for name, end in WorkerManager(home, storage, tell_to(log)).stop(storage.settings().stop_grace):
        if end is End.NONE:
            log.say("logon_told", said=f"Worker {name} {end}")
            continue
        log.say("logon_stopped", stopped=name)


def tell_to(log: EventLog) -> Callable[[str], None]:
    return lambda line: log.say("logon_told", said=line)


def patiently_opened(home: Home, log: EventLog) -> Storage:
    give_up = time.monotonic() + PATIENT_SECONDS
    while True:
        try:
            return open_storage(home)
        except StorageError as error:
            if time.monotonic() > give_up:
                raise
            log.say("database_away", error=str(error))
            time.sleep(RETRY_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
