"""The pages for users of other queues: the tables show code that is valid, and no page lacks a section."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import ROOT

PAGES = sorted((ROOT / "docs" / "coming_from").glob("*.md"))
QUEUES = {"celery", "rq", "django_q2", "procrastinate", "huey", "django_tasks_db"}

pytestmark = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def test_the_calls_in_the_right_column_are_python(page):
    for row in re.findall(r"^\|.*\|(.+)\|$", page.read_text(), re.MULTILINE):
        for code in re.findall(r"`([^`]+)`", row):
            if "djqueue." in code or ".enqueue" in code or "handle." in code:
                ast.parse(f"{code}\ndef f(): ..." if code.startswith("@") else called(code))


def called(code: str) -> str:
    """Return options such as `max_attempts=3, retry=...` as a call."""
    return f"f({code})" if re.match(r"\w+=", code) else code.removeprefix(".")


def test_a_page_says_what_differs_and_how_to_run_both(page):
    text = page.read_text()
    if page.stem == "index":
        assert {f"({name}.md)" for name in QUEUES} <= set(re.findall(r"\(\w+\.md\)", text))
        assert "## How to run both during a move" in text
    else:
        assert page.stem in QUEUES
        assert "\n## What is different\n" in text
        assert "\n## During the move\n" in text
