"""Jobs on the page: found by filters and by search, handed in, and changed one at a time or many at once."""

from __future__ import annotations

import json
import re

import pytest

from .act import act
from .browser import Visitor, expect, row, tile
from .conftest import Cli
from .processes import counts, job, state
from .web import Web


def ids(page: object) -> list[str]:
    found: list[str] = page.locator("tbody .job-id").all_text_contents()  # type: ignore[attr-defined]
    return found


def enqueue(cli: Cli, *jobs: dict[str, object]) -> None:
    cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, jobs)))


# --- finding ---


def test_filters_stand_in_the_address_and_the_way_back_leads_through_them(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("queue", "add", "mail")
    enqueue(
        cli,
        {"id": "film", "command": "convert film", "label": "films"},
        {"id": "letter", "command": "send letter", "queue": "mail"},
        {"id": "photo", "command": "convert photo", "label": "photos"},
    )
    cli.ok("cancel", "photo")
    page = visitor.enter(web, "jobs")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name=re.compile("^pending")).click()
    expect(page.locator("tbody .job-id")).to_have_text(["film", "letter"])
    expect(page).to_have_url(re.compile(r"#/jobs\?state=pending$"))
    page.get_by_label("Text in the command").fill("CONVERT")
    expect(page.locator("tbody .job-id")).to_have_text(["film"])
    expect(page).to_have_url(re.compile(r"state=pending&match=CONVERT$"))
    expect(page.get_by_label("Text in the command")).to_be_focused()
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.goto(f"{web.origin}/#/jobs?label=films")
    expect(page.locator("tbody .job-id")).to_have_text(["film"])
    expect(page.get_by_label("Label")).to_have_value("films")
    page.get_by_label("Label").fill("nothing like it")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.get_by_role("link", name="Show all jobs").click()
    page.get_by_label("Queue").select_option("mail")
    expect(page.locator("tbody .job-id")).to_have_text(["letter"])
    page.get_by_role("link", name="mail").click()
    expect(page).to_have_url(re.compile(r"#/jobs\?queue=mail$"))


def test_the_search_goes_to_the_job_of_that_id_or_to_those_with_the_text(web: Web, cli: Cli, visitor: Visitor) -> None:
    enqueue(cli, {"id": "film", "command": "convert one"}, {"id": "photo", "command": "convert two"})
    page = visitor.enter(web)
    page.keyboard.press("/")
    page.keyboard.type("film")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Job film")
    page.keyboard.press("/")
    page.keyboard.press("Control+a")
    page.keyboard.type("convert")
    page.keyboard.press("Enter")
    expect(page.locator("tbody .job-id")).to_have_text(["photo", "film"])
    visitor.go(web, "job/nobody")
    expect(page.get_by_role("alert")).to_contain_text("nobody")


def test_a_long_list_is_shown_a_page_at_a_time(web: Web, cli: Cli, visitor: Visitor) -> None:
    enqueue(cli, *({"id": f"n{number:03}", "command": "true"} for number in range(230)))
    page = visitor.enter(web, "jobs")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Show 50 more").click()
    expect(page.locator("tbody tr")).to_have_count(100)
    for shown in (150, 200):
        page.get_by_role("button", name="Show 50 more").click()
        expect(page.locator("tbody tr")).to_have_count(shown)
    page.get_by_role("link", name="Next 50").click()
    expect(page.locator("tbody tr")).to_have_count(30)
    assert ids(page)[0] == "n029"
    page.get_by_role("link", name="Back to the first").click()
    expect(page.locator("tbody tr")).to_have_count(50)
    assert ids(page)[0] == "n229"


def test_a_filter_that_there_is_not_is_passed_over(web: Web, cli: Cli, visitor: Visitor) -> None:
    enqueue(cli, {"id": "film", "command": "true"}, {"id": "photo", "command": "true", "label": "photos"})
    page = visitor.enter(web, "jobs?lable=photos&label=photos")
    expect(page.locator("tbody .job-id")).to_have_text(["photo"])
    page.get_by_label("Label").fill("")
    expect(page).to_have_url(re.compile("#/jobs$"))
    expect(page.locator("tbody .job-id")).to_have_text(["photo", "film"])


