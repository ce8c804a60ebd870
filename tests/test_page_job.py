"""A job's page: what it prints while it prints it, in colours and as text, its tries, its why, and its neighbours."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from .act import act
from .browser import Visitor, expect
from .conftest import Cli, eventually
from .web import Web

COLOURS = (
    b"\x1b[31mred\x1b[0m plain \x1b[1;38;5;208morange\x1b[0m \x1b]0;title\x07<b id='evil'>not bold</b>\n10%\r100%\n"
)


def test_output_is_followed_while_it_is_printed(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "talks", act("say one", "wait go", "count 400", "complain trouble", "wait on", "say end"))
    cli.ok("worker", "start")
    page = visitor.enter(web, "job/talks")
    printed = page.get_by_role("tabpanel")
    expect(printed).to_have_text("one")
    expect(page.locator(".job-title")).to_contain_text("processing")
    (cli.cwd / "go").touch()
    expect(printed.locator("div").last).to_have_text("400")
    at_end = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40"
    assert printed.evaluate(at_end), "it follows"
    printed.evaluate("(box) => box.scrollTo(0, 0)")
    expect(page.get_by_role("button", name="To the end")).to_be_enabled()
    (cli.cwd / "on").touch()
    expect(page.locator(".job-title")).to_contain_text("completed")
    expect(printed.locator("div").last).to_have_text("end")
    page.get_by_role("tab", name="stderr").click()
    expect(printed).to_have_text("trouble")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="stdout")).to_be_focused()
    expect(printed.locator("div")).to_have_count(402)


def test_output_that_ends_within_a_letter_is_not_asked_for_without_end(
    web: Web, cli: Cli, visitor: Visitor, tmp_path: Path
) -> None:
    cli.ok("enqueue", "--id", "cut", act("bytes 61c3", "wait go", "bytes a4"))
    cli.ok("worker", "start")
    page = visitor.enter(web, "job/cut")
    printed = page.get_by_role("tabpanel")
    expect(printed).to_have_text("a")
    visitor.asked.clear()
    page.wait_for_timeout(3000)
    seconds = len([url for url in visitor.asked if url.endswith("/api/overview")])  # it asks for that once a second
    outputs = len([url for url in visitor.asked if "/output" in url])
    assert seconds > 0 and outputs <= 3 * seconds + 3, "otherwise it is hundreds"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "cut.txt")
    assert (tmp_path / "cut.txt").read_text(encoding="utf-8") == "a"
    (cli.cwd / "go").touch()
    expect(page.locator(".job-title")).to_contain_text("completed")
    expect(printed).to_have_text("aä")


def test_who_scrolls_away_is_left_there(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "talks", act("count 400", "wait go", "count 400", "wait end"))
    cli.ok("worker", "start")
    page = visitor.enter(web, "job/talks")
    printed = page.get_by_role("tabpanel")
    expect(printed.locator("div")).to_have_count(400)
    printed.evaluate("(box) => box.scrollTo(0, 120)")
    expect(page.get_by_role("button", name="To the end")).to_be_enabled()
    (cli.cwd / "go").touch()
    expect(printed.locator("div")).to_have_count(800)
    assert printed.evaluate("(box) => box.scrollTop") == 120
    page.get_by_role("button", name="To the end").click()
    assert printed.evaluate("(box) => box.scrollTop") > 1000


def test_colours_are_shown_and_everything_else_is_text(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "colours", act(f"bytes {COLOURS.hex()}"))
    cli.ok("worker", "start")
    cli("wait", "colours")
    page = visitor.enter(web, "job/colours")
    lines = page.get_by_role("tabpanel").locator("div")
    expect(lines).to_have_text(["red plain orange <b id='evil'>not bold</b>", "100%"])
    expect(lines.first.locator("span").first).to_have_class(re.compile("ansi-fore-1"))
    expect(lines.first.locator("span").nth(1)).to_have_css("color", "rgb(255, 135, 0)")
    assert page.locator("#evil").count() == 0


def test_a_command_and_a_label_with_html_in_them_are_text(web: Web, cli: Cli, visitor: Visitor) -> None:
    evil = "echo '<img src=x onerror=alert(1)>'"
    cli.ok("enqueue", "--id", "evil", "--label", "<i>label</i>", evil)
    page = visitor.enter(web, "job/evil")
    expect(page.locator(".job-head code")).to_have_text(evil)
    expect(page.locator(".facts")).to_contain_text("<i>label</i>")
    for view in ("", "jobs", "line"):
        expect(visitor.go(web, view).locator("main")).to_contain_text("<i>label</i>" if view else "onerror")
    assert page.locator("main img, main i:not(.swatch)").count() == 0


def test_each_try_can_be_looked_at(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "shaky", "--max-retries", "1", "--backoff-base", "0", act("number tries", "exit 3"))
    cli.ok("worker", "start")
    cli("wait", "shaky")
    page = visitor.enter(web, "job/shaky")
    tries = page.locator(".tries li")
    expect(tries).to_have_count(2)
    expect(tries.nth(0)).to_contain_text(re.compile("failed.*exit code 3.*took"))
    expect(tries.nth(1)).to_contain_text("dead")
    expect(page.get_by_role("tabpanel")).to_have_text("try 2")
    expect(tries.nth(1).get_by_role("button", pressed=True)).to_have_text("Try 2")
    page.get_by_role("button", name="Show the output of try 1").click()
    expect(page.get_by_role("tabpanel")).to_have_text("try 1")
    expect(tries.get_by_role("button", pressed=True)).to_have_text("Try 1")
    expect(page.locator(".facts")).to_contain_text("waits 0 s")
    expect(page.locator(".why")).to_contain_text("It was given up after 2 of 2 tries: exit code 3.")


def test_tries_have_a_number_each_also_after_a_retry_by_hand(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "shaky", "--max-retries", "0", act("exit 3"))
    cli.ok("worker", "start")
    cli("wait", "shaky")
    cli.ok("retry", "shaky")
    cli("wait", "shaky")
    page = visitor.enter(web, "job/shaky")
    expect(page.locator(".tries .link")).to_have_text(["Try 1", "Try 2"])


def test_what_was_printed_to_stderr_alone_is_seen_at_once(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "fails", "--max-retries", "0", act("complain Traceback", "exit 1"))
    cli.ok("enqueue", "--id", "talks", act("say out", "complain error"))
    cli.ok("worker", "start")
    cli("wait", "--all")
    page = visitor.enter(web, "job/fails")
    expect(page.get_by_role("tabpanel")).to_have_text("Traceback")
    expect(page.get_by_role("tab", name="stderr")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="stdout").click()
    expect(page.get_by_text("It printed nothing here.")).to_be_visible()
    visitor.go(web, "job/talks")
    expect(page.get_by_role("tabpanel")).to_have_text("out")


def test_a_job_page_does_not_carry_the_output_twice(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "long", act("count 90000"))
    cli.ok("worker", "start")
    cli("wait", "long")
    sizes: list[int] = []
    visitor.page.on(
        "response", lambda answer: sizes.append(len(answer.body())) if "/jobs/long?" in answer.url else None
    )
    page = visitor.enter(web, "job/long")
    expect(page.get_by_role("tabpanel").locator("div").last).to_have_text("90000")
    page.keyboard.press("/")
    page.keyboard.type("long")
    page.keyboard.press("Enter")
    visitor.asked.clear()
    cli.ok("enqueue", "--id", "other", "true")
    eventually(lambda: page.wait_for_timeout(50) or any("/jobs/long?" in url for url in visitor.asked))
    cli.ok("wait", "other")
    page.wait_for_timeout(50)
    assert sizes and max(sizes) < 10_000
    assert not [url for url in visitor.asked if "/why" in url or "/output" in url], "it has ended, and has not changed"


def test_a_long_command_leaves_room_for_the_rest(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "long", "\n".join(f"echo step {number}" for number in range(120)))
    page = visitor.enter(web, "job/long")
    expect(page.locator(".job-head code")).to_contain_text("step 119")
    assert page.locator(".why").bounding_box()["y"] < 800, "in the window"  # type: ignore[index]


def test_a_job_that_never_ran_is_not_said_to_have_run(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "off", "true")
    cli.ok("cancel", "off")
    page = visitor.enter(web, "job/off")
    expect(page.get_by_role("heading", name="Why it did not run")).to_be_visible()


def test_the_whole_output_can_be_taken_along(web: Web, cli: Cli, visitor: Visitor, tmp_path: Path) -> None:
    cli.ok("enqueue", "--id", "long", act("count 90000"))
    cli.ok("worker", "start")
    cli("wait", "long")
    page = visitor.enter(web, "job/long")
    expect(page.get_by_text("The beginning is left out here; it is in the download.")).to_be_visible()
    assert page.get_by_role("tabpanel").locator("div").count() == 5000
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "job-long-run-1.stdout.txt"
    download.value.save_as(tmp_path / "long.txt")
    assert (tmp_path / "long.txt").read_text() == "".join(f"{number}\n" for number in range(1, 90001))


def test_what_it_waits_for_and_what_waits_for_it_are_a_step_away(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "first", "true")
    cli.ok("enqueue", "--id", "middle", "--after", "first", "true")
    cli.ok("enqueue", "--id", "third", "--after-any", "middle", "true")
    page = visitor.enter(web, "job/middle")
    expect(page.locator(".why")).to_contain_text("It waits for job first to be completed, which is pending.")
    needs = page.get_by_role("region", name="Waits for", exact=True)
    expect(needs).to_contain_text(re.compile("pending.*first"))
    dependents = page.get_by_role("region", name="What waits for it")
    expect(dependents).to_contain_text("however it ends")
    dependents.get_by_role("link", name="third").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Job third")
    page.go_back()
    needs.get_by_role("link", name="first").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Job first")
    visitor.go(web, "line")
    expect(page.get_by_role("region", name="Waiting for other jobs")).to_contain_text("waits for 1 job")


def test_a_list_of_arguments_is_shown_as_one_would_type_it(web: Web, cli: Cli, visitor: Visitor) -> None:
    command = [sys.executable, "-c", "print('it is')"]
    cli.ok("enqueue", "--id", "listed", "--", *command)
    page = visitor.enter(web, "job/listed")
    typed = page.locator(".job-head code").text_content() or ""
    assert typed.startswith(f"{sys.executable} -c '")
    assert json.loads(cli.ok("show", "listed", "--json"))["command"] == command
    cli.ok("enqueue", "--id", "again", typed)
    cli.ok("worker", "start")
    cli("wait", "again")
    visitor.go(web, "job/again")
    eventually(lambda: page.wait_for_timeout(50) or page.get_by_role("tabpanel").text_content() == "it is")
