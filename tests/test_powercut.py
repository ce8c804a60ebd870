"""The power is cut a few times; and that it would be noticed if what is promised were not synced."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

if os.name == "nt":
    pytest.skip("what is written to the disk is recorded by strace", allow_module_level=True)

from powercut import trace
from powercut.__main__ import Story, cut, happen
from powercut.disk import Disk
from powercut.trace import Call

LATE = 5.0  # it is 0.2 s by design; a machine that is busy with other tests may not come to it in time


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Story, Path]:
    if reason := trace.why_not():
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("powercut")
    return happen(root, 44), root


def test_what_was_acknowledged_survives_a_power_cut_and_the_rest_runs_again(story: tuple[Story, Path]) -> None:
    found = cut(*story, 100, Random(1), LATE)
    assert found.problems == []


def test_a_database_that_was_never_synced_would_be_noticed(story: tuple[Story, Path]) -> None:
    happened, root = story
    unsynced = [call._replace(begun=0) if call.name == "fdatasync" else call for call in happened.calls]
    found = cut(happened._replace(calls=unsynced), root, 20, Random(1), LATE)
    assert any("is lost" in problem for problem in found.problems)


# --- the disk ---


def opened(path: str) -> Call:
    return Call("openat", path, 0, 0.0, creates=True)


def after_many_cuts(calls: list[Call]) -> set[bytes | None]:
    """All that the file may hold."""
    disk = Disk()
    for number, call in enumerate(calls):
        disk.do(number, call)
    return {disk.after_a_cut(Random(seed)).get("file") for seed in range(200)}


def test_what_was_synced_stays_and_the_rest_is_any_part_of_it() -> None:
    begin = [opened("file"), Call("fsync", "directory", 1, 0.0)]
    synced = [*begin, Call("pwrite64", "file", 2, 0.0, b"a" * 1024), Call("fdatasync", "file", 3, 0.0)]
    assert after_many_cuts(synced) == {b"a" * 1024}
    torn = after_many_cuts([*synced, Call("pwrite64", "file", 4, 0.0, b"b" * 1024)])
    halves = {first * 512 + second * 512 for first in (b"a", b"b") for second in (b"a", b"b")}
    assert torn == halves


def test_a_sync_covers_only_what_was_done_when_it_began() -> None:
    begin = [opened("file"), Call("fsync", "directory", 1, 0.0)]
    write = Call("pwrite64", "file", 2, 0.0, b"a")
    assert after_many_cuts([*begin, write, Call("fdatasync", "file", 2, 0.0)]) == {b"", b"a"}


def test_a_file_whose_directory_was_not_synced_may_be_gone_and_one_that_was_removed_may_come_back() -> None:
    assert after_many_cuts([opened("file")]) == {None, b""}
    removed = [opened("file"), Call("fsync", "directory", 1, 0.0), Call("unlink", "file", 2, 0.0)]
    assert after_many_cuts(removed) == {None, b""}
    assert after_many_cuts([*removed, Call("fsync", "directory", 3, 0.0)]) == {None}