def test_the_states_are_counted_where_the_filters_allow_it(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("queue", "add", "mail")
    enqueue(cli, {"command": "true"}, {"command": "true", "label": "x"}, {"command": "true", "queue": "mail"})
    page = visitor.enter(web, "jobs")
    pending = page.get_by_role("link", name=re.compile("^pending"))
    expect(pending).to_have_text("pending3")
    visitor.go(web, "jobs?queue=mail")
    expect(pending).to_have_text("pending1")
    visitor.go(web, "jobs?label=x")
    expect(pending).to_have_text("pending")


# --- handing in ---


def test_a_job_is_handed_in_by_the_form(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "before", "true")
    page = visitor.enter(web)
    page.keyboard.press("n")
    form = page.get_by_role("dialog", name="New job")
    expect(form.get_by_label("Command")).to_be_focused()
    page.keyboard.type("echo <b>handed in</b>")
    form.get_by_label("Priority").fill("9")
    expect(form.locator("output")).to_have_text("9")
    form.get_by_label("Label").fill("films")
    form.get_by_label("When").select_option("delay")
    form.get_by_label("Delay").fill("10m")
    form.get_by_text("More").click()
    form.get_by_label("Retries").fill("0")
    form.get_by_label("Time limit").fill("60")
    form.get_by_label("After", exact=True).fill("before")
    form.get_by_label("Id", exact=True).fill("mine")
    form.get_by_role("button", name="Enqueue").click()
    page.get_by_role("link", name="Job mine is handed in.").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Job mine")
    expect(page.locator(".job-head code")).to_have_text("echo <b>handed in</b>")
    added = job(cli, "mine")
    asked = {"priority": 9, "label": "films", "max_retries": 0, "timeout": 60, "command": "echo <b>handed in</b>"}
    assert {key: added[key] for key in asked} == asked
    assert added["run_at"] is not None
    assert [need["id"] for need in added["needs"]] == ["before"]


def test_what_is_wrong_is_said_in_the_form_and_nothing_is_lost(web: Web, cli: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web)
    page.get_by_role("banner").get_by_role("link", name="Overview").focus()
    page.locator(".top").get_by_role("button", name="New job").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Command").fill("true")
    form.get_by_label("When").select_option("delay")
    form.get_by_label("Delay").fill("soon")
    form.get_by_role("button", name="Enqueue").click()
    expect(form.get_by_role("alert")).to_contain_text("soon")
    expect(form.get_by_label("Command")).to_have_value("true")
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)
    assert sum(counts(cli).get(name, 0) for name in ("pending", "processing")) == 0


def test_what_is_not_filled_in_is_as_the_settings_say(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("config", "set", "priority", "8")
    cli.ok("config", "set", "max_retries", "7")
    page = visitor.enter(web)
    page.keyboard.press("n")
    form = page.get_by_role("dialog")
    expect(form.locator("output")).to_have_text("8")
    expect(form.get_by_label("Priority")).to_have_value("8")
    form.get_by_text("More").click()
    expect(form.get_by_label("Retries")).to_have_attribute("placeholder", "7")
    form.get_by_label("Command").fill("true")
    cli.ok("config", "set", "priority", "3")
    form.get_by_role("button", name="Enqueue").click()
    page.get_by_role("link", name="Job 1 is handed in.").click()
    assert job(cli, "1")["priority"] == 3


def test_a_job_under_a_key_that_is_taken_is_not_told_as_handed_in(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "first", "--unique", "nightly", "true")
    page = visitor.enter(web)
    page.keyboard.press("n")
    form = page.get_by_role("dialog")
    form.get_by_label("Command").fill("true")
    form.get_by_text("More").click()
    form.get_by_label("Unique key").fill("nightly")
    form.get_by_role("button", name="Enqueue").click()
    expect(page.locator(".notice")).to_have_count(1)
    page.get_by_role("link", name="Job first waits or runs under this key already: no other was added.").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Job first")


def test_a_click_beside_the_form_loses_nothing_that_was_typed(web: Web, visitor: Visitor) -> None:
    page = visitor.enter(web)
    page.keyboard.press("n")
    page.keyboard.type("a long command")
    page.mouse.click(5, 5)
    expect(page.get_by_role("dialog").get_by_label("Command")).to_have_value("a long command")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.mouse.click(5, 5)
    expect(page.get_by_role("dialog")).to_have_count(0)


# --- one at a time ---


def test_cancelling_asks_first_and_can_be_left(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "running", act("wait go"))
    cli.ok("worker", "start")
    page = visitor.enter(web, "jobs")
    expect(row(page, "running")).to_contain_text("processing")
    row(page, "running").locator("summary").click()
    row(page, "running").get_by_role("button", name="Cancel").click()
    question = page.get_by_role("dialog", name="Cancel job running?")
    expect(question.get_by_role("button", name="Keep as it is")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    assert state(cli, "running") == "processing"
    row(page, "running").locator("summary").click()
    row(page, "running").get_by_role("button", name="Cancel").click()
    question.get_by_role("button", name="Cancel this job").click()
    expect(row(page, "running")).to_contain_text("cancelled")
    assert state(cli, "running") == "cancelled"


def test_a_job_is_retried_put_first_and_deleted_from_its_page(web: Web, cli: Cli, visitor: Visitor) -> None:
    enqueue(cli, {"id": "other", "command": "true", "priority": 10}, {"id": "this", "command": "true", "priority": 1})
    cli.ok("cancel", "this")
    page = visitor.enter(web, "job/this")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".job-title")).to_contain_text("pending")
    page.get_by_role("button", name="Run next").click()
    expect(page.locator(".why")).to_contain_text("It was promoted")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete this job").click()
    expect(page).to_have_url(re.compile("#/jobs$"))
    expect(page.locator("tbody .job-id")).to_have_text(["other"])
    assert cli("show", "this").returncode != 0


