"""Whatever is handed in, there is a result or one of our errors: never a traceback, and no exit code but 0, 1, 2, 124.

`QUEUECTL_TEST_EXAMPLES=5000 python test.py tests/test_fuzz.py` tries more of it, each time by other chance.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from chance import budget
from conftest import Cli
from hypothesis import example, given
from hypothesis import strategies as st

import queuectl.cli
from queuectl import config
from queuectl.database import checked, is_postgres, masked, sqlite_path
from queuectl.errors import QueueError
from queuectl.fields import CHECKS
from queuectl.home import Home
from queuectl.ranking import parse_aging
from queuectl.recurrence import parse_rule
from queuectl.selection import Selection, find
from queuectl.storage import open_storage
from queuectl.times import LATEST, LONGEST_SECONDS, parse_duration, parse_time
from queuectl.workers_file import Entry, workers_file

EXIT_CODES = (0, 1, 2, 124)
NOW = 1_790_000_000_000

# What a command line can hold: bytes that need not be UTF-8, and no NUL.
words = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=12).map(lambda data: data.replace(b"\0", b"").decode("utf-8", "surrogateescape")),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("é" * 300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
# What nearly is one.
numbers = st.integers(-3, 12).map(str) | st.sampled_from(
    ["1e3", "0x10", "1_0", "٣", "9" * 400, "nan", "inf", "-0", " 5 "]
)
durations = st.from_regex(r"\A[0-9]{0,4}[dhms. ]?[0-9]{0,3}[dhms]?\Z") | numbers | words
times = st.from_regex(r"\A[0-9]{1,5}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9:.]{0,12}([+-][0-9:]{0,8}|Z)?)?\Z") | words
cron_parts = st.from_regex(r"\A[0-9*,/#LW-]{1,6}\Z") | st.sampled_from(["*", "*/5", "MON", "2-1", "31", "?"])
crons = st.lists(cron_parts, min_size=4, max_size=6).map(" ".join) | words
rates = st.from_regex(r"\A[0-9]{0,8} ?/ ?[a-z]{0,6}\Z") | words
agings = st.from_regex(r"\A[0-9]{0,10} ?(enqueues?|[dhms])?\Z") | st.sampled_from(["off", "OFF "]) | words
job_ids = st.sampled_from(["last", "1", "2", "taken"]) | st.from_regex(r"\A[A-Za-z0-9._-]{1,8}\Z") | words
settings_names = st.sampled_from(list(config.SETTINGS)) | words.filter(lambda word: "database" not in word.lower())


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Done]]:
    """queuectl in this process, with a home of its own: what `main` does, but for leaving."""
    gc.enable()  # the command line has switched it off, because it leaves at once; here it would keep all files open
    root = tmp_path_factory.mktemp("fuzz")
    before = os.getcwd()
    os.chdir(root)

    def run(*arguments: str, stdin: bytes = b"", **env: str) -> Done:
        out, err = (
            io.TextIOWrapper(io.BytesIO(), "utf-8", "replace"),
            io.TextIOWrapper(io.BytesIO(), "utf-8", "replace"),
        )
        given = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))  # type: ignore[arg-type]
        with (
            mock.patch.dict(os.environ, {"QUEUECTL_HOME": str(root / "home"), **env}),
            mock.patch.object(sys, "stdin", given),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                code = queuectl.cli.call(list(arguments))
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 1
            except QueueError as error:  # and no other
                code = queuectl.cli.report(error)
            out.flush(), err.flush()
        found = Done(code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())  # type: ignore[attr-defined]
        assert code in EXIT_CODES
        assert "unforeseen" not in found.err and "Traceback" not in found.err
        assert code == 0 or found.err.strip()
        return found

    run("enqueue", "--id", "taken", "true")
    run("enqueue", "--label", "nightly", "--delay", "1h", "echo hi")
    yield run
    os.chdir(before)


# --- handing in ---


jobs = st.dictionaries(st.sampled_from([*CHECKS, "comand", ""]), values, max_size=5).map(
    lambda fields: {"command": "true", **fields}
)
texts = st.one_of(
    jobs.map(json.dumps),
    jobs.map(lambda job: json.dumps(job).replace('"', "")),  # as PowerShell 5 hands it on
    jobs.map(lambda job: f"'{json.dumps(job, ensure_ascii=False)}'"),
    values.map(json.dumps),
    words.map(lambda word: "{" + word),
    words.map(lambda word: "[" + word),
    words,
)


@budget(150)
@given(text=texts)
@example(text="{" * 3_000)
@example(text='{"command": ' + "[" * 3_000)
@example(text='{"command": "true", "priority": ' + "9" * 5000 + "}")
@example(text='{"command": "\\ud800"}')
def test_whatever_is_handed_in_is_a_job_or_an_error(call: Callable[..., Done], text: str) -> None:
    done = call("enqueue", text)
    assert (done.code == 0) == bool(done.out.strip()) or text.startswith("-")


OPTIONS: dict[str, st.SearchStrategy[str]] = {
    "--priority": numbers,
    "--max-retries": numbers,
    "--timeout": numbers,
    "--backoff-base": numbers,
    "--jitter": numbers,
    "--no-retry-on": numbers,
    "--delay": durations,
    "--run-at": times,
    "--cwd": words,
    "--shell": words | st.sampled_from(["bash", "none", "NONE"]),
    "--env": words.map(lambda word: f"A={word}") | words,
    "--queue": job_ids,
    "--label": words,
    "--after": job_ids,
    "--after-any": job_ids,
    "--unique": words,
    "--id": job_ids,
    "--command": words,
}
options = st.lists(
    st.sampled_from(list(OPTIONS)).flatmap(lambda name: st.tuples(st.just(name), OPTIONS[name])), max_size=3
).map(lambda given: [word for option in given for word in option])


@budget(150)
@given(given=options, command=st.lists(words, max_size=3))
def test_whatever_the_options_say_is_a_job_or_an_error(
    call: Callable[..., Done], given: list[str], command: list[str]
) -> None:
    done = call("enqueue", *given, "--", *command)
    assert (done.code == 0) == bool(done.out.strip())


@budget(80)
@given(
    lines=st.lists(texts.map(os.fsencode) | st.binary(max_size=40), max_size=4),
    mark=st.sampled_from([b"", b"\xff\xfe"]),
)
def test_whatever_a_file_holds_is_stored_whole_or_not_at_all(
    call: Callable[..., Done], lines: list[bytes], mark: bytes
) -> None:
    call("enqueue", "--file", "-", stdin=mark + b"\n".join(lines))


# --- words on their own ---


@budget(300)
@given(text=times)
def test_a_time_is_one_that_can_be_stored_and_shown(text: str) -> None:
    with suppress(QueueError):
        assert 0 <= parse_time(text) <= LATEST


@budget(300)
@given(text=durations)
def test_a_duration_is_finite(text: str) -> None:
    with suppress(QueueError):
        assert 0 <= parse_duration(text) <= LONGEST_SECONDS


@budget(300)
@given(text=agings)
def test_an_aging_rule_earns_something_or_nothing_and_never_divides_by_zero(text: str) -> None:
    with suppress(QueueError):
        aging = parse_aging(text)
        assert aging.point > 0 and aging.waiting_time(5, 5000) >= 0


@budget(300)
@given(text=rates)
def test_a_rate_has_an_interval(text: str) -> None:
    with suppress(QueueError):
        rate = config.parse_rate(text)
        assert rate is None or rate.interval_millis >= 1


@budget(150)
@given(
    cron=st.none() | crons,
    every=st.none() | durations,
    tz=st.none() | words | st.sampled_from(["UTC", "Europe/Berlin", "posix"]),
)
def test_a_rule_comes_to_pass_after_now(cron: str | None, every: str | None, tz: str | None) -> None:
    with suppress(QueueError):
        rule = parse_rule(cron, every, tz, NOW)
        following = rule.next_after(NOW, NOW)
        assert NOW < following < rule.next_after(following, NOW)


@budget(400)
@given(
    name=st.sampled_from(list(config.SETTINGS)),
    text=st.one_of(numbers, durations, rates, agings, words, st.sampled_from([*config.SHELLS, "", "forever", "JSON"])),
)
def test_a_setting_that_is_accepted_can_be_read_again(name: str, text: str) -> None:
    with suppress(QueueError):
        stored = config.check(name, text)
        assert config.check(name, stored) == stored
        assert str(getattr(config.settings_from({name: stored}), name)) == stored


secrets = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8).map(
    "S3CRET".__add__
)
urls = st.one_of(
    words,
    secrets.map(lambda secret: f"postgresql://me:{secret}@host/db"),
    secrets.map(lambda secret: f"postgres://host/db?password={secret}&user=me"),
    secrets.map(lambda secret: f"postgresql://me:a@{secret}@host:5/db?x=%00"),
    secrets.map(lambda secret: f"mysql://me:{secret}@host/db"),
    words.map("sqlite:///".__add__),
)


@budget(400)
@given(url=urls)
def test_no_database_url_shows_its_password(url: str) -> None:
    try:
        found = checked(url)
        assert is_postgres(found) or sqlite_path(found)
        if is_postgres(found):
            assert "S3CRET" not in masked(found)
    except QueueError as error:
        assert "S3CRET" not in str(error)


@budget(60)
@given(
    url=words.filter(lambda word: "sqlite:///" not in word and "postgres" not in word)
    | st.just("postgresql://127.0.0.1:1/db")
)
def test_a_database_that_cannot_be_is_one_line(call: Callable[..., Done], url: str) -> None:
    done = call("list", QUEUECTL_DB=url)
    assert (done.code == 0) == (url == "")  # which is as if it were not set


# --- looking, choosing, changing ---


@budget(150)
@given(
    command=st.sampled_from(["show", "logs", "why", "cancel", "retry", "delete", "promote"]),
    job_id=job_ids,
    more=st.sampled_from([[], ["--json"], ["--yes"], ["--try", "2"], ["--tail", "0"]]),
)
def test_whatever_job_is_named_is_found_or_not(
    call: Callable[..., Done], command: str, job_id: str, more: list[str]
) -> None:
    call(command, *more, "--", job_id)


@budget(40)
@given(job_id=job_ids, seconds=st.sampled_from(["0", "0.01", "-1", "nan", "inf", "1e99", "x"]))
def test_waiting_ends_in_time(call: Callable[..., Done], job_id: str, seconds: str) -> None:
    if seconds not in ("inf", "1e99"):
        call("wait", "--timeout", seconds, "--", job_id)


SELECTORS: dict[str, st.SearchStrategy[str]] = {
    "--state": st.sampled_from(["dead", "PENDING", "gone"]),
    "--label": words,
    "--match": words,
    "--older-than": durations,
    "--queue": job_ids,
    "--limit": numbers,
}
selectors = st.lists(
    st.sampled_from(list(SELECTORS)).flatmap(lambda name: st.tuples(st.just(name), SELECTORS[name])), max_size=3
).map(lambda given: [word for option in given for word in option])


@budget(150)
@given(command=st.sampled_from(["list", "cancel", "delete", "retry", "purge"]), given=selectors)
def test_whatever_is_selected_is_found_or_refused(call: Callable[..., Done], command: str, given: list[str]) -> None:
    call(command, *given, *([] if command == "list" else ["--dry-run"]))


@budget(100)
@given(name=settings_names, value=words | durations | rates | agings | numbers)
def test_whatever_is_set_the_queue_can_be_used(call: Callable[..., Done], name: str, value: str) -> None:
    call("config", "set", "--", name, value)
    call("config", "get", "--", name)
    assert call("config", "list").code == 0
    assert call("enqueue", "true").code == 0
    call("config", "unset", "--", name)


@budget(80)
@given(name=job_ids, cron=crons, every=durations, tz=words | st.just("UTC"), is_cron=st.booleans())
def test_whatever_recurs_can_be_shown(
    call: Callable[..., Done], name: str, cron: str, every: str, tz: str, is_cron: bool
) -> None:
    rule = ["--cron", cron, "--tz", tz] if is_cron else ["--every", every]
    if call("schedule", "add", *rule, "--", name, "true").code == 0:
        assert call("schedule", "list").code == call("schedule", "show", "--", name).code == 0
        assert call("schedule", "remove", "--", name).code == 0


@budget(80)
@given(name=job_ids, limit=numbers, rate=rates)
def test_whatever_a_queue_is_called_it_can_be_made_or_not(
    call: Callable[..., Done], name: str, limit: str, rate: str
) -> None:
    if call("queue", "add", "--limit", limit, "--rate", rate, "--", name).code == 0:
        assert call("enqueue", "--queue", name, "true").code == 0
        assert call("queue", "list").code == 0
        call("queue", "remove", "--", name)


@budget(100)
@given(
    cursor=words | st.from_regex(r"\A-?[0-9]{1,25}:-?[0-9]{1,25}:-?[0-9]{1,25}\Z") | st.just("9:٣:1"),
    wanted=st.sampled_from([Selection(), Selection(label="nightly"), Selection(match="e"), Selection(queue="gpu")]),
)
def test_a_cursor_leads_somewhere_or_is_refused(call: Callable[..., Done], cursor: str, wanted: Selection) -> None:
    storage = open_storage(Home("home"))
    with suppress(QueueError):
        assert find(storage, wanted, 2, cursor).jobs is not None
    storage.close()


# --- files ---


entries = st.fixed_dictionaries(
    {
        "name": st.just("w-1") | values,
        "pid": st.integers() | values,
        "start_time": st.just("1") | values,
        "boot_id": words | values,
        "pid_space": words | values,
    }
)
contents = st.one_of(
    st.binary(max_size=40),
    values.map(lambda value: json.dumps(value).encode()),
    st.lists(entries | values, max_size=3).map(lambda workers: json.dumps({"workers": workers}).encode()),
)


@budget(60)
@given(content=contents)
@example(content=b'{"workers": ' + b"[" * 3_000)
@example(content=b"\xff\xfe")
@example(content=json.dumps({"workers": [["w", 10**400, "1", "b", "p"]]}).encode())
@example(content=json.dumps({"workers": [dict(zip(Entry._fields, ("w", 10**400, "1", "b", "p")))]}).encode())
def test_whatever_workers_json_holds_it_is_read_or_set_aside(
    call: Callable[..., Done], tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    root = tmp_path_factory.mktemp("home")
    home = Home(str(root))
    Path(home.workers_json).write_bytes(content)
    here = {"boot_id": queuectl.platforms.boot_id(), "pid_space": queuectl.platforms.pid_space()}
    with workers_file(home, lambda aside: []) as found:
        assert not any(entry._replace(**here).is_alive for entry in found)
    assert call("worker", "list", QUEUECTL_HOME=str(root)).code == 0
    assert call("status", QUEUECTL_HOME=str(root)).code == 0


@budget(50)
@given(content=contents | urls.map(lambda url: json.dumps({"database": url}).encode()))
@example(content=b"[" * 3_000)
def test_whatever_config_json_holds_is_a_database_or_one_line(
    call: Callable[..., Done], tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    root = tmp_path_factory.mktemp("home")
    if b"sqlite" not in content and b"postgres" not in content:
        (root / "config.json").write_bytes(content)
        done = call("list", QUEUECTL_HOME=str(root))
        assert "S3CRET" not in done.err


# --- and so it is for real processes ---


@budget(6)
@given(text=texts, given=options)
def test_so_it_is_for_a_process(tmp_path_factory: pytest.TempPathFactory, text: str, given: list[str]) -> None:
    root = tmp_path_factory.mktemp("process")
    (root / "work").mkdir()
    cli = Cli(root / "home", root / "work")
    for arguments in (["enqueue", text], ["enqueue", *given, "--", "true"]):
        done = cli(*arguments)
        assert done.returncode in EXIT_CODES
        assert "Traceback" not in done.stderr and "unforeseen" not in done.stderr


def test_nothing_unforeseen_passes_for_an_error_of_ours(call: Callable[..., Done]) -> None:
    broken: Any = mock.patch("queuectl.queue.Queue.enqueue_all", side_effect=ZeroDivisionError)
    with broken, pytest.raises(ZeroDivisionError):
        call("enqueue", "true")
