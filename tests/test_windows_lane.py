"""The lane of tests on Windows, where it cannot be had."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows itself the tests need no lane")
def test_where_wine_cannot_be_had_the_lane_says_so_and_that_is_no_failure(tmp_path: Path) -> None:
    lane = tmp_path / "lane"
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "windows_lane.py"), "test"],
        env={"PATH": str(tmp_path), "QUEUECTL_WINDOWS_LANE": str(lane)},
        capture_output=True,
        text=True,
    )
    said = "The tests on Windows are skipped: no Wine, because there is no apt-get to install it with.\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    assert [path.name for path in lane.iterdir()] == ["lock"]
