"""How the page looks and is reached: dark and light, on a phone, by keyboard, with a screen reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from .act import act
from .browser import DESKTOP, PHONE, Visitor, expect, overflow, row, screenshot
from .conftest import Cli
from .web import Web

VIEWS = ["", "line", "jobs", "jobs?state=dead", "dead", "job/shaky", "job/running", "workers", "queues", "recurring"]


@pytest.fixture
def busy(cli: Cli) -> Cli:
    """A queue with something of everything in it."""
    cli.ok("queue", "add", "gpu", "--limit", "1")
    cli.ok("schedule", "add", "backup", "--cron", "0 2 * * *", "--tz", "Europe/Berlin", "true")
    jobs = [
        {"id": "good", "command": act("bytes 1b5b33326d677265656e1b5b306d0a"), "label": "films"},
        {"id": "shaky", "command": act("complain oops", "exit 3"), "max_retries": 0, "label": "a-label-of-some-length"},
        {"id": "w" * 60, "command": "echo " + "long" * 200, "max_retries": 0},
        {"id": "running", "command": act("say one", "wait go"), "priority": 1},
    ]
    cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, jobs)))
    cli.ok("worker", "start")
    cli("wait", "good", "shaky", "w" * 60)
    waiting: list[dict[str, Any]] = [
        {"id": "next", "command": "true", "priority": 2, "label": "films"},
        {"id": "gpu-job", "command": "true", "queue": "gpu"},
        {"id": "later", "command": "true", "delay": "2h"},
        {"id": "after", "command": "true", "depends_on": "running"},
        {"id": "left", "command": "true"},
    ]
    for one in waiting:
        cli.ok("enqueue", json.dumps(one))
    cli.ok("cancel", "left")
    return cli


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reader(chromium: Any, scheme: str) -> Iterator[Visitor]:
    """Somebody whose system is dark or light, and who wants no motion."""
    found = Visitor(chromium, color_scheme=scheme, reduced_motion="reduce")
    yield found
    found.leave()


def complaints(page: Any) -> list[str]:
    """What axe-core finds on the page as it is now, one line each."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in violations for node in one["nodes"]]


def shown(page: Any) -> None:
    """Wait until nothing is being loaded any more."""
    expect(page.locator("main .loading")).to_have_count(0)


# --- accessibility ---


def test_axe_finds_nothing_to_complain_of_on_any_view(web: Web, busy: Cli, reader: Visitor, scheme: str) -> None:
    page = reader.enter(web)
    for view in VIEWS:
        reader.go(web, view)
        shown(page)
        screenshot(page, f"{re.sub('[^a-z]+', '-', view) or 'overview'}-{scheme}")
        assert complaints(page) == [], view


def test_axe_finds_nothing_to_complain_of_in_dialogs_menus_and_banners(
    web: Web, busy: Cli, reader: Visitor, scheme: str
) -> None:
    page = reader.enter(web)
    page.keyboard.press("n")
    page.get_by_text("More", exact=True).click()
    screenshot(page, f"new-job-{scheme}")
    assert complaints(page) == [], "new job"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert complaints(page) == [], "help"
    page.keyboard.press("Escape")
    reader.go(web, "jobs")
    page.get_by_label("Choose all jobs shown").check()
    row(page, "shaky").locator("summary").click()
    assert complaints(page) == [], "menu and selection"
    page.get_by_role("region", name="What is chosen").get_by_role("button", name="Delete").click()
    assert complaints(page) == [], "question"
    page.keyboard.press("Escape")
    web.end()
    expect(page.locator(".banner")).to_be_visible()
    screenshot(page, f"gone-{scheme}")
    assert complaints(page) == [], "banner"


def test_an_empty_queue_is_as_accessible(web: Web, reader: Visitor) -> None:
    page = reader.enter(web)
    for view in VIEWS:
        if not view.startswith("job/"):
            reader.go(web, view)
            shown(page)
            assert complaints(page) == [], view


def test_the_entrance_is_as_dark_and_as_accessible(web: Web, reader: Visitor, scheme: str) -> None:
    page = reader.page
    page.goto(web.origin)
    expect(page.get_by_role("heading", name="queuectl")).to_be_visible()
    assert (ground(page) < 50) == (scheme == "dark")
    assert "Times" not in page.evaluate("getComputedStyle(document.body).fontFamily")
    screenshot(page, f"entrance-{scheme}")
    assert complaints(page) == []


