"""The measurements themselves: each subject still measures, on a scale that says nothing about speed."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.__main__ import SUBJECTS
from benchmarks.harness import Scale
from benchmarks.queues import Shelf
from benchmarks.rivals import Queuectl, Xargs

TINY = Scale(
    small=5, middle=10, large=20, bulk=50, runs=20, processes=2, enqueues=3, rounds=2, samples=2, idle_seconds=0.5
)
pytestmark = pytest.mark.skipif(shutil.which("xargs") is None, reason="the measurements are made for Linux")


# "postgres" needs procrastinate, which the tests do not install.
@pytest.mark.parametrize("subject", sorted(SUBJECTS.keys() - {"postgres"}))
def test_each_subject_measures_what_it_says(subject: str, tmp_path: Path) -> None:
    figures = list(SUBJECTS[subject](TINY, Shelf(str(tmp_path))))
    assert figures and all(math.isfinite(figure.value) and figure.value >= 0 for figure in figures), figures
    assert len({figure.name for figure in figures}) == len(figures)


def test_through_a_queue_that_is_called_worn_jobs_have_really_passed(tmp_path: Path) -> None:
    from queuectl.queue import Queue

    with Shelf(str(tmp_path)).queue(waiting=3, passed=7) as home, Queue(home.root) as queue:
        counts = queue.counts()
        assert (counts["pending"], counts["completed"]) == (3, 7)
        assert len(queue.storage.newest_runs(100)) == 7


def test_peers_are_compared_in_a_table_that_names_who_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PEERS", [Queuectl, Xargs])
    monkeypatch.setattr(peers, "ROWS", [row for row in peers.ROWS if row.measure in (peers.run_many, peers.memory)])
    table = peers.compare(str(tmp_path), TINY)
    assert "hand in and run 20 jobs" in table and " × (" in table and " MB" in table
    monkeypatch.setattr(Xargs, "needs", ("no-such-program",))
    monkeypatch.setattr(peers, "ROWS", peers.ROWS[:1])
    assert "xargs was not measured: there is no no-such-program." in peers.compare(str(tmp_path), TINY)
