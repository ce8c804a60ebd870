"""The page as one meets it: the first visit, what changes by itself, a server that goes and comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from .act import act
from .browser import Visitor, expect, row, tile
from .conftest import Cli, eventually
from .web import Web

HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_the_first_visit_shows_the_queue_and_takes_the_token_out_of_the_address(
    web: Web, cli: Cli, visitor: Visitor
) -> None:
    cli.ok("enqueue", "--id", "first", "-p", "8", "echo hello")
    page = visitor.enter(web)
    expect(tile(page, "pending")).to_have_text("1")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page).to_have_title(re.compile("^Overview"))
    expect(page.locator(".line li")).to_contain_text(["first"])
    expect(page.get_by_text("No worker is running.")).to_be_visible()
    assert web.token not in page.url


def test_an_empty_queue_says_what_to_type(web: Web, visitor: Visitor) -> None:
    page = visitor.enter(web)
    expect(page.get_by_text('queuectl enqueue "echo hello"')).to_be_visible()
    expect(page.get_by_text("queuectl worker start")).to_be_visible()
    for view, line in (
        ("line", "queuectl enqueue --delay 10m"),
        ("jobs", "queuectl enqueue"),
        ("dead", "--max-retries 0"),
        ("workers", "queuectl worker start"),
        ("queues", "queuectl queue add"),
        ("recurring", "queuectl schedule add"),
    ):
        expect(visitor.go(web, view).locator("main .typed", has_text=line).first).to_be_visible()


def test_an_address_that_leads_nowhere_says_so(web: Web, visitor: Visitor) -> None:
    page = visitor.enter(web, "nonsense")
    expect(page.get_by_text("There is no such place.")).to_be_visible()
    page.locator("main .empty").get_by_role("link", name="Overview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_what_happens_is_seen_without_loading_the_page_again(web: Web, cli: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web)
    page.evaluate("window.isStillThere = true")
    cli.ok("enqueue", "--id", "told", act("wait go", "say done"))
    expect(tile(page, "pending")).to_have_text("1")
    cli.ok("worker", "start")
    expect(tile(page, "processing")).to_have_text("1")
    expect(page.get_by_role("list", name=re.compile("What worker")).get_by_role("link")).to_have_count(1)
    (cli.cwd / "go").touch()
    expect(tile(page, "completed")).to_have_text("1")
    expect(row(page, "told")).to_contain_text("completed")
    assert page.evaluate("window.isStillThere")


def test_it_asks_on_condition_and_nothing_at_all_while_nobody_looks(web: Web, visitor: Visitor) -> None:
    page = visitor.enter(web)
    answers: list[int] = []
    page.on("response", lambda response: answers.append(response.status) if "/api/overview" in response.url else None)
    eventually(lambda: page.wait_for_timeout(100) or 304 in answers)
    page.evaluate(HIDE, True)
    page.wait_for_timeout(500)  # what was under way
    visitor.asked.clear()
    page.wait_for_timeout(2500)
    assert visitor.asked == []
    page.evaluate(HIDE, False)
    eventually(lambda: page.wait_for_timeout(100) or len(visitor.asked) >= 2)


def test_when_the_server_goes_it_says_so_calmly_and_recovers_by_itself(
    start_web: Callable[..., Web], cli: Cli, visitor: Visitor
) -> None:
    web = start_web()
    cli.ok("enqueue", "true")
    page = visitor.enter(web)
    web.end()
    expect(page.locator(".banner")).to_contain_text("The server does not answer.")
    expect(page).to_have_title(re.compile("not connected"))
    expect(tile(page, "pending")).to_have_text("1")
    cli.ok("enqueue", "true")
    start_web("--port", str(web.port))
    expect(page.locator(".banner")).to_have_count(0, timeout=40_000)
    expect(tile(page, "pending")).to_have_text("2")
    expect(page.locator("#notices")).to_contain_text("The server is back.")


def test_an_update_leaves_focus_selection_and_open_menus_as_they_are(web: Web, cli: Cli, visitor: Visitor) -> None:
    for name in ("one", "two", "three"):
        cli.ok("enqueue", "--id", name, "-p", "9", f"echo {name}")
    page = visitor.enter(web, "jobs")
    row(page, "one").get_by_role("checkbox").check()
    row(page, "two").locator("summary").click()
    page.get_by_label("Text in the command").focus()
    page.evaluate("document.querySelectorAll('tbody tr').forEach((row) => (row.mark = row.querySelector('a').text))")
    cli.ok("enqueue", "--id", "four", "-p", "9", "echo four")
    cli.ok("cancel", "three", "--yes")
    expect(row(page, "four")).to_be_visible()
    expect(row(page, "three")).to_contain_text("cancelled")
    expect(page.get_by_label("Text in the command")).to_be_focused()
    expect(row(page, "one").get_by_role("checkbox")).to_be_checked()
    expect(row(page, "two").get_by_role("button", name="Run next")).to_be_visible()
    marks = page.evaluate("[...document.querySelectorAll('tbody tr')].map((row) => row.mark ?? null)")
    assert marks == [None, "three", "two", "one"], "the rows that were there are the same"


def test_aging_can_be_seen_growing(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "patient", "-p", "3", "true")
    page = visitor.enter(web, "line")
    bar = page.locator(".line li", has_text="patient").locator(".aging")
    expect(bar).to_have_attribute("aria-label", "priority 3 + 0 for waiting = 3")
    width = "(bar) => bar.querySelector('.aging-waiting').getBoundingClientRect().width"
    assert bar.evaluate(width) == 0
    for _ in range(4):
        cli.ok("enqueue", "-p", "9", "true")
    expect(bar).to_have_attribute("aria-label", "priority 3 + 4 for waiting = 7")
    eventually(lambda: page.wait_for_timeout(50) or bar.evaluate(width) > 20)
    assert page.locator(".line .job-id").all_text_contents() == ["2", "3", "4", "5", "patient"]
    cli.ok("promote", "patient")
    first = page.locator(".line li").first
    expect(first).to_contain_text("patient")
    expect(first).to_contain_text("promoted")


def test_where_time_earns_the_points_the_bars_grow_by_themselves(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("config", "set", "aging", "1s")
    cli.ok("enqueue", "--id", "patient", "-p", "3", "true")
    page = visitor.enter(web, "line")
    bar = page.locator(".line .aging")
    expect(bar).to_have_attribute("aria-label", re.compile(r"^priority 3 \+ [3-9] for waiting"))
    expect(page.get_by_text("Every 1s of waiting earns a point.")).to_be_visible()


def test_charts_tell_their_figures_to_the_pointer_the_keyboard_and_a_screen_reader(
    web: Web, cli: Cli, visitor: Visitor
) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--id", "good", "true")
    cli.ok("enqueue", "--id", "bad", "--max-retries", "0", "exit 3")
    cli("wait", "good", "bad")
    page = visitor.enter(web)
    ended = page.get_by_role("img", name=re.compile("^Jobs ended a minute"))
    card = page.locator(".card", has=ended)
    expect(card.locator(".legend")).to_contain_text(re.compile("completed 1.*dead 1"))
    expect(card.locator("svg rect.fill-completed").first).to_be_visible()
    ended.focus()
    page.keyboard.press("ArrowLeft")
    expect(card.locator(".legend-time")).to_contain_text("at ")
    ended.hover(position={"x": 30, "y": 60})
    expect(card.locator(".legend")).to_contain_text("completed 0")
    card.get_by_text("Figures").click()
    expect(card.get_by_role("table", name="Jobs ended a minute")).to_be_visible()
    page.get_by_role("link", name="day", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/\?span=day$"))
    expect(page.get_by_text("the last day")).to_be_visible()


def test_where_one_may_only_look_there_are_no_actions(
    start_web: Callable[..., Web], cli: Cli, visitor: Visitor
) -> None:
    web = start_web("--read-only")
    cli.ok("enqueue", "--id", "shown", "true")
    cli.ok("schedule", "add", "hourly", "--every", "1h", "true")
    page = visitor.enter(web)
    for view in ("", "line", "jobs", "job/shown", "dead", "workers", "queues", "recurring"):
        visitor.go(web, view)
        expect(page.locator("main .loading")).to_have_count(0)
        labels = page.locator("main button, .top button").all_text_contents()
        assert [text for text in labels if text not in ("", "Do not wrap", "To the end", "Download")] == [], view
        assert page.locator("main input[type=checkbox], main .menu").count() == 0
    page.keyboard.press("n")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("read-only")).to_be_visible()
    assert json.loads(cli.ok("list", "--json"))[0]["state"] == "pending"