def test_the_tiles_leave_no_hole(web: Web, busy: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web)
    for width in (1100, 1280, 1920):
        page.set_viewport_size({"width": width, "height": DESKTOP["height"]})
        boxes = [one.bounding_box() for one in page.locator(".tile").all()]
        ends = {box["y"]: box["x"] + box["width"] for box in boxes}  # of the last one of each row
        assert len(boxes) == 7 and len({round(end) for end in ends.values()}) == 1, width
        [ended, load] = page.locator(".charts > .card").evaluate_all("cards => cards.map((one) => one.offsetHeight)")
        assert width < 1181 or ended == load
        [left, right] = [one.bounding_box() for one in page.locator(".charts > .card").all()]
        assert (left["x"] == right["x"]) == (width < 1181), "one below the other where it is narrow"


# --- dark and light ---


def ground(page: Any) -> int:
    """How light the page is, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return int(re.findall(r"\d+", colour)[0])


def test_it_is_dark_or_light_as_the_system_is_or_as_was_chosen(web: Web, visitor: Visitor) -> None:
    page = visitor.enter(web)
    assert ground(page) > 200
    page.emulate_media(color_scheme="dark")
    assert ground(page) < 50
    theme = page.get_by_role("button", name="Theme")
    expect(theme).to_have_text("Theme: system")
    theme.click()
    expect(theme).to_have_text("Theme: light")
    assert ground(page) > 200
    page.reload()
    expect(theme).to_have_text("Theme: light")
    assert ground(page) > 200
    theme.click()
    assert ground(page) < 50


# --- on a phone ---


def test_nothing_is_wider_than_a_phone(web: Web, busy: Cli, chromium: Any) -> None:
    visitor = Visitor(chromium, viewport=PHONE, has_touch=True)
    page = visitor.enter(web)
    for view in VIEWS:
        visitor.go(web, view)
        shown(page)
        screenshot(page, f"{re.sub('[^a-z]+', '-', view) or 'overview'}-phone")
        assert overflow(page) == 0, view
    places = page.get_by_role("navigation", name="Places")
    expect(places).to_be_hidden()
    page.get_by_role("button", name="Menu").tap()
    assert overflow(page) == 0
    places.get_by_role("link", name="Workers").tap()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    expect(places).to_be_hidden()
    page.get_by_role("button", name="New job").tap()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert overflow(page) == 0
    assert complaints(page) == []
    visitor.leave()


def test_a_finger_can_press_what_there_is_to_press(web: Web, busy: Cli, chromium: Any) -> None:
    visitor = Visitor(chromium, viewport=PHONE, has_touch=True, is_mobile=True)
    page = visitor.enter(web)
    for view in VIEWS:
        visitor.go(web, view)
        shown(page)
        small = page.evaluate(
            """() => [...document.querySelectorAll("main :is(a, button, summary.icon-button, input[type=checkbox])")]
                .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 24)
                .map((one) => one.outerHTML)"""
        )
        assert small == [], view
        assert page.locator("kbd").locator("visible=true").count() == 0, view
    visitor.leave()


def test_nothing_is_wider_than_any_other_window(web: Web, busy: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web)
    for view in VIEWS:
        visitor.go(web, view)
        shown(page)
        for width in (320, 500, 761, 1081, 1181, 1920):
            page.set_viewport_size({"width": width, "height": DESKTOP["height"]})
            assert overflow(page) == 0, (view, width)


# --- by keyboard ---


def test_everything_can_be_done_with_the_keyboard(web: Web, busy: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web, "jobs")
    page.reload()
    expect(page.locator("tbody tr").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="left", exact=True)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="after", exact=True)).to_be_focused()
    page.keyboard.press("x")
    expect(row(page, "after").get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="left", exact=True)).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    expect(row(page, "left").get_by_role("button", name="Retry")).to_be_visible()
    page.keyboard.press("Escape")
    expect(row(page, "left").get_by_role("button", name="Retry")).to_be_hidden()
    expect(row(page, "left").locator("summary")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("search by id or text")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(row(page, "left").locator("summary")).to_be_focused()
    row(page, "shaky").locator(".job-id").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Job shaky")


def test_the_timeline_is_walked_through_with_the_arrow_keys(web: Web, busy: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web, "workers")
    bars = page.locator(".track a")
    expect(bars).to_have_count(4)
    expect(page.locator(".track a[tabindex='0']")).to_have_count(1)
    bars.last.focus()
    expect(bars.last).to_have_accessible_name(re.compile("^running: .* running for"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(bars.nth(1)).to_be_focused()
    expect(bars.nth(1)).to_have_accessible_name(re.compile("^shaky: .* dead, took"))
    expect(page.locator(".tip")).to_contain_text("shaky")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Job shaky")


def test_what_has_the_focus_can_be_seen(web: Web, busy: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web)
    seen = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
    for _ in range(25):
        page.keyboard.press("Tab")
        assert page.evaluate(seen), page.evaluate("document.activeElement.outerHTML")