def test_what_was_refused_is_said_in_the_servers_words(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "gone", "true")
    page = visitor.enter(web, "job/gone")
    page.route("**/api/overview", lambda route: route.fulfill(status=304))  # it does not hear of what follows
    expect(page.get_by_role("button", name="Run next")).to_be_visible()
    cli.ok("cancel", "gone")
    page.get_by_role("button", name="Run next").click()
    expect(page.locator(".notice.is-error")).to_contain_text("gone")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".notice")).to_have_count(0)


# --- many at once ---


@pytest.fixture
def dead(cli: Cli) -> None:
    """Three that died of exit code 3, and two of exit code 4."""
    commands = ["exit 3", "exit 4", "exit 3", "exit 4", "exit 3"]
    enqueue(cli, *({"id": f"d{number}", "command": line, "max_retries": 0} for number, line in enumerate(commands)))
    cli.ok("worker", "start")
    cli("wait", "--all")
    cli.ok("worker", "stop")


@pytest.mark.usefixtures("dead")
def test_a_group_of_dead_jobs_is_retried_one_then_all_of_it_then_all(web: Web, cli: Cli, visitor: Visitor) -> None:
    page = visitor.enter(web, "dead")
    groups = page.locator(".groups > li")
    expect(groups).to_have_count(2)
    expect(groups.first).to_contain_text(re.compile("3.*exit code 3"))
    groups.first.get_by_role("button", name="Retry job d0").click()
    expect(groups.first).to_contain_text(re.compile("2.*exit code"))
    page.get_by_role("button", name="Retry 2 jobs: exit code 3").click()
    question = page.get_by_role("dialog", name="Retry 2 jobs?")
    expect(question).to_contain_text("exit code 3")
    question.get_by_role("button", name="Retry 2 jobs").click()
    expect(groups).to_have_count(1)
    assert (counts(cli)["pending"], counts(cli)["dead"]) == (3, 2)
    expect(page.locator("#notices")).to_contain_text("2 jobs are in line again.")
    page.get_by_role("button", name="Delete all").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 2 jobs").click()
    expect(page.get_by_text("No job is dead.")).to_be_visible()
    assert (counts(cli)["pending"], counts(cli)["dead"]) == (3, 0)


@pytest.mark.usefixtures("dead")
def test_those_that_are_chosen_are_changed_and_no_others(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("enqueue", "--id", "waiting", "true")
    page = visitor.enter(web, "jobs")
    bar = page.get_by_role("region", name="What is chosen")
    for name in ("d0", "d1", "waiting"):
        row(page, name).get_by_role("checkbox").check()
    expect(bar).to_contain_text("3 chosen")
    expect(page.get_by_label("Choose all jobs shown")).to_have_js_property("indeterminate", True)
    bar.get_by_role("button", name="Retry").click()
    page.get_by_role("dialog", name="Retry 2 jobs?").get_by_role("button", name="Retry 2 jobs").click()
    expect(row(page, "d0")).to_contain_text("pending")
    expect(bar).to_have_count(0)
    assert (counts(cli)["pending"], counts(cli)["dead"]) == (3, 3)


def test_all_that_match_are_changed_in_pieces_with_a_bar(web: Web, cli: Cli, visitor: Visitor) -> None:
    enqueue(cli, *({"command": "true", "label": "many"} for _ in range(1200)), {"id": "other", "command": "true"})
    page = visitor.enter(web, "jobs")
    page.get_by_label("Choose all jobs shown").check()
    bar = page.get_by_role("region", name="What is chosen")
    expect(bar).to_contain_text("50 chosen")
    expect(bar.get_by_role("button", name="Choose all that match")).to_have_count(0)  # there is nothing to match
    visitor.go(web, "jobs?label=many")
    page.get_by_label("Choose all jobs shown").check()
    expect(bar).to_contain_text("50 chosen")
    bar.get_by_role("button", name="Choose all that match").click()
    pieces: list[int] = []
    page.on("response", lambda response: pieces.append(response.status) if "/api/bulk/" in response.url else None)
    bar.get_by_role("button", name="Cancel").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("labelled many")
    question.get_by_role("button", name="Cancel more than 1,000 jobs").click()
    expect(page.locator("#notices")).to_contain_text("1,200 jobs are cancelled.")
    assert len(pieces) >= 3, "in pieces, so that a bar can grow"
    assert (counts(cli)["cancelled"], counts(cli)["pending"]) == (1200, 1)
    visitor.go(web, "")
    expect(tile(page, "cancelled")).to_have_text("1,200")
