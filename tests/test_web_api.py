"""The REST API: it says what the command line says, and does what that does."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from act import act
from conftest import Cli, eventually
from web import Web


def shown(cli: Cli, *command: str) -> Any:
    return json.loads(cli.ok(*command, "--json"))


def fresh(value: Any) -> Any:
    """Without what changes from one look to the next."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if not key.startswith(("expected", "heartbeat", "memory"))}
        return {key: fresh(one) for key, one in kept.items()}
    return [fresh(one) for one in value] if isinstance(value, list) else value


def begin_run(cli: Cli, *steps: str) -> None:
    """A worker runs a job with these steps."""
    cli.ok("enqueue", "--id", "job", act(*steps))
    cli.ok("worker", "start")
    eventually(lambda: shown(cli, "show", "job")["state"] == "processing")


# --- looking ---


def test_jobs_have_the_shapes_of_the_command_line(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "one", "--label", "red", "echo one")
    cli.ok("enqueue", "--id", "two", "--priority", "9", "--", "echo", "a b")
    found = web.get("/api/jobs").json
    assert fresh(found["jobs"]) == fresh(shown(cli, "list")) and found["cursor"] is None
    one = web.get("/api/jobs/one").json
    assert one.pop("worker_is_here") is False
    assert fresh(one) == fresh(shown(cli, "show", "one"))
    assert web.get("/api/jobs/last").json["id"] == "two"
    assert web.get("/api/stats").json == shown(cli, "status")["jobs"]


def test_jobs_are_found_by_state_queue_label_and_text_a_page_at_a_time(cli: Cli, web: Web) -> None:
    cli.ok("queue", "add", "gpu")
    cli.ok("enqueue", "--id", "red", "--label", "red", "echo one")
    cli.ok("enqueue", "--id", "gpu", "--queue", "gpu", "echo two")
    cli.ok("enqueue", "--id", "off", "echo THREE")
    cli.ok("cancel", "off")
    for wanted, ids in {
        "state=cancelled": ["off"],
        "label=red": ["red"],
        "queue=gpu": ["gpu"],
        "match=three": ["off"],
        "match=nothing": [],
        "": ["off", "gpu", "red"],
    }.items():
        assert [job["id"] for job in web.get(f"/api/jobs?{wanted}").json["jobs"]] == ids, wanted
    first = web.get("/api/jobs?limit=2").json
    rest = web.get(f"/api/jobs?limit=2&cursor={first['cursor']}").json
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ["off", "gpu", "red"]


def test_the_overview_says_what_there_is(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "waits", "echo 1")
    cli.ok("enqueue", "--id", "later", "--delay", "1h", "echo 2")
    cli.ok("enqueue", "--id", "after", "--after", "later", "echo 3")
    cli.ok("enqueue", "--id", "off", "echo 4")
    cli.ok("cancel", "off")
    cli.ok("schedule", "add", "hourly", "--every", "1h", "echo 5")
    found = web.get("/api/overview").json
    ids = {part: [job["id"] for job in found[part]] for part in ("line", "later", "blocked", "recent", "running")}
    assert ids == {"line": ["waits"], "later": ["later"], "blocked": ["after"], "recent": ["off"], "running": []}
    assert found["stats"] == shown(cli, "status")["jobs"]
    assert found["queues"] == web.get("/api/queues").json == shown(cli, "queue", "list")
    [schedule] = web.get("/api/schedules").json
    assert found["schedules"] == [schedule] and len(schedule.pop("next_times")) == 3
    assert schedule.pop("last_job") is None and [schedule] == shown(cli, "schedule", "list")
    assert found["events"] == web.get("/api/metrics").json["events"] == shown(cli, "metrics")["events"]
    assert (found["aging"], found["points_a_second"], found["database"]) == ("1 enqueue", None, "sqlite")
    cli.ok("config", "set", "aging", "10s")
    assert web.get("/api/overview").json["points_a_second"] == 0.1
    assert web.get("/api/settings").json == shown(cli, "config", "list")


def test_who_is_held_back_by_a_paused_queue_is_not_among_those_in_line(cli: Cli, web: Web) -> None:
    cli.ok("queue", "add", "mail")
    cli.ok("enqueue", "--id", "letter", "--queue", "mail", "echo 1")
    cli.ok("enqueue", "--id", "later", "--queue", "mail", "--delay", "1h", "echo 2")
    cli.ok("enqueue", "--id", "film", "echo 3")
    cli.ok("queue", "pause", "mail")
    found = web.get("/api/overview").json
    ids = {part: [job["id"] for job in found[part]] for part in ("line", "held", "later")}
    assert ids == {"line": ["film"], "held": ["letter"], "later": ["later"]}
    assert found["waiting"] == {"line": 1, "held": 1, "later": 1, "blocked": 0}
    cli.ok("queue", "resume", "mail")
    assert web.get("/api/overview").json["waiting"] == {"line": 2, "held": 0, "later": 1, "blocked": 0}


