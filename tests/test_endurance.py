"""Some of an hour in fast time: it works, and would notice what grows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from endurance import WATCHED, Sample, grown, wrong

SAMPLE = Sample(0, 20_000_000, 11, 4_000_000, 500_000, 1_000_000, 300, 100, 2, 1_000, 1_000)


@pytest.mark.skipif(os.name == "nt", reason="what a worker uses is read from /proc")
def test_nothing_grows_in_some_of_an_hour() -> None:
    arguments = ["--hours", "0.5", "--rate", "120", "--jobs", "4", "--keep", "5m"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.endurance", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", WATCHED)
def test_what_grows_is_noticed(what: str) -> None:
    steady = [SAMPLE] * 48
    assert grown(steady) == []
    growing = [sample._replace(**{what: getattr(sample, what) * (1 + hour)}) for hour, sample in enumerate(steady)]
    [problem] = grown(growing)
    assert problem.startswith(f"{what} has grown")


def test_a_worker_that_died_and_a_job_that_is_not_done_are_noticed() -> None:
    steady = [SAMPLE] * 48
    assert wrong(steady) == []
    assert wrong([*steady[:2], SAMPLE._replace(hours=3, workers=1)]) == ["only 1 of 2 workers live after 3.0 hours"]
    assert wrong([*steady, SAMPLE._replace(completed=999)]) == ["only 999 of 1,000 jobs are completed in the end"]
