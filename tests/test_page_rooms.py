"""Queues, recurring jobs and workers on the page, and what can be done with them."""

from __future__ import annotations

import json
import re

from .act import act
from .browser import Visitor, expect
from .conftest import Cli
from .processes import counts, workers
from .web import Web


def test_a_queue_is_paused_resumed_and_limited(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("queue", "add", "gpu", "--limit", "1")
    cli.ok("enqueue", "--queue", "gpu", "true")
    page = visitor.enter(web, "queues")
    gpu = page.locator(".queues > li", has_text="gpu")
    expect(gpu).to_contain_text("at most 1 at once")
    expect(gpu).to_contain_text("1 pending")
    gpu.get_by_role("button", name="Pause queue gpu").click()
    expect(gpu).to_contain_text("paused")
    gpu.get_by_role("button", name="Resume queue gpu").click()
    expect(gpu.get_by_role("button", name="Pause queue gpu")).to_be_visible()
    gpu.get_by_role("button", name="Limits of queue gpu").click()
    form = page.get_by_role("dialog", name="Limits of queue gpu")
    expect(form.get_by_label("At once")).to_have_value("1")
    form.get_by_label("At once").fill("")
    form.get_by_label("Rate").fill("often")
    form.get_by_role("button", name="Set the limits").click()
    expect(form.get_by_role("alert")).to_contain_text("often")
    form.get_by_label("Rate").fill("10/m")
    form.get_by_role("button", name="Set the limits").click()
    expect(gpu).to_contain_text("at most 10/m started")
    [_, found] = json.loads(cli.ok("queue", "list", "--json"))
    assert (found["limit"], found["rate"], found["paused"]) == (None, "10/m", False)
    gpu.get_by_role("link", name="1 pending").click()
    expect(page).to_have_url(re.compile(r"queue=gpu&state=pending$"))


def test_a_recurring_job_is_paused_resumed_and_run_now(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("schedule", "add", "backup", "--cron", "0 2 * * *", "--tz", "Europe/Berlin", "echo saved")
    page = visitor.enter(web, "recurring")
    backup = page.locator(".schedules > li", has_text="backup")
    expect(backup).to_contain_text("0 2 * * *, Europe/Berlin")
    expect(backup).to_contain_text(re.compile(r"in .* (h|min|s)\b"))
    backup.get_by_text("The next times").click()
    expect(backup.locator("details time").first).to_be_visible()
    backup.get_by_role("button", name="Pause backup").click()
    expect(backup).to_contain_text("paused")
    backup.get_by_role("button", name="Resume backup").click()
    expect(backup.get_by_role("button", name="Pause backup")).to_be_visible()
    backup.get_by_role("button", name="Run backup now").click()
    expect(backup.get_by_role("link", name="1", exact=True)).to_have_attribute("href", "#/job/1")
    page.get_by_role("link", name="backup was enqueued as job").click()
    expect(page.locator(".job-head code")).to_have_text("echo saved")
    assert counts(cli)["pending"] == 1


def test_why_a_recurring_job_did_not_come_is_told(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("schedule", "add", "often", "--every", "90m", "true")
    page = visitor.enter(web, "recurring")
    often = page.locator(".schedules > li", has_text="often")
    expect(often.locator(".queue-head code")).to_have_text("every 1h30m")
    told = web.get("/api/overview").json
    told["schedules"][0].update(last_at="2026-01-01T00:00:00+00:00", note="no worker was up when it came")
    page.route("**/api/overview", lambda route: route.fulfill(json=told))
    expect(often).to_contain_text("no job: no worker was up when it came")


def test_nothing_can_be_copied_where_the_browser_does_not_let_one(web: Web, visitor: Visitor) -> None:
    visitor.page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page = visitor.enter(web)
    expect(page.locator(".typed").first).to_be_visible()
    assert page.locator(".typed button").count() == 0


def test_a_worker_shows_what_it_has_in_hand_and_what_it_uses(web: Web, cli: Cli, visitor: Visitor) -> None:
    cli.ok("worker", "start")
    cli.ok("enqueue", "--id", "inhand", act("wait go"))
    page = visitor.enter(web, "workers")
    [worker] = workers(cli)
    shown = page.locator(".worker", has_text=worker.name)
    expect(shown).to_contain_text("busy")
    expect(shown.get_by_role("link", name="inhand")).to_be_visible()
    expect(shown).to_contain_text(re.compile(r"Memory\d+ MB"))
    expect(shown).to_contain_text(re.compile(r"CPU[\d,]+ %"))
    expect(shown).to_contain_text(re.compile(r"Heartbeat\d+ s ago"))
    expect(page.locator(".track a")).to_have_count(1)
    page.locator(".track a").hover()
    expect(page.locator(".tip")).to_contain_text("inhand: ")
    (cli.cwd / "go").touch()
    expect(shown).to_contain_text("idle")
    expect(page.locator(".track a")).to_have_class("fill-completed")
    cli.ok("worker", "stop")
    expect(page.get_by_text("No worker is running.")).to_be_visible()
