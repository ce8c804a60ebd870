"""The faults: each does its harm, undoes what would not mend by itself, and says what it did."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import NamedTuple

from machines import PretendedMachine

from .load import Load
from .stage import HEARTBEAT_SECONDS, Stage

DAY = 86_400


class Scene(NamedTuple):
    stage: Stage
    load: Load
    random: Random


Fault = Callable[[Scene], str]
FAULTS: dict[str, Fault] = {}
OF_SQLITE = ("kill_worker_and_guardian", "fill_disk")
OF_POSTGRES = ("restart_server", "crash_server", "end_sessions", "cut_wire")


def fault(do: Fault) -> Fault:
    FAULTS[do.__name__] = do
    return do


# --- processes ---


@fault
def kill_worker(scene: Scene) -> str:
    with scene.stage.alone["guardian"]:
        for worker in scene.stage.some_workers(scene.random, scene.random.randint(1, 2)):
            scene.stage.kill(worker.pid)
    return "kill -9 of one or two workers"


@fault
def kill_guardian(scene: Scene) -> str:
    """And nothing to its worker until that has made another: see kill_worker_and_guardian."""
    with scene.stage.alone["guardian"]:
        for worker in scene.stage.some_workers(scene.random):
            for pid in worker.guardians:
                scene.stage.kill(pid)
            scene.stage.wait_until(partial(scene.stage.is_guarded, worker.pid))
    return "kill -9 of a guardian"


@fault
def kill_worker_and_guardian(scene: Scene) -> str:
    """Nobody is left to end the run but who finds it: not for machines that cannot look at each other's processes."""
    for worker in scene.stage.some_workers(scene.random):
        for pid in scene.random.sample([worker.pid, *worker.guardians], 1 + len(worker.guardians)):
            scene.stage.kill(pid)
    return "kill -9 of a worker with its guardian"


@fault
def kill_job(scene: Scene) -> str:
    sessions = {process.session for process in scene.stage.processes() if process.mark}
    for session in scene.random.sample(sorted(sessions), min(2, len(sessions))):
        with suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
    return "kill -9 of jobs"


@fault
def kill_enqueuer(scene: Scene) -> str:
    """Until one is killed before it has said all: how long an enqueue takes depends on the machine."""
    for number in range(50):
        size, seconds = scene.random.randint(1, 40), scene.random.uniform(0.02, 0.6)
        if scene.load.hand_in(scene.random, size, kill_after=seconds) and number >= 4:
            break
    return "kill -9 of enqueues in the middle"


@fault
def freeze_worker(scene: Scene) -> str:
    """For longer than its lease, if it has one."""
    with scene.stage.alone["guardian"]:
        for worker in scene.stage.some_workers(scene.random):
            scene.stage.kill(worker.pid, signal.SIGSTOP)
            time.sleep(HEARTBEAT_SECONDS * scene.random.uniform(3, 6))
            scene.stage.kill(worker.pid, signal.SIGCONT)
    return "SIGSTOP of a worker, and SIGCONT after its lease was over"


@fault
def start_fifty(scene: Scene) -> str:
    scene.stage.call("worker", "start", "--count", "50")
    time.sleep(2)
    scene.stage.call("worker", "stop", "--timeout", "1")
    return "50 workers at once"


@fault
def storm(scene: Scene) -> str:
    for _ in range(3):
        machine = scene.random.choice(scene.stage.machines)
        how = scene.random.choice([["--force"], ["--timeout", "0.5"], ["--timeout", "3"]])
        scene.stage.call("worker", "stop", *how, machine=machine)
        scene.stage.call("worker", "start", "--count", "2", machine=machine)
    return "workers stopped and started again and again"


# --- files and the clock ---


@fault
def delete_workers_json(scene: Scene) -> str:
    for machine in scene.stage.machines:
        (machine.home / "workers.json").unlink(missing_ok=True)
    return "workers.json deleted"


@fault
def damage_workers_json(scene: Scene) -> str:
    for machine in scene.stage.machines:
        text = scene.random.choice(["", "{", '{"workers": [{"pid": 1}]}', "[" * 100_000, "\0" * 1000])
        with suppress(OSError):
            (machine.home / "workers.json").write_text(text)
    return "workers.json damaged"


