"""The REST API changes what the command line changes, one job or many, and says so in its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Cli
from web import Web


def shown(cli: Cli, *command: str) -> Any:
    return json.loads(cli.ok(*command, "--json"))


def test_jobs_are_enqueued_one_or_many(cli: Cli, web: Web) -> None:
    answer = web.post("/api/enqueue", {"command": "echo 1", "id": "one", "priority": 9, "env": {"A": "b"}})
    assert (answer.status, answer.json) == (201, {"ids": ["one"], "new": 1, "warnings": []})
    many = web.post("/api/enqueue", [{"command": "echo 2"}, {"command": ["no-such-program"]}])
    assert len(many.json["ids"]) == 2 and "no-such-program" in many.json["warnings"][0]
    assert shown(cli, "show", "one")["priority"] == 9
    assert shown(cli, "status")["jobs"]["pending"] == 3


def test_a_key_that_is_taken_is_told_in_the_words_of_the_command_line(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "one", "--unique", "k", "true")
    told = cli("enqueue", "--unique", "k", "true").stderr.splitlines()[0]
    answer = web.post("/api/enqueue", {"command": "true", "unique": "k"})
    assert (answer.status, answer.json) == (200, {"ids": ["one"], "new": 0, "warnings": [told]})
    answer = web.post("/api/enqueue", [{"command": "true", "unique": "k"}, {"command": "true"}])
    assert (answer.status, answer.json["new"], answer.json["warnings"]) == (201, 1, [told])


def test_of_many_jobs_all_or_none_are_enqueued(cli: Cli, web: Web) -> None:
    answer = web.post("/api/enqueue", [{"command": "echo 1"}, {"command": "echo 2", "priority": 99}])
    assert answer.status == 422 and "priority" in answer.json["error"]
    assert shown(cli, "status")["jobs"]["pending"] == 0


def test_a_job_is_cancelled_retried_promoted_and_deleted(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--id", "one", "echo 1")
    cli.ok("enqueue", "--id", "two", "echo 2")
    assert web.post("/api/promote/two").json["id"] == "two"
    assert [job["id"] for job in web.get("/api/overview").json["line"]] == ["two", "one"]
    cancelled = web.post("/api/cancel/one", {"reason": "no more"}).json
    assert (cancelled["state"], cancelled["error_message"]) == ("cancelled", "no more")
    assert web.post("/api/retry/one").json["state"] == "pending"
    assert web.post("/api/cancel/one").status == 200
    assert web.post("/api/delete/one").json == {"deleted": 1}
    assert web.get("/api/jobs/one").status == 404


def test_many_jobs_are_changed_by_their_ids_or_by_what_they_are_and_one_goes_on_by_cursor(cli: Cli, web: Web) -> None:
    web.post("/api/enqueue", [{"command": f"echo {n}", "id": f"job-{n}"} for n in range(8)])
    assert web.post("/api/bulk/cancel", {"ids": ["job-0", "job-1", "job-0"]}).json["changed"] == 2
    first = web.post("/api/bulk/cancel", {"select": {"match": "echo"}, "limit": 4, "reason": "enough"}).json
    assert (first["changed"], first["more"]) == (4, True)
    rest = web.post("/api/bulk/cancel", {"select": {"match": "echo"}, "cursor": first["cursor"]}).json
    assert (rest["changed"], rest["more"]) == (2, False)
    assert shown(cli, "show", "job-5")["error_message"] == "enough"
    assert web.post("/api/bulk/retry", {"select": {"state": "cancelled"}}).json["changed"] == 8
    assert web.post("/api/bulk/delete", {"select": {"match": "echo"}}).json["changed"] == 8
    assert shown(cli, "list") == []


def test_many_jobs_that_are_retried_by_one_request_wait_again_for_each_other(cli: Cli, web: Web) -> None:
    links = [{"command": "exit 0", "id": f"c{n}", "depends_on": f"c{n - 1}" if n else None} for n in range(700)]
    web.post("/api/enqueue", links)
    web.post("/api/cancel/c0")
    assert web.post("/api/bulk/retry", {"select": {"match": "exit"}}).json["changed"] == 700
    assert [job["id"] for job in shown(cli, "list", "--limit", "1000") if not job["waits_for"]] == ["c0"]


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"select": {}},
        {"ids": ["a"], "select": {"state": "dead"}},
        {"ids": "a"},
        {"ids": [1]},
        {"select": {"state": "asleep"}},
        {"select": {"state": "processing"}},
        {"select": {"label": 7}},
        {"select": {"colour": "red"}},
        {"select": {"state": "dead"}, "limit": 0},
        {"select": {"state": "dead"}, "cursor": "x"},
        {"select": {"state": "dead"}, "cursor": "0:x"},
        {"select": {"older_than": "long"}},
    ],
)
def test_what_is_not_meant_clearly_changes_nothing(cli: Cli, web: Web, sent: dict[str, Any]) -> None:
    cli.ok("enqueue", "echo 1")
    cli.ok("cancel", "last")
    answer = web.post("/api/bulk/delete", sent)
    assert answer.status == 422 and answer.json["error"]
    assert len(shown(cli, "list")) == 1


def test_queues_are_paused_resumed_and_limited(cli: Cli, web: Web) -> None:
    cli.ok("queue", "add", "gpu")
    assert web.post("/api/queues/gpu/pause").json["paused"] is True
    assert web.post("/api/queues/gpu", {"limit": 2, "rate": "10/m"}).json["limit"] == 2
    queues = {queue["name"]: queue for queue in shown(cli, "queue", "list")}
    assert (queues["gpu"]["paused"], queues["gpu"]["limit"], queues["gpu"]["rate"]) == (True, 2, "10/m")
    resumed = web.post("/api/queues/gpu/resume").json
    assert (resumed["paused"], resumed["limit"]) == (False, 2)
    assert web.post("/api/queues/gpu", {"limit": None, "rate": None}).json["rate"] is None
    assert web.post("/api/queues/gpu", {"limit": 0}).status == 422
    assert web.post("/api/queues/gpu", {"rate": "fast"}).status == 422


def test_schedules_are_paused_resumed_and_run(cli: Cli, web: Web) -> None:
    cli.ok("schedule", "add", "hourly", "--every", "1h", "echo 1")
    assert web.post("/api/schedules/hourly/pause").json["paused"] is True
    assert web.post("/api/schedules/hourly/resume").json["next_at"] is not None
    job_id = web.post("/api/schedules/hourly/run").json["id"]
    assert shown(cli, "show", job_id)["command"] == "echo 1"
    assert web.post("/api/schedules/hourly/run").status == 409, "the last one has not ended"
