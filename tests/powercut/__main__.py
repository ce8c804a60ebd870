"""`python -m tests.powercut --jobs 300 --cuts 500 --seed 1`: work, cut the power at random moments, and look."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from conftest import ROOT, SCRIPT, Cli
from pretend import pretend

from queuectl.checking import check
from queuectl.clock import Clock
from queuectl.errors import QueueError
from queuectl.job import State
from queuectl.storage.sqlite import SQLiteStorage

from . import trace
from .disk import Disk, write

NAME = "w-cut"
DONE_ON = 100  # in how many cuts once the rest is run by a worker
# First each enqueue is alone, and the last to close; then beside a worker, in ones and in tens.
SCENE = """
set -e
hand_in() { "$PYTHON" "$QUEUECTL" enqueue "$@" >>printed 2>>said; }
for _ in 1 2 3; do hand_in "$JOB"; done
"$PYTHON" -X utf8 "$WORKER" --name "$NAME" >>said 2>&1 &
worker=$!
for _ in $(seq "$ROUNDS"); do
    for _ in 1 2 3 4 5 6 7 8 9 10; do echo "$JOB"; done | hand_in --file -
    hand_in "$JOB"
done
"$PYTHON" "$QUEUECTL" wait --all >>said 2>&1
kill -TERM $worker
wait $worker
"""
JOB = "yes x | head -c 40000"


class Finish(NamedTuple):
    job_id: str
    number: int  # of the call that proves it was committed
    at: float


class Story(NamedTuple):
    """What happened: the calls, and which of them show what was promised to whom."""

    calls: list[trace.Call]
    printed: list[tuple[int, str]]
    finished: list[Finish]


class Findings(NamedTuple):
    problems: list[str]
    late: list[float]  # how old each finish was that was lost
    run_again: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.powercut", description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--late", type=float, default=0.2, help="how old a finish may be that is lost, in seconds")
    options = parser.parse_args()
    if reason := trace.why_not():
        print(f"Skipped: {reason}")
        return 0
    with tempfile.TemporaryDirectory(prefix="queuectl-powercut-") as root:
        story = happen(Path(root), options.jobs)
        found = cut(story, Path(root), options.cuts, Random(options.seed), options.late)
    syncs = sum(call.name in ("fsync", "fdatasync") for call in story.calls)
    print(
        f"{len(story.printed)} jobs, {len(story.calls):,} calls, {syncs:,} of them syncs; {options.cuts} cuts: "
        f"{len(found.late):,} finishes lost, the oldest {max(found.late, default=0):.3f} s old; "
        f"{found.run_again:,} jobs ran again afterwards"
    )
    for problem in found.problems[:50]:
        print(f"WRONG: {problem}")
    print(f"{len(found.problems)} things are wrong." if found.problems else "Nothing that was promised is lost.")
    return 1 if found.problems else 0


def happen(root: Path, jobs: int) -> Story:
    home, work = root / "home", root / "work"
    for path in (home / "logs", work):
        path.mkdir(parents=True)
    (work / "printed").touch()
    log = home / "logs" / f"worker-{NAME}.log"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("QUEUECTL")},
        "QUEUECTL_HOME": str(home),
        "PYTHON": sys.executable,
        "QUEUECTL": str(SCRIPT),
        "WORKER": str(ROOT / "queuectl" / "worker.py"),
        "NAME": NAME,
        "JOB": JOB,
        "ROUNDS": str(jobs // 11),
    }
    files = [home, *(home / f"queuectl.db{ending}" for ending in ("", "-wal", "-journal"))]
    (work / "scene.sh").write_text(SCENE)
    trace.record(["sh", "scene.sh"], [*files, log, work / "printed"], root / "trace", env, work)
    calls = list(trace.read(root / "trace"))
    printed = [
        (number, job_id)
        for number, call in enumerate(calls)
        if call.name == "write" and call.path == str(work / "printed")
        for job_id in call.data.decode().split()
    ]
    finished = list(finishes(calls, str(log)))
    assert len(finished) > len(printed) / 2, (work / "said").read_text()
    return Story(calls, printed, finished)


def finishes(calls: list[trace.Call], log: str) -> Iterator[Finish]:
    """What a worker writes after a job has ended, it writes after that is committed: it has begun the next one."""
    ended = None
    for number, call in enumerate(calls):
        if call.name == "write" and call.path == log:
            words = call.data.decode().split()
            if ended is not None:
                yield Finish(ended, number, call.at)
            ended = words[3].rstrip(":") if words[2] == "job" and words[6] == "ended" else None


def cut(story: Story, root: Path, cuts: int, random: Random, late: float) -> Findings:
    found = Findings([], [], 0)
    first = story.printed[0][0] // 2  # also before anything was promised
    moments = sorted(random.choices(range(first, len(story.calls)), k=cuts))
    disk, done = Disk(), 0
    ours = {str(root / "home")}
    for which, moment in enumerate(moments):
        while done < moment:
            call = story.calls[done]
            if call.path in ours or Path(call.path).parent == root / "home":
                disk.do(done, call)
            done += 1
        home = root / "after"
        (home / "logs").mkdir(parents=True)
        write(disk.after_a_cut(random), home)
        look(story, moment, home, late, found)
        if which % DONE_ON == DONE_ON - 1:
            found = found._replace(run_again=found.run_again + do_the_rest(home, found.problems))
        shutil.rmtree(home)
    return found


def look(story: Story, moment: int, home: Path, late: float, found: Findings) -> None:
    promised = {job_id for number, job_id in story.printed if number < moment}
    try:
        storage = SQLiteStorage(str(home / "queuectl.db"), Clock(), "after the cut")
        try:
            checked = check(storage)
            states = dict(storage.statement("SELECT id, state FROM jobs", {}).fetchall())
        finally:
            storage.close()
    except QueueError as error:
        found.problems.append(f"after call {moment}: {error}")
        return
    found.problems.extend(f"after call {moment}: {problem}" for problem in checked.problems)
    found.problems.extend(f"after call {moment}: job {job_id} is lost" for job_id in promised - states.keys())
    now = story.calls[moment].at
    for finish in story.finished[: bisect_left(story.finished, moment, key=lambda one: one.number)]:
        if states.get(finish.job_id) != State.COMPLETED:
            age = now - finish.at
            found.late.append(age)
            if age > late:
                found.problems.append(
                    f"after call {moment}: the finish of job {finish.job_id}, {age:.3f} s before, is lost"
                )


def do_the_rest(home: Path, problems: list[str]) -> int:
    """After the power is back, as a user would: start a worker, and wait until everything has run."""
    belief = home.parent / "belief"
    belief.mkdir(exist_ok=True)
    cli = Cli(home, home.parent / "work")
    cli.env.update(pretend(belief, "after the cut"))
    counts = read_counts(home)
    left = counts["pending"] + counts["processing"] + counts["failed"]
    cli.ok("worker", "start")
    cli("wait", "--all", timeout=120)
    cli.ok("worker", "stop")
    counts = read_counts(home)
    if counts["completed"] != sum(counts[state.value] for state in State):
        problems.append(f"after a cut the rest does not run: {counts}")
    return left


def read_counts(home: Path) -> dict[str, int]:
    storage = SQLiteStorage(str(home / "queuectl.db"), Clock(), "after the cut")
    counts = storage.totals()
    storage.close()
    return counts


if __name__ == "__main__":
    sys.exit(main())