def test_who_waits_is_counted_to_a_thousand(cli: Cli, web: Web) -> None:
    jobs = [*({"command": "true"} for _ in range(1_100)), *({"command": "true", "delay": "1h"} for _ in range(1_100))]
    cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, jobs)))
    found = web.get("/api/overview").json
    assert found["waiting"] == {"line": 1_000, "held": 0, "later": 1_000, "blocked": 0}
    assert (len(found["line"]), len(found["later"])) == (50, 20)
    rest = web.get(f"/api/jobs?state=pending&limit=1&cursor={found['cursors']['later']}").json["jobs"]
    assert rest[0]["id"] not in [job["id"] for job in found["later"]] and rest[0]["run_at"] is not None


@pytest.mark.skipif(os.name == "nt", reason="600 runs take minutes under Wine, and the code is the same")
def test_who_ran_one_thing_for_long_is_not_shown_as_idle_after_many_short_runs(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "long", act("wait go"))
    cli.ok("worker", "start")
    eventually(lambda: shown(cli, "show", "long")["state"] == "processing")
    begun = time.monotonic()
    eventually(lambda: time.monotonic() - begun > 2)  # a 500th of the 15 minutes is less
    (cli.cwd / "go").touch()
    cli.ok("wait", "long")
    before = web.get("/api/timeline").json
    assert before["complete_from"] == before["from"]
    cli.ok("enqueue", "--file", "-", input="true\n" * 600)
    cli.ok("wait", "--all")
    found = web.get("/api/timeline").json
    runs = [run for worker in found["workers"] for run in worker["runs"]]
    assert len(runs) == 501 and [run["job"] for run in runs].count("long") == 1
    assert found["from"] < found["complete_from"] < found["to"]


def test_the_newest_that_ended_come_first_however_they_ended(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "first", "echo 1")
    cli.ok("enqueue", "--id", "dies", "--max-retries", "0", act("exit 3"))
    cli.ok("enqueue", "--id", "comes-back", "--backoff-base", "1000", act("exit 3"))
    cli.ok("worker", "start")
    eventually(lambda: shown(cli, "status")["jobs"]["failed"] == 1)
    recent = web.get("/api/overview").json["recent"]
    assert [(job["id"], job["state"]) for job in recent] == [("dies", "dead"), ("first", "completed")]


def test_workers_tell_their_memory_and_what_their_jobs_use(cli: Cli, web: Web) -> None:
    begin_run(cli, "chatter")
    eventually(lambda: any(one["cpu_percent"] for one in web.get("/api/workers").json))
    [worker] = web.get("/api/overview").json["workers"]
    assert worker["state"] == "busy" and worker["job"] == "job" and worker["memory_bytes"] > 0


def test_the_page_is_told_when_nothing_has_changed(cli: Cli, web: Web) -> None:
    def unchanged(mark: str) -> bool:
        return web.get("/api/overview", **{"If-None-Match": mark}).status == 304

    def settled() -> bool:
        return unchanged(web.get("/api/overview").headers["ETag"])

    eventually(settled)
    for command in (["enqueue", "--id", "one", "echo 1"], ["cancel", "one"], ["config", "set", "timeout", "5"]):
        mark = web.get("/api/overview").headers["ETag"]
        cli.ok(*command)
        assert not unchanged(mark), command
    mark = web.get("/api/overview").headers["ETag"]
    assert web.post("/api/enqueue", {"command": "echo 2"}).status == 201
    assert not unchanged(mark), "by another thread of the server itself"


def test_every_thread_of_the_server_gives_the_same_mark(web: Web) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(16) as pool:

        def marks() -> set[str]:
            return {answer.headers["ETag"] for answer in pool.map(lambda _: web.get("/api/overview"), range(64))}

        eventually(lambda: len(marks()) == 1)


