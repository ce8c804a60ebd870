"""The Python API: what docs/python.md shows is true, and importing it costs no more than is used."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

import queuectl
from queuectl import Queue, QueueError, State

from .conftest import ROOT, Cli
from .test_docs import blocks

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="cmd.exe ends its lines differently")
def test_the_examples_of_the_page_are_true(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok("worker", "start")
    monkeypatch.setenv("QUEUECTL_HOME", str(cli.home))
    monkeypatch.chdir(cli.cwd)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks(PAGE, "python")), {}, "python.md", None, 0)
    assert len(test.examples) > 15, "or it would prove nothing"
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_a_with_block_closes_the_queue(cli: Cli) -> None:
    with Queue(str(cli.home)) as queue:
        added = queue.enqueue("true")
        storage = queue.storage
        assert queue.get(added.id).state is State.PENDING
    with pytest.raises(Exception, match="closed"):
        storage.totals()


def test_waiting_too_long_is_a_timeout_error_and_a_queue_error(cli: Cli) -> None:
    with Queue(str(cli.home)) as queue:
        queue.enqueue("true", id="never")
        for wait in (lambda: queue.wait("never", 0.05), lambda: queue.wait_all(0.05)):
            with pytest.raises(TimeoutError) as caught:
                wait()
            assert isinstance(caught.value, QueueError)


def test_one_id_may_be_given_as_it_is(cli: Cli) -> None:
    with Queue(str(cli.home)) as queue:
        for job_id in ("ab", "a", "b"):
            queue.enqueue("true", id=job_id)
        assert [job.id for job in queue.cancel("ab")] == ["ab"]
        assert [job.id for job in queue.retry(["ab"])] == ["ab"]
        assert queue.status().jobs["pending"] == 3 and list(queue.status().workers) == []


def test_everything_that_is_exported_is_there_and_nothing_else_is(cli: Cli) -> None:
    assert [getattr(queuectl, name) for name in queuectl.__all__]
    with pytest.raises(AttributeError):
        queuectl.Nothing  # noqa: B018 - asking is the test


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = "import sys, queuectl; print(*(name for name in sys.modules if name.startswith('queuectl.')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_what_python_has_types_for_is_given_as_it_is(cli: Cli) -> None:
    with Queue(str(cli.home)) as queue:
        first = queue.enqueue(("echo", "a b"), cwd=cli.cwd, delay=timedelta(hours=1), no_retry_on=(2, 64))
        at = datetime.now(timezone.utc) + timedelta(days=1)
        second = queue.enqueue("true", run_at=at, depends_on=first, after_any=["last"])
        job = queue.get(first)
        assert (job.argv, job.cwd, job.no_retry_on) == ('["echo", "a b"]', str(cli.cwd), "2,64")
        assert queue.get(second).run_at == round(at.timestamp() * 1000)
        assert [need.id for need in queue.needs(queue.get(second.id))] == [first.id]
        with pytest.raises(TimeoutError):
            queue.wait([first, second], timeout=0)
        assert [job.id for job in queue.cancel(first)] == [first.id]


def test_what_is_no_id_no_state_or_no_limit_is_a_queue_error(cli: Cli) -> None:
    with Queue(str(cli.home)) as queue:
        wrong: list[Callable[[], object]] = [
            lambda: queue.get(5),  # type: ignore[arg-type]
            lambda: queue.cancel(5),  # type: ignore[arg-type]
            lambda: queue.wait([None]),  # type: ignore[list-item]
            lambda: queue.list("done"),
            lambda: queue.list(limit=-1),
            lambda: queue.enqueue("true", after="a"),  # type: ignore[call-arg]
        ]
        for call in wrong:
            with pytest.raises(QueueError):
                call()


def test_after_is_taken_for_depends_on(cli: Cli) -> None:
    with Queue(str(cli.home)) as queue, pytest.raises(QueueError, match="Did you mean 'depends_on'"):
        queue.enqueue_all([{"command": "true", "after": "a"}])


def test_jobs_are_listed_by_what_they_are(cli: Cli) -> None:
    with Queue(str(cli.home)) as queue:
        queue.enqueue("make web", id="a", label="x")
        queue.enqueue("make", id="b")
        queue.cancel("b")
        assert [job.id for job in queue.list("cancelled")] == [job.id for job in queue.list(State.CANCELLED)] == ["b"]
        assert [job.id for job in queue.list(label="x")] == [job.id for job in queue.list(match="WEB")] == ["a"]
        assert queue.list(older_than=timedelta(days=1)) == [] and len(queue.list(older_than="0s", queue="default")) == 2
