"""The dashboard under load: many requests at once while workers run, and every one is answered."""

from __future__ import annotations

import threading
from collections import Counter

from act import act
from conftest import Cli, eventually
from web import Web

AT_ONCE = 200
JOBS = 60
LOOKING = [
    "/",
    "/api/overview",
    "/api/jobs?state=pending",
    "/api/jobs/last",
    "/api/metrics",
    "/api/history",
    "/metrics",
]


def test_two_hundred_requests_at_once_are_all_answered_while_workers_run(cli: Cli, web: Web) -> None:
    cli.ok("enqueue", "--file", "-", input=f"{act('say hello')}\n" * JOBS)
    cli.ok("worker", "start", "--count", "2")
    answered: Counter[int] = Counter()
    failed: list[Exception] = []
    together = threading.Barrier(AT_ONCE)

    def ask(number: int) -> None:
        together.wait(timeout=60)
        try:
            if number % 5:
                answered[web.get(LOOKING[number % len(LOOKING)]).status] += 1
            else:
                answered[web.post("/api/enqueue", {"command": act("say more")}).status] += 1
        except Exception as error:
            failed.append(error)

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(AT_ONCE)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert failed == []
    assert answered == {200: AT_ONCE - AT_ONCE // 5, 201: AT_ONCE // 5}
    eventually(lambda: web.get("/api/stats").json["completed"] == JOBS + AT_ONCE // 5, seconds=120)
    cli.ok("db", "check")