def test_output_is_shown_while_it_is_printed_and_after(cli: Cli, web: Web) -> None:
    begin_run(cli, "say one ä", "complain oh", "wait go", "say two")

    def output(query: str = "") -> Any:
        return web.get(f"/api/jobs/job/output?{query}").json

    eventually(lambda: output()["text"] == "one ä\n")
    first = output()
    assert (first["running"], first["offset"], first["size"], first["lease"]) == (True, 7, 7, 1)
    eventually(lambda: output("stream=stderr")["text"] == "oh\n")
    assert output("offset=7")["text"] == ""
    (cli.cwd / "go").touch()
    eventually(lambda: not output()["running"])
    assert output("offset=7")["text"] == "two\n" and output()["text"] == "one ä\ntwo\n"
    assert output("offset=-4")["text"] == "two\n" and output("lease=1")["cut"] is False
    assert web.get("/api/jobs/job/output?lease=2").status == 404
    cli.ok("retry", "job")  # its next try is the first again, and another run
    eventually(lambda: output()["lease"] == 2 and not output()["running"])
    assert [output(f"lease={lease}")["lease"] for lease in (1, 2)] == [1, 2]


def test_a_job_that_has_not_run_has_printed_nothing(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "later", "--delay", "1h", "true")
    found = web.get("/api/jobs/later/output")
    assert (found.status, found.json["text"], found.json["size"], found.json["lease"]) == (200, "", 0, 0)


def test_output_comes_in_parts_of_whole_letters(cli: Cli, web: Web) -> None:
    cli.ok("config", "set", "max-output", "1000000")
    (cli.cwd / "long").write_text("ä" * 150_000, encoding="utf-8")
    cli.ok("run", act("show long"))
    text, offset = "", 0
    while True:
        part = web.get(f"/api/jobs/last/output?offset={offset}").json
        text += part["text"]
        if part["offset"] == part["size"]:
            break
        assert part["offset"] > offset and part["offset"] - offset <= 256_000
        offset = part["offset"]
    assert text == "ä" * 150_000
    assert web.get("/api/jobs/last/output?offset=-3").json["text"] == "ä"


def test_the_whole_of_a_long_output_can_be_read_while_its_file_is_there(cli: Cli, web: Web) -> None:
    cli.ok("config", "set", "max-output", "5")
    cli.ok("run", act("say begin", "say end"))
    assert web.get("/api/jobs/last/output").json["text"] == "begin\nend\n"
    [kept] = (cli.home / "logs").glob("job-*.stdout")
    kept.unlink()
    cut = web.get("/api/jobs/last/output").json
    assert cut["cut"] and cut["text"].startswith("[5 bytes cut;") and cut["text"].endswith("\nend\n")


def test_why_is_answered_in_the_sentences_of_the_command_line(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "one", "echo 1")
    assert web.get("/api/jobs/one/why").json["sentences"] == cli.ok("why", "one").splitlines()[1:]


def test_the_dead_are_grouped_by_how_they_failed(cli: Cli, web: Web) -> None:
    for code in ("3", "3", "4"):
        cli.ok("enqueue", "--max-retries", "0", act(f"exit {code}"))
    cli.ok("worker", "start")
    eventually(lambda: shown(cli, "status")["jobs"]["dead"] == 3)
    found = web.get("/api/dead/groups").json
    assert [(group["reason"], group["count"]) for group in found["groups"]] == [("exit code 3", 2), ("exit code 4", 1)]
    assert (found["groups"][0]["examples"], found["looked_at"], found["more"]) == (["2", "1"], 3, False)
    changed = web.post("/api/bulk/retry", {"select": {"state": "dead", "reason": "exit code 4"}}).json
    assert changed == {"changed": 1, "more": False, "cursor": None}
    eventually(lambda: shown(cli, "show", "3")["state"] == "dead")
    assert shown(cli, "metrics")["events"]["started"] == 4


def test_the_timeline_tells_what_each_worker_ran_and_runs(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "done", "echo 1")
    begin_run(cli, "wait go")
    [worker] = web.get("/api/timeline").json["workers"]
    assert [(run["job"], run["outcome"]) for run in worker["runs"]] == [("done", "completed"), ("job", "processing")]
    assert worker["runs"][0]["finished_at"] and worker["runs"][1]["finished_at"] is None


def test_a_parameter_that_there_is_not_is_refused(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "one", "true")
    for path in ("/api/jobs?lable=x", "/api/jobs/one?x=1", "/api/stats?state=dead", "/api/overview?"):
        answer = web.get(path)
        assert (answer.status, "Unknown parameter" in answer.text) == ((400, True) if "=" in path else (200, False)), (
            path
        )
    assert web.post("/api/cancel/one?reason=x").status == 400
    assert web.get("/api/jobs/one").json["state"] == "pending"


