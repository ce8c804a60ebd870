"""The page's files keep to the rules that make it safe and easy to read, without a browser to look at them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import ROOT

STATIC = ROOT / "queuectl" / "web" / "static"
MODULES = sorted(STATIC.glob("*.js"))
TEMPLATE = ROOT / "queuectl" / "web" / "templates" / "index.html"
UNSAFE = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\(['\"]style"
)


def imports(path: Path) -> set[Path]:
    return {STATIC / name for name in re.findall(r'from "\./([^"]+)"', path.read_text(encoding="utf-8"))}


def test_every_module_is_reached_from_the_page() -> None:
    found, waiting = set(), [STATIC / "app.js"]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imports(path))
    assert found == set(MODULES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_says_what_it_is_for_and_makes_no_markup_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"// [A-Z].+\.\n", text), "its first line is a sentence"
    assert max(map(len, text.splitlines())) <= 120
    assert re.findall(UNSAFE, text) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == [], "nothing comes from the network"


def test_nothing_in_the_page_itself_is_inline() -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on\w+=", text) == []


def test_every_colour_is_named_once_for_light_and_for_dark() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in STATIC.glob("*.css"))
    named = set(re.findall(r"^\s+(--[\w-]+):", text, re.MULTILINE))
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    assert named == used
