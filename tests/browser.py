"""A real browser, Debian's Chromium driven by Playwright, and somebody who looks at a dashboard with it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT
from web import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCREENSHOTS = ROOT / "tests" / "screenshots"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 20_000
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
# What the policy of the page refuses is told to nobody but the page itself.
NOTE_VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for each file of tests: while it is open, nobody else in this process can use asyncio."""
    if sys.platform == "win32":
        pytest.skip("the page is tested in Debian's Chromium, which there is not on Windows")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium to test the page in. Try: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    playwright.expect.set_options(timeout=PATIENCE_MS)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Visitor:
    """Somebody who looks at the page, and notices what the browser complains of."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": DESKTOP, **options})
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(NOTE_VIOLATIONS)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.hear(message.type, message.text))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def hear(self, kind: str, text: str) -> None:
        # That an answer was a 404, or none came, is said of every request; the page has an answer to it.
        if kind == "error" and not text.startswith("Failed to load resource"):
            self.complaints.append(text)

    def enter(self, web: Web, view: str = "") -> Page:
        """With the address that was printed, and on to a view."""
        self.page.goto(web.url)
        return self.go(web, view)

    def go(self, web: Web, view: str) -> Page:
        """To a view, without loading the page anew."""
        self.page.goto(f"{web.origin}/#/{view}")
        self.page.wait_for_selector(f"main .view[data-place='{view.split('?')[0]}']")
        return self.page

    def leave(self) -> None:
        violations = self.page.evaluate("window.violations ?? []")
        self.context.close()
        assert (self.complaints, violations) == ([], [])


@pytest.fixture
def visitor(chromium: Browser) -> Iterator[Visitor]:
    found = Visitor(chromium)
    yield found
    found.leave()


def screenshot(page: Page, name: str) -> Path:
    """For people to look at; the folder is kept out of the repository."""
    SCREENSHOTS.mkdir(exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path)
    return path


def overflow(page: Page) -> int:
    """By how much the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def expect(what: Any) -> Any:
    """Playwright's own, which waits until it is so; loaded only where there is a browser."""
    from playwright.sync_api import expect

    return expect(what)


def tile(page: Page, state: str) -> Any:
    """The count of a state, as the overview shows it."""
    return page.locator(f".tile-{state} .tile-count")


def row(page: Page, job_id: str) -> Any:
    """A job's row in a table."""
    return page.locator("tr", has=page.get_by_role("link", name=job_id, exact=True))
