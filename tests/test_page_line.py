"""The line on the page: who is next and who is held back, how long it is, and room for its figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .act import act
from .browser import DESKTOP, Visitor, expect
from .conftest import Cli, eventually
from .processes import counts
from .web import Web


def region(page: Any, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def enqueue(cli: Cli, *jobs: dict[str, object]) -> None:
    cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, jobs)))


def test_who_is_held_back_by_a_paused_queue_is_not_next(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("queue", "add", "mail")
    enqueue(cli, {"id": "letter", "command": "true", "queue": "mail", "priority": 9}, {"id": "film", "command": "true"})
    page = visitor.enter(web, "")
    following = region(page, "Next in line").locator(".job-id")
    expect(following).to_have_text(["letter", "film"])
    cli.ok("queue", "pause", "mail")
    expect(following).to_have_text(["film"])
    expect(region(page, "Next in line")).to_contain_text("1 more in paused queues")
    visitor.go(web, "line")
    expect(region(page, "In line").locator(".job-id")).to_have_text(["film"])
    expect(region(page, "Held back")).to_contain_text("Queue mail: paused.")
    expect(region(page, "Held back").locator(".job-id")).to_have_text(["letter"])
    cli.ok("queue", "resume", "mail")
    expect(region(page, "In line").locator(".job-id")).to_have_text(["letter", "film"])
    expect(region(page, "Held back")).to_have_count(0)


def test_who_waits_for_a_place_in_its_queue_is_marked(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("queue", "add", "gpu", "--limit", "1")
    enqueue(cli, *({"command": act("wait go"), "queue": "gpu"} for _ in range(2)))
    page = visitor.enter(web, "line")
    expect(page.locator(".line .mark")).to_have_count(0)
    cli.ok("worker", "start")
    eventually(lambda: counts(cli)["processing"] == 1)
    expect(page.locator(".line > li")).to_have_count(1)
    expect(page.locator(".line .mark")).to_have_text("queue full")


def test_who_was_put_first_by_hand_is_marked_in_the_overview_too(web: Web, cli: Cli, visitor: Visitor) -> None:
    enqueue(cli, {"id": "film", "command": "true", "priority": 9}, {"id": "letter", "command": "true"})
    cli.ok("promote", "letter")
    page = visitor.enter(web)
    expect(page.locator(".line > li").first).to_contain_text("letter")
    expect(page.locator(".line .mark")).to_have_text("promoted")
    expect(page.locator(".line .mark")).to_be_visible()


def test_a_list_that_shows_a_part_says_so_and_leads_to_the_rest(web: Web, cli: Cli, visitor: Visitor) -> None:
    enqueue(
        cli,
        *({"command": "true"} for _ in range(55)),
        *({"id": f"at{number}", "command": "true", "delay": f"{1 + number}h"} for number in range(23)),
        {"id": "after", "command": "true", "depends_on": "at0"},
    )
    page = visitor.enter(web, "line")
    expect(page.get_by_role("navigation", name="Places").get_by_role("link", name="In line")).to_contain_text("55")
    expect(region(page, "In line")).to_contain_text("The first 50 of 55.")
    expect(region(page, "Waiting for other jobs")).not_to_contain_text("The first")
    later = region(page, "Scheduled, or waiting for the next try")
    expect(later).to_contain_text("The first 20 of 23.")
    later.get_by_role("link", name="The scheduled ones after these").click()
    expect(page.locator("tbody .job-id")).to_have_text(["at20", "at21", "at22", "after"])
    visitor.go(web, "line")
    region(page, "In line").get_by_role("link", name="All pending jobs").click()
    expect(page.locator("tbody tr")).to_have_count(50)


@pytest.mark.parametrize("view", ["", "line"])
def test_the_sum_and_the_command_have_room(web: Web, cli: Cli, visitor: Visitor, view: str) -> None:
    enqueue(cli, *({"id": f"render-frame-{n}", "command": "render --quality high scene.blend"} for n in range(3)))
    aged = web.get("/api/overview").json
    for job in aged["line"]:
        job.update(waiting_time=12_345, effective_priority=job["priority"] + 12_345)
    visitor.page.route("**/api/overview", lambda route: route.fulfill(json=aged))
    page = visitor.enter(web, view)
    sums = page.locator(".line .sum")
    expect(sums.first).to_have_text("5 + 12,345 = 12,350")
    for width in (1100, 1181, 1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": DESKTOP["height"]})
        found = page.evaluate(
            """() => [...document.querySelectorAll(".line > li")].map((row) => {
                const box = (name) => row.querySelector(name).getBoundingClientRect();
                const [sum, command, aging] = [".sum", ".line-command", ".aging"].map(box);
                const meet = (one, other) => one.left < other.right && other.left < one.right
                    && one.top < other.bottom && other.top < one.bottom;
                const text = document.createRange();
                text.selectNodeContents(row.querySelector(".sum"));
                const written = text.getBoundingClientRect();
                return [command.width, meet(written, command), meet(written, aging), written.right <= sum.right + 0.5];
            })"""
        )
        for room, *others in found:
            assert room >= 150 and others == [False, False, True], (width, found)
