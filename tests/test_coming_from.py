"""The pages for users of other queues: the code of djqueue in them runs, and their links lead somewhere."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from djqueue.core import registry
from djqueue.models import Job
from tests.tools import rows

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted((DOCS / "coming_from").glob("*.md"))
QUEUES = {"celery", "rq", "django_q2", "procrastinate", "huey", "django_tasks_db"}

pytestmark = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page; the first line of each names the queue that it is for."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(source) for _, source in found]


@pytest.mark.databases("sqlite")
def test_the_code_of_djqueue_runs(database, monkeypatch, page):
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    own = [source for source in blocks(page) if source.startswith("# djqueue\n")]
    assert own
    for source in own:
        exec(compile(source, str(page), "exec"), {"__name__": f"docs_{page.stem}"})
    assert rows(Job).exists()


def test_the_code_of_other_queues_is_python(page):
    for source in blocks(page):
        assert re.match(r"# (djqueue|settings\.py|Celery|RQ|django-q2|procrastinate|huey)\b", source), source
        compile(source, str(page), "exec")


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


def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        target, _, anchor = link.partition("#")
        text = (page.parent / target).resolve().read_text() if target else page.read_text()
        assert not anchor or anchor in {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}, link


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