def test_a_job_can_be_asked_for_without_its_output(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "job", act("say out", "complain error"))
    cli.ok("worker", "start")
    eventually(lambda: web.get("/api/jobs/job").json["state"] == "completed")
    whole = web.get("/api/jobs/last").json
    assert (whole.pop("output"), whole.pop("stderr")) == ("out\n", "error\n")
    assert web.get("/api/jobs/last?output=0").json == whole
    assert web.get("/api/jobs/nobody?output=0").status == 404 and web.get("/api/jobs/job?output=no").status == 400


# --- errors ---


def test_errors_have_the_line_of_the_command_line_and_the_status_that_fits(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "one", "echo 1")
    for status, path, sent, command in [
        (404, "/api/cancel/nobody", None, ["cancel", "nobody"]),
        (409, "/api/retry/one", None, ["retry", "one"]),
        (409, "/api/enqueue", {"id": "one", "command": "echo 1"}, ["enqueue", "--id", "one", "echo 1"]),
        (422, "/api/enqueue", {"command": " "}, ["enqueue", " "]),
        (422, "/api/enqueue", {"command": "x", "priority": 99}, ["enqueue", "-p", "99", "x"]),
        (404, "/api/queues/none/pause", None, ["queue", "pause", "none"]),
        (404, "/api/schedules/none/pause", None, ["schedule", "pause", "none"]),
    ]:
        answer = web.post(path, sent)
        assert (answer.status, f"Error: {answer.json['error']}\n") == (status, cli(*command).stderr), path
    assert web.get("/api/jobs/nobody").status == 404
    assert web.get("/api/jobs?limit=201").status == web.get("/api/jobs?cursor=x").status == 400
    assert web.get("/api/nothing").status == 404


def test_every_thread_of_the_server_follows_a_queue_that_moves(cli: Cli, web: Web, tmp_path: Path) -> None:
    cli.ok("enqueue", "--id", "one", "echo 1")
    assert [web.get("/api/jobs/one").status for _ in range(20)] == [200] * 20
    mark = web.get("/api/overview").headers["ETag"]
    cli.ok("db", "move", "--to", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    assert web.post("/api/cancel/one").status == 200
    states = {web.get("/api/jobs/one").json["state"] for _ in range(20)}
    assert states == {"cancelled"}
    assert web.get("/api/overview", **{"If-None-Match": mark}).status == 200


def test_a_queue_that_has_moved_can_be_looked_at_and_not_changed(
    cli: Cli, start_web: Callable[..., Web], tmp_path: Path
) -> None:
    cli.env["QUEUECTL_DB"] = f"sqlite:///{cli.home / 'queuectl.db'}"
    cli.ok("enqueue", "--id", "one", "echo 1")
    web = start_web()
    cli.ok("db", "move", "--to", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    answer = web.post("/api/cancel/one")
    assert answer.status == 409 and "moved" in answer.json["error"]
    assert web.get("/api/jobs/one").status == 200


def test_an_unforeseen_error_is_told_without_a_traceback(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "echo 1")
    assert web.get("/api/stats").status == 200
    import sqlite3

    with sqlite3.connect(cli.home / "queuectl.db") as database:
        database.execute("ALTER TABLE totals RENAME COLUMN pending TO gone")
    database.close()
    answer = web.get("/api/stats")
    assert answer.status == 503 and "no such column" in answer.json["error"] and "Traceback" not in answer.text


# --- the charts ---


def test_a_worker_writes_down_how_the_queue_stands(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--delay", "1h", "echo 1")
    cli.ok("worker", "start")
    eventually(lambda: web.get("/api/history").json["points"][-1]["waiting"] == 1)
    cli.ok("run", "echo 2")
    points = web.get("/api/history?span=hour").json["points"]
    assert sum(point["completed"] for point in points) == 1 and len(points) == 60
    assert len(web.get("/api/history?span=day").json["points"]) == 96


def test_it_serves_on_postgres_too(cli: Cli, postgres: str, start_web: Callable[..., Web]) -> None:
    cli.env["QUEUECTL_DB"] = postgres
    web = start_web()
    mark = web.get("/api/overview").headers["ETag"]
    cli.ok("enqueue", "--id", "one", "echo 1")
    found = web.get("/api/overview", **{"If-None-Match": mark})
    assert [job["id"] for job in found.json["line"]] == ["one"] and found.json["database"] == "postgresql"
    assert postgres not in web.get("/api/settings").text or "@" not in postgres
    assert web.post("/api/cancel/one").json["state"] == "cancelled"
    assert web.get("/api/jobs/a%00b").status == 404
