"""`cancel`, `retry`, `delete`, `purge`, `edit` and `promote` as users meet them; and what `enqueue` says of chains."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import job, state

from queuectl.errors import InvalidInput, QueueError
from queuectl.home import Home
from queuectl.job import Outcome, State
from queuectl.queue import Queue
from queuectl.selection import Selection

from .conftest import SCRIPT, Cli, eventually
from .test_cli_errors import refused
from .test_cli_look import STATES, add, as_json, bury, fill, inside, listed, run

NOBODY_TO_ASK = "There is nobody to ask. Add --yes"


def ids(cli: Cli, *args: str) -> list[str]:
    return [found["id"] for found in as_json(cli, "list", *args)]


def answered(cli: Cli, answer: bytes, *args: str) -> tuple[int, str]:
    """The exit code, and what a terminal shows, when a person gives this answer to the question."""
    if os.name != "posix":
        pytest.skip("this platform has no pseudo-terminals")
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *args], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cli.cwd, env=cli.env
    )
    os.close(theirs)
    shown = b""
    try:
        while True:
            if shown.endswith(b"[y/N]: ") and answer:
                os.write(ours, answer)
                answer = b""
            try:
                chunk = os.read(ours, 1000)
            except OSError:  # Linux says so when nobody is left at the other end
                break
            if not chunk:
                break
            shown += chunk
    finally:
        os.close(ours)
        code = process.wait(60)
    return code, shown.decode().replace("\r\n", "\n")


# --- which jobs ---


def test_list_takes_every_selector(cli: Cli) -> None:
    fill(cli)
    with inside(cli) as storage:
        add(storage, "labelled", label="web", command="make Web")
    assert ids(cli, "--label", "web") == ids(cli, "--match", "make w") == ["labelled"]
    assert ids(cli, "--state", "pending", "--label", "web") == ["labelled"]
    assert ids(cli, "--older-than", "0s", "--limit", "2") == ["labelled", "later"]
    assert ids(cli, "--older-than", "1d") == []
    assert cli.ok("list", "--label", "nothing") == "No such jobs.\n"
    assert "web" in cli.ok("list").splitlines()[2] and "label" in cli.ok("list").splitlines()[0]
    assert "label" not in cli.ok("list", "--state", "dead")


def test_last_is_the_newest_job_wherever_an_id_is_asked_for(cli: Cli) -> None:
    for name in ("a", "b"):
        cli.ok("enqueue", "--id", name, "true")
    assert job(cli, "last")["id"] == "b"
    assert cli.ok("cancel", "last") == "Job b is cancelled.\n"
    assert cli.ok("retry", "last") == "Job b is pending again.\n"
    assert cli.ok("delete", "last") == "Job b was deleted.\n"
    assert cli.ok("promote", "last") == "Job a is first in line.\n"


@pytest.mark.parametrize("command", ["cancel", "retry", "delete"])
def test_it_is_ids_or_selectors_and_never_nothing(cli: Cli, command: str) -> None:
    cli.ok("enqueue", "--id", "a", "true")
    for args in ([], ["a", "--label", "x"], ["--yes"]):
        refused(cli(command, *args), 2, "Name jobs, or select them", f"queuectl {command} --help")
    refused(cli(command, "--older-than", "soon", "--yes"), 2, "'soon' is not a duration")


@pytest.mark.parametrize(
    ("command", "wrong"),
    [("cancel", "dead"), ("retry", "pending"), ("delete", "processing"), ("purge", "failed")],
)
def test_what_cannot_be_done_in_a_state_is_refused(cli: Cli, command: str, wrong: str) -> None:
    refused(cli(command, "--state", wrong, "--yes"), 2, f"'{wrong}' is not one of")


# --- asking ---


@pytest.mark.parametrize("command", ["cancel", "delete"])
def test_without_a_terminal_and_without_yes_nothing_is_done(cli: Cli, command: str) -> None:
    fill(cli)
    before = as_json(cli, "status")["jobs"]
    for answer in (None, "", "y\n"):
        done = cli(command, "--state", "pending", input=answer)
        refused(done, 1, "2 pending jobs?", NOBODY_TO_ASK)
    assert as_json(cli, "status")["jobs"] == before


def test_on_a_terminal_it_says_how_many_and_asks(cli: Cli) -> None:
    fill(cli)
    code, shown = answered(cli, b"n\n", "purge")
    assert code == 1 and "Delete 3 jobs? [y/N]" in shown and "Nothing was done" in shown
    assert len(ids(cli)) == 7
    code, shown = answered(cli, b"y\n", "purge")
    assert code == 0 and shown.endswith("3 jobs were deleted.\n")
    assert set(ids(cli)) == {"pending", "later", "failed", "processing"}


def test_a_dry_run_shows_the_jobs_and_changes_nothing(cli: Cli) -> None:
    fill(cli)
    before = listed(cli)
    for args, shown in (
        (["cancel", "--state", "pending"], ["pending", "later"]),
        (["purge"], ["completed", "dead", "cancelled"]),
        (["delete", "dead", "failed"], ["dead", "failed"]),
        (["retry", "--all-failed"], ["dead"]),
        (["retry", "--state", "cancelled", "--limit", "1"], ["cancelled"]),
    ):
        done = cli(*args, "--dry-run")
        assert done.returncode == 0
        assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == shown
    assert listed(cli) == before


def test_many_are_not_counted_to_the_end_and_changed_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from queuectl.cli import selecting

    gc.enable()
    monkeypatch.setattr(selecting, "MOST_COUNTED", 600)
    monkeypatch.setattr(selecting, "PROGRESS_BATCHES", 2)
    queue = Queue(str(tmp_path / "home"))
    queue.enqueue_all({"command": "true"} for _ in range(1200))
    waiting = selecting.Bulk(queue, Selection(State.PENDING), selecting.CANCEL)
    with pytest.raises(QueueError, match=r"^Cancel 600\+ pending jobs\? There is nobody to ask"):
        waiting.do(selecting.each(queue.cancel_all))
    assert queue.counts()["pending"] == 1200
    waiting.yes = True
    waiting.do(selecting.each(queue.cancel_all))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("1,200 jobs were cancelled.\n", "1,000 cancelled …\n")
    some = selecting.Bulk(queue, Selection(State.CANCELLED), selecting.PURGE, limit=700, yes=True)
    some.do(selecting.each(queue.delete_all))
    assert queue.counts()["cancelled"] == 500
    queue.close()


def test_the_python_api_is_as_strict_as_it_is_told_to_be(tmp_path: Path) -> None:
    queue = Queue(str(tmp_path / "home"))
    with pytest.raises(InvalidInput, match="No program 'nosuch-program' is found"):
        queue.enqueue("nosuch-program", strict=True)
    assert queue.enqueue("nosuch-program").is_new
    queue.close()


# --- each of them ---


def test_cancel_by_what_jobs_are_ends_those_that_have_not_ended(cli: Cli) -> None:
    fill(cli)
    assert cli.ok("cancel", "--match", "e", "--yes", "--reason", "enough") == (
        "3 jobs were cancelled, and 1 is being ended.\n"
    )
    assert as_json(cli, "status")["jobs"] == {
        **dict.fromkeys(STATES, 0),
        "processing": 1,
        "completed": 1,
        "dead": 1,
        "cancelled": 4,
    }
    assert as_json(cli, "show", "later")["error_message"] == "enough"


def test_variables_are_edited_one_by_one(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "--env", "A=1", "--env", "B=2", "exit 0")
    cli.ok("edit", "a", "--env", "B=3", "--env", "C=")
    with Queue(str(cli.home)) as queue:
        assert json.loads(queue.get("a").env or "") == {"A": "1", "B": "3", "C": ""}
        cli.ok("edit", "a", "--unset-env", "A", "--unset-env", "C")
        assert json.loads(queue.get("a").env or "") == {"B": "3"}
        assert queue.edit("a", env={"B": None}).env is None


def test_json_is_read_by_edit_as_by_enqueue(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "exit 0")
    cli.ok("edit", "a", '{"priority": 9}', "--timeout", "5")
    found = as_json(cli, "show", "a")
    assert (found["command"], found["priority"], found["timeout"]) == ("exit 0", 9, 5)


def test_no_fewer_tries_are_allowed_than_are_to_come(cli: Cli) -> None:
    fill(cli)
    refused(cli("edit", "failed", "--max-retries", "0"), 2, "job failed has had 1 try, and waits for another")
    cli.ok("edit", "failed", "--max-retries", "1")


def test_cancel_says_which_are_still_being_ended(cli: Cli) -> None:
    fill(cli)
    assert cli.ok("cancel", "--state", "processing", "--yes") == "1 job is being ended.\n"


@pytest.mark.parametrize("selector", ["match", "label", "queue"])
def test_a_blank_selector_is_refused(cli: Cli, selector: str) -> None:
    cli.ok("enqueue", "true")
    for blank in ("", " "):
        refused(cli("delete", f"--{selector}", blank, "--yes"), 2, f"--{selector} is blank")
    assert len(ids(cli)) == 1


def test_a_state_that_is_given_twice_is_refused(cli: Cli) -> None:
    refused(cli("list", "--state", "dead", "--state", "failed"), 2, "--state is given more than once")


def test_ids_and_selectors_are_the_same_everywhere(cli: Cli) -> None:
    fill(cli)
    assert ids(cli, "dead", "later", "last") == ["dead", "later"]
    assert [found["id"] for found in as_json(cli, "dlq", "list", "dead")] == ["dead"]
    assert as_json(cli, "dlq", "list", "--match", "no such text") == []
    refused(cli("dlq", "list", "failed"), 1, "failed, not dead")
    refused(cli("dlq", "retry", "--older-than", "0s"), 1, "Retry 1 dead job?", NOBODY_TO_ASK)
    assert "1 dead job would be retried." in cli("dlq", "retry", "--older-than", "0s", "--dry-run").stderr
    refused(cli("purge", "dead", "failed"), 1, "'failed' is failed: only a job that has ended can be purged")
    assert cli.ok("purge", "dead", "cancelled") == "Job dead was deleted.\nJob cancelled was deleted.\n"
    assert cli("wait", "--state", "pending", "--timeout", "0").returncode == 124
    assert cli("wait", "--match", "no such text").stderr == "Nothing to wait for.\n"


def test_a_dry_run_with_ids_refuses_what_the_command_would_and_says_what_would_be(cli: Cli) -> None:
    fill(cli)
    done = cli("cancel", "pending", "later", "--dry-run")
    assert done.returncode == 0 and done.stderr == "2 jobs would be cancelled.\n"
    refused(cli("cancel", "pending", "dead", "--dry-run"), 1, "'dead' is dead already")
    refused(cli("retry", "pending", "--dry-run"), 1, "only a job that has ended can be retried")
    refused(cli("delete", "processing", "--dry-run"), 1, "Cancel it first")


def test_what_goes_with_a_job_is_said_before_and_after(cli: Cli) -> None:
    links = [{"command": "exit 0", "id": f"c{n}", "depends_on": f"c{n - 1}" if n else None} for n in range(4)]
    cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, links)))
    cli.ok("enqueue", "--id", "whatever", "--after-any", "c0", "exit 0")
    assert "1 job would be cancelled, and 3 jobs that wait for it would be cancelled." in (
        cli("cancel", "c0", "--dry-run").stderr
    )
    refused(cli("cancel", "--state", "pending", "--limit", "1"), 1, "Cancel 1 pending job", NOBODY_TO_ASK)
    refused(cli("delete", "--match", "exit", "--limit", "2"), 1, "Delete 2 jobs and cancel 2 jobs that wait for them?")
    assert cli.ok("cancel", "c0") == "Job c0 is cancelled.\n3 jobs that wait for it were cancelled, too.\n"
    done = cli("retry", "c0", "c1")
    assert done.stdout == "Job c0 is pending again.\nJob c1 is pending again.\n"
    assert done.stderr.startswith("2 jobs that waited for them were cancelled. They stay so. To retry them, too: ")
    assert cli.ok("delete", "c0") == "Job c0 was deleted.\n1 job that waits for it was cancelled, too.\n"


def test_cancel_counts_who_is_cancelled_because_of_it(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "--label", "x", "true")
    cli.ok("enqueue", "--id", "b", "--label", "x", "--after", "a", "true")
    cli.ok("enqueue", "--id", "c", "--after", "b", "true")
    assert cli.ok("cancel", "--label", "x", "--yes") == "3 jobs were cancelled.\n"
    assert as_json(cli, "status")["jobs"] == {**dict.fromkeys(STATES, 0), "cancelled": 3}


def test_retry_takes_jobs_that_have_ended_however_they_did(cli: Cli) -> None:
    fill(cli)
    out = cli.ok("retry", "completed", "dead", "cancelled")
    assert out.splitlines() == [f"Job {name} is pending again." for name in ("completed", "dead", "cancelled")]
    assert len(as_json(cli, "show", "completed")["runs"]) == 1
    refused(cli("retry", "failed"), 1, "Job 'failed' is failed: only a job that has ended can be retried")


def test_a_long_chain_that_is_retried_begins_with_its_first_job(cli: Cli) -> None:
    links = [{"command": "exit 0", "id": f"c{n}", "depends_on": [f"c{n - 1}"] * bool(n)} for n in range(700)]
    cli.ok("enqueue", "--label", "chain", "--file", "-", input="\n".join(map(json.dumps, links)))
    cli.ok("cancel", "c0")
    assert cli.ok("retry", "--label", "chain", "--yes") == "700 jobs are pending again.\n"
    assert [link["id"] for link in as_json(cli, "list", "--limit", "1000") if not link["waits_for"]] == ["c0"]


def test_retry_all_failed_is_every_dead_job(cli: Cli) -> None:
    bury(cli, "a", "b")
    with inside(cli) as storage:
        run(storage, "fine", Outcome(0, 0.1))
    refused(cli("retry", "--all-failed", "a"), 2, "--all-failed is every dead job")
    assert cli.ok("retry", "--all-failed") == "2 jobs are pending again.\n"
    assert cli.ok("retry", "--all-failed") == "No dead jobs.\n"
    assert as_json(cli, "status")["jobs"] == {**dict.fromkeys(STATES, 0), "pending": 2, "completed": 1}


def test_a_job_whose_key_is_taken_is_not_retried(cli: Cli) -> None:
    with inside(cli) as storage:
        run(storage, "old", Outcome(1, 0.1), max_retries=0, unique="k")
    cli.ok("enqueue", "--unique", "k", "true")
    refused(cli("retry", "old"), 1, "Job 'old' was not retried: another job with its key 'k' waits or runs")


def test_delete_takes_history_and_logs_along_and_no_running_job(cli: Cli) -> None:
    fill(cli)
    home = Home(str(cli.home))
    with inside(cli) as storage:
        dead = storage.glance("dead")
    for path in home.kept(dead.seq, dead.lease):
        Path(path).write_text("all of it")
    assert cli.ok("delete", "dead", "pending").splitlines() == ["Job dead was deleted.", "Job pending was deleted."]
    assert not any(os.path.exists(path) for path in home.kept(dead.seq, dead.lease))
    refused(cli("delete", "later", "processing"), 1, "Job 'processing' runs: nothing was deleted", "queuectl cancel")
    assert "later" in ids(cli)


def test_purge_removes_what_has_ended_by_state_and_age(cli: Cli) -> None:
    fill(cli)
    assert cli.ok("purge", "--older-than", "1h", "--yes") == "No such jobs.\n"
    assert [line.split()[0] for line in cli.ok("dlq", "purge", "--dry-run").splitlines()[2:]] == ["dead"]
    assert cli.ok("purge", "--state", "dead", "--yes") == "1 job was deleted.\n"
    assert cli.ok("purge", "--older-than", "0s", "--yes") == "2 jobs were deleted.\n"
    assert as_json(cli, "status")["jobs"] == {**dict.fromkeys(STATES, 0), "pending": 2, "processing": 1, "failed": 1}
    assert cli.ok("purge") == "No jobs.\n"


def test_edit_changes_what_is_named_and_says_where_the_job_stands(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "-p", "5", "true")
    cli.ok("enqueue", "--id", "b", "-p", "5", "true")
    done = cli("edit", "b", "--priority", "9", "--timeout", "60", "--label", "web", "--env", "A=1", "echo hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Job b is changed.\n", "Job b is next in line.\n")
    shown = job(cli, "b")
    assert (shown["command"], shown["priority"], shown["timeout"], shown["label"]) == ("echo hi", 9, 60, "web")
    cli.ok("edit", "last", "--delay", "1h", "--", "echo", "a b")
    assert job(cli, "b")["command"] == ["echo", "a b"]
    assert ids(cli, "--state", "pending") == ["a", "b"]


def test_an_edit_that_is_wrong_changes_nothing(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "a", "true")
    before = job(cli, "a")
    refused(cli("edit", "a"), 2, "Nothing to change", "--priority")
    refused(cli("edit", "a", "--priority", "99"), 2, "priority cannot be 99")
    refused(cli("edit", "a", "--cwd", "nosuch"), 2, "No directory")
    refused(cli("edit", "nosuch", "--priority", "9"), 1, "No job 'nosuch'")
    with inside(cli) as storage:
        storage.claim("w-test")
    refused(cli("edit", "a", "--priority", "9"), 1, "Job 'a' is processing: only a job that waits can be changed")
    refused(cli("promote", "a"), 1, "Job 'a' is processing")
    assert {
        **job(cli, "a"),
        **{key: before[key] for key in ("state", "attempts", "started_at", "updated_at", "worker", "lease")},
    } == before


# --- chains and keys, as enqueue puts it ---


def said(cli: Cli, *args: str) -> tuple[str, str]:
    """The id, and the first line of what else it says."""
    done = cli("enqueue", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.splitlines()[0]


def test_enqueue_says_what_a_job_waits_for(cli: Cli) -> None:
    for number in range(7):
        cli.ok("enqueue", "--id", f"n{number}", "true")
    assert said(cli, "--id", "x", "--after", "n0", "--after-any", "n1", "true") == ("x", "Job x waits for n0, n1.")
    after = [part for number in range(7) for part in ("--after", f"n{number}")]
    assert said(cli, "--id", "y", *after, "true")[1] == "Job y waits for n0, n1, n2, n3, n4 and 2 more."
    cli.ok("cancel", "n6")
    assert said(cli, "--id", "z", "--after", "n6", "true") == ("z", "Job z is cancelled already: job n6 was cancelled.")
    refused(cli("enqueue", "--after", "n66", "true"), 1, "No job 'n66'. Did you mean 'n6'?")
    refused(cli("enqueue", "--id", "c", "--after", "c", "true"), 2, "wait for each other in a circle: c -> c")
    lines = 'true\n{"command": "true", "after_any": ["n0", "n77"]}\n'
    refused(cli("enqueue", "--file", "-", input=lines), 1, "Line 2 of stdin: No job 'n77'.", "Nothing was")
    refused(cli("enqueue", "--file", "-", input='{"command": "true", "after_any": 7}'), 2, "Line 1 of stdin: after_any")


def test_show_and_list_know_who_waits_for_whom(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "build", "true")
    cli.ok("enqueue", '{"id": "test", "command": "true", "depends_on": "build", "label": "web", "unique": "k"}')
    cli.ok("enqueue", "--id", "mail", "--after-any", "test", "true")
    shown = job(cli, "test")
    assert (shown["waits_for"], shown["label"], shown["unique"]) == (1, "web", "k")
    assert shown["needs"] == [{"id": "build", "state": "pending", "wanted": "completed", "is_met": False}]
    assert shown["dependents"] == [{"id": "mail", "state": "pending", "wanted": "any", "is_met": False}]
    text = cli.ok("show", "test")
    assert "waits for    build (pending)" in text and "before       mail" in text
    assert "unique key   k" in text and "label        web" in text
    assert "waits for    test (pending, whatever its end)" in cli.ok("show", "mail")
    assert "waits for 1 job" in cli.ok("list")
    assert [found["waits_for"] for found in as_json(cli, "list")] == [1, 1, 0]


def test_a_key_that_is_taken_gives_the_first_ones_id_and_says_so(cli: Cli) -> None:
    first, _ = said(cli, "--unique", "k", "true")
    again, words = said(cli, "--unique", "k", "false")
    assert again == first and words == f"Job {first} waits or runs under this key already: no other was added."
    lines = '{"command": "true", "unique": "k"}\n{"command": "true", "unique": "l"}\ntrue\n'
    done = cli("enqueue", "--file", "-", input=lines)
    assert done.stdout.split()[0] == first and len(done.stdout.split()) == 3
    assert done.stderr.startswith("2 jobs were stored, and 1 not: others have their keys.\n")
    twins = cli("enqueue", "--file", "-", input='{"command": "true", "unique": "m"}\n' * 2)
    assert len(set(twins.stdout.split())) == 1
    assert twins.stderr.startswith("1 job was stored, and 1 not: others have their keys.\n")


def test_a_program_that_is_not_there_is_a_warning_and_with_strict_an_error(cli: Cli) -> None:
    for args in (["nosuch-program"], ["--", "nosuch-program", "x"], ['{"command": ["nosuch-program"]}']):
        done = cli("enqueue", *args)
        assert done.returncode == 0 and done.stdout.strip().isdigit()
        assert done.stderr.startswith("Warning: no program 'nosuch-program' is found.")
        refused(cli("enqueue", "--strict", *args), 2, "No program 'nosuch-program' is found", "--strict")
    refused(cli("run", "--strict", "nosuch-program"), 2, "No program")
    refused(cli("enqueue", "--strict", "--file", "-", input="true\nnosuch-program\n"), 2, "Line 2 of stdin: No program")
    assert len(ids(cli)) == 3


def test_what_is_refused_gets_no_warning_too(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "taken", "true")
    cli.ok("schedule", "add", "taken", "--every", "1h", "true")
    refused(cli("enqueue", "--id", "taken", "nosuch-program"), 1, "Job 'taken' exists already")
    refused(cli("enqueue", "--queue", "nowhere", "nosuch-program"), 1, "No queue 'nowhere'")
    refused(cli("schedule", "add", "taken", "--every", "1h", "nosuch-program"), 1, "Schedule 'taken' exists already")


def test_a_directory_that_a_need_is_to_make_is_a_warning(cli: Cli) -> None:
    cli.ok("enqueue", "--id", "make", "mkdir made")
    done = cli("enqueue", "--after", "make", "--cwd", "made", "pwd")
    assert done.returncode == 0 and "no directory" in done.stderr
    refused(cli("enqueue", "--strict", "--after", "make", "--cwd", "made", "pwd"), 2, "No directory", "--strict")


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are written for a POSIX shell")
def test_a_chain_runs_in_its_order_and_each_hears_of_the_one_before(cli: Cli) -> None:
    tell = 'echo "$QUEUECTL_AFTER_ID $QUEUECTL_AFTER_STATE <$QUEUECTL_AFTER_EXIT_CODE>"'
    jobs: list[dict[str, Any]] = [
        {"id": "mail", "command": tell, "after_any": ["build"]},
        {"id": "mend", "command": tell, "after_failed": "build"},
        {"id": "test", "command": tell, "depends_on": ["build"]},
        {"id": "build", "command": "exit 3", "max_retries": 0},
        {"id": "never", "command": tell, "after_any": "test"},
    ]
    cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, jobs)))
    cli.ok("worker", "start")
    eventually(
        lambda: all(state(cli, name) in ("completed", "cancelled") for name in ("mail", "mend", "test", "never"))
    )
    found = {name: job(cli, name) for name in ("mail", "mend", "test", "never")}
    assert found["mail"]["output"] == found["mend"]["output"] == "build dead <3>\n"
    assert (found["test"]["state"], found["test"]["error_message"]) == ("cancelled", "job build is dead")
    assert found["never"]["output"] == "test cancelled <>\n"
