"""Hands in jobs all the time, by the command line, and keeps account of what was acknowledged."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from random import Random
from typing import Any, NamedTuple

from .stage import Stage

MOST_IN_A_BATCH, FIRST_BATCHES = 40, 2
LONG_SECONDS = 4  # a dead worker is noticed before that
# What the server says when it breaks off while it stores: then nobody can know.
IN_DOUBT = "may be, or not"


class Account(NamedTuple):
    """What the queue owes: it was written down when the command line had said it."""

    accepted: dict[str, int]  # ids that were printed, each with the batch that it came with
    doubtful: dict[int, int]  # batches that broke off before, each with how many jobs it had
    refused: dict[int, str]  # batches that were not stored, each with the error that says so
    deleted: set[str]  # ids that somebody was told to delete


class Load:
    def __init__(self, stage: Stage, random: Random) -> None:
        self.stage = stage
        self.account = Account({}, {}, {}, set())
        self._random = random
        self._batch = 0
        self._numbers = threading.Lock()
        self._is_over = threading.Event()
        self._thread = stage.thread("whoever hands in", self._go_on)

    def start(self) -> None:
        """With so many at once that nobody is idle for the time being."""
        for _ in range(FIRST_BATCHES):
            self.hand_in(self._random, MOST_IN_A_BATCH)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._is_over.wait(0.05):
            self.hand_in(self._random, self._random.choice([1, 1, self._random.randint(2, MOST_IN_A_BATCH)]))

    def hand_in(self, random: Random, size: int, kill_after: float | None = None) -> bool:
        """One enqueue of one job or of several, which may be killed in the middle of it; True if it was broken off."""
        with self._numbers:
            self._batch += 1
            batch = self._batch
        jobs = new_jobs(random, batch, size)
        machine = random.choice(self.stage.machines)
        text = [json.dumps(job) for job in jobs]
        arguments = ["enqueue", text[0]] if len(jobs) == 1 else ["enqueue", "--file", "-"]
        process = subprocess.Popen(
            machine.argv(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=machine.cwd,
            env=machine.env,
            text=True,
        )
        try:
            said, complaint = process.communicate("\n".join(text) if len(jobs) > 1 else None, timeout=kill_after or 120)
        except subprocess.TimeoutExpired:
            process.kill()
            said, complaint = process.communicate()
            if kill_after is None:
                self.stage.findings.append(f"an enqueue did not end within 120 s: {complaint}")
        self.stage.judge("enqueue", complaint)
        ids = [line.rstrip("\n") for line in said.splitlines(keepends=True) if line.endswith("\n")]
        self.account.accepted.update((job_id, batch) for job_id in ids if job_id not in self.account.accepted)
        if len(ids) < len(jobs):
            if process.returncode == -signal.SIGKILL or IN_DOUBT in complaint:
                self.account.doubtful[batch] = len(jobs)
            else:
                self.account.refused[batch] = complaint
                if not any(name in complaint for name in ("queuectl.db:", "postgresql://")):
                    self.stage.findings.append(f"enqueue: {complaint}")
        return batch in self.account.doubtful

    def some_ids(self, random: Random, most: int = 5) -> list[str]:
        """Of the newest that were accepted."""
        newest = list(self.account.accepted)[-200:]
        return random.sample(newest, min(len(newest), random.randint(1, most)))


def new_jobs(random: Random, batch: int, size: int) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    for number in range(size):
        how = random.choice(["ok"] * 8 + ["fail", "shaky", "loud", "tree", "tree"] + ["stubborn"] * (batch % 10 == 0))
        seconds = random.choice([0, 0.05, 0.2, 0.5, LONG_SECONDS])
        job: dict[str, Any] = {
            "command": f"sh job.sh {batch} {how} {seconds}",
            "label": f"b{batch}",
            "priority": random.randint(1, 10),
            "max_retries": random.randint(0, 2),
            "backoff_base": random.choice([0, 0.3, 1]),
        }
        if how == "stubborn":
            job.update(timeout=1, max_retries=0)
        if random.random() < 0.3:
            job["id"] = f"c{batch}-{number}"
        if random.random() < 0.1:
            job["delay"] = random.choice(["1s", "3s"])
        if random.random() < 0.1:
            job["queue"] = "slow"
        if random.random() < 0.05:
            job["no_rerun"] = True
            del job["max_retries"]
        if random.random() < 0.1:
            job["jitter"] = 0.5
        named = [one["id"] for one in jobs if "id" in one]
        if named and random.random() < 0.5:
            how = random.choice(["depends_on", "after_any", "after_failed"])
            job[how] = random.sample(named, min(len(named), random.randint(1, 2)))
        if size == 1 and random.random() < 0.15:
            job["unique"] = f"key{random.randint(1, 3)}"
        jobs.append(job)
    return jobs