@fault
def set_clock(scene: Scene) -> str:
    with scene.stage.alone["clock"]:
        scene.stage.set_clock(scene.random.choice([0, -DAY, -3600, -5, 5, 3600, 2 * DAY]))
        time.sleep(1)
    return "clock set"


@fault
def fill_disk(scene: Scene) -> str:
    """To the last byte; where no small disk could be mounted, SQLite says so without its being true."""
    stage = scene.stage
    filler = stage.machines[0].home / "filler" if stage.is_mounted else stage.root / "alpha" / "full"
    with stage.alone["disk"]:
        try:
            with suppress(OSError), open(filler, "wb", buffering=0) as file:
                for size in (1_000_000, 4096, 1) if stage.is_mounted else ():
                    with suppress(OSError):
                        while True:
                            file.write(b"x" * size)
            time.sleep(scene.random.uniform(0.5, 3))
        finally:
            filler.unlink(missing_ok=True)
    return "disk full" + " (an injected error)" * (not stage.is_mounted)


# --- what people do meanwhile ---


@fault
def change_settings(scene: Scene) -> str:
    name, values = scene.random.choice(
        [
            ("aging", ["1 enqueue", "3 enqueues", "1s", "off"]),
            ("max-output", ["100", "10000", "1000000"]),
            ("poll-interval", ["0.01", "0.05", "0.5"]),
            ("rate", ["20/s", "100/s", ""]),
            ("keep-completed", ["forever", "1s", "1h"]),
            ("max-log-bytes", ["0", "100000"]),
            ("max-backoff", ["1", "3600"]),
        ]
    )
    scene.stage.call("config", "set", name, scene.random.choice(values))
    return "a setting changed"


@fault
def change_queue(scene: Scene) -> str:
    scene.stage.call("queue", "set", "slow", "--limit", str(scene.random.randint(1, 5)))
    scene.stage.call("queue", "pause", "slow")
    scene.stage.call("queue", "resume", "slow")
    return "a queue's limit changed, the queue paused and resumed"


@fault
def purge(scene: Scene) -> str:
    scene.stage.call("purge", "--state", "completed", "--yes")
    return "completed jobs purged"


@fault
def delete_jobs(scene: Scene) -> str:
    for job_id in scene.load.some_ids(scene.random):
        scene.load.account.deleted.add(job_id)
        scene.stage.call("delete", job_id)
    return "jobs deleted"


@fault
def cancel_jobs(scene: Scene) -> str:
    for job_id in scene.load.some_ids(scene.random):
        scene.stage.call("cancel", job_id)
    return "jobs cancelled"


@fault
def retry_jobs(scene: Scene) -> str:
    scene.stage.call("retry", "--all-failed")
    scene.stage.call("retry", "--state", "cancelled", "--limit", "5", "--yes")
    for job_id in scene.load.some_ids(scene.random, 2):
        scene.stage.call("promote", job_id)
        scene.stage.call("edit", job_id, "--priority", "9")
    return "jobs retried, promoted and edited"


# --- the server ---


def server_away(scene: Scene, how: str) -> None:
    server = scene.stage.server
    assert server is not None
    with scene.stage.alone["server"]:
        server.stop(how)
        time.sleep(HEARTBEAT_SECONDS * scene.random.choice([0, 0.5, 2, 4]))
        server.start()


@fault
def restart_server(scene: Scene) -> str:
    server_away(scene, "fast")
    return "PostgreSQL stopped and started"


@fault
def crash_server(scene: Scene) -> str:
    server_away(scene, "immediate")
    return "PostgreSQL crashed and started"


@fault
def end_sessions(scene: Scene) -> str:
    server = scene.stage.server
    assert server is not None
    with scene.stage.alone["server"]:
        for _ in range(5):
            ours = "application_name = 'queuectl' AND random() < 0.5"
            server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
            time.sleep(0.1)
    return "connections ended by the server"


@fault
def cut_wire(scene: Scene) -> str:
    machine = scene.random.choice(scene.stage.machines)
    assert isinstance(machine, PretendedMachine)
    with scene.stage.alone["server"]:
        machine.cut_off()
        time.sleep(HEARTBEAT_SECONDS * scene.random.uniform(1, 5))
        machine.come_back()
    return "a machine cut off from the server"
