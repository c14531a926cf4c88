"""The pages of docs/explanation and the troubleshooting name files, tests and times that exist."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from django.core.management import load_command_class

from djqueue.sql import workers
from djqueue.worker import outages
from djqueue.worker.supervisor import child, children, leases, quarantine, reaper, supervisor

from .tables import DOCS, ROOT, check_table

PAGES = [*sorted((DOCS / "explanation").glob("*.md")), DOCS / "troubleshooting.md", DOCS / "glossary.md"]
NO_ID = "00000000-0000-7000-8000-000000000000"
# The rows of failures.md, in its order.
FAILURES = [
    *map(str, range(1, 16)),
    *("15b", "15c", "15d", "15e"),
    *map(str, range(16, 41)),
    *("40b", *map(str, range(41, 46))),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    for path in re.findall(r"`((?:tests|djqueue|benchmarks)/[\w/]+\.py)`", page.read_text()):
        assert (ROOT / path).is_file(), path
    for module in re.findall(r"`python -m (benchmarks\.\w+)`", page.read_text()):
        assert (ROOT / (module.replace(".", "/") + ".py")).is_file(), module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_are_named_exist(page):
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()):
        tree = ast.parse((ROOT / path).read_text())
        assert name.startswith("test_"), name
        assert any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in ast.walk(tree)
        ), f"{path}::{name}"


def test_each_failure_names_its_tests_or_is_listed_as_not_covered():
    text = (DOCS / "explanation" / "failures.md").read_text()
    table, not_covered = text.split("\n## Not yet covered by a test\n")
    rows = re.findall(r"^\| (\*{0,2})(\d+[b-e]?)\1 \|.*\| ([^|]+) \|$", table, re.MULTILINE)
    assert [number for _, number, _ in rows] == FAILURES
    assert [number for bold, number, _ in rows if bold] == sorted(
        re.findall(r"^- \*\*(\w+)\*\*:", not_covered, re.MULTILINE), key=FAILURES.index
    )
    for bold, number, tests in rows:
        assert bold or "`tests/" in tests, number
    for module in re.findall(r"`python -m benchmarks\.(\w+) ", text):
        assert (ROOT / "benchmarks" / f"{module}.py").is_file(), module


def test_each_guarantee_names_the_tests_that_attack_it():
    text = (DOCS / "explanation" / "guarantees.md").read_text()
    promises = [section for section in text.split("\n## ")[1:] if "**Promise.**" in section]
    assert len(promises) == 8
    for section in promises:
        assert re.search(r"\*\*Attacked by\*\* `tests/", section), section.splitlines()[0]


def test_the_timings_of_crashes():
    seconds = {
        "supervisor checks its processes": supervisor.INTERVAL,
        "leases are looked at": leases.INTERVAL,
        "heartbeat": workers.HEARTBEAT_INTERVAL,
        "worker is shown as lost": workers.LOST_AFTER,
        "process is logged as not responding": child.SILENT_AFTER,
        "process must be ready": children.READY_WITHIN,
        "process is killed after an ignored timeout": children.TIMEOUT_GRACE,
        "process is killed at a shutdown": children.EXIT_GRACE,
        "longest pause between starts": children.LONGEST_PAUSE,
        "longest pause between tries": outages.LONGEST_PAUSE,
        "second look at an expired lease": reaper.CHECK_TWICE,
        "quarantine process exits": quarantine.IDLE_AFTER,
    }
    check_table("explanation/crashes.md", "timings", {name: (f"{value:g}",) for name, value in seconds.items()})


# Messages and commands of the troubleshooting


def literals() -> set[str]:
    """Return every literal piece of text in the source: what stands between the placeholders of its strings."""
    found: set[str] = set()
    for path in (ROOT / "djqueue").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.split(r"%[\w.]+|%\(\w+\)\w", node.value))
    return found


def quoted_messages() -> list[str]:
    """Return the messages in the paragraphs of the troubleshooting that begin with **Message:**."""
    text = (DOCS / "troubleshooting.md").read_text()
    paragraphs = [part for part in text.split("\n\n") if part.startswith("**Message:**")]
    return [" ".join(code.split()) for part in paragraphs for code in re.findall(r"`([^`]+)`", part)]


def test_every_quoted_message_is_in_the_source():
    known = literals()
    messages = quoted_messages()
    assert len(messages) > 20
    for message in messages:
        if message.isupper():  # the name of a setting
            continue
        for piece in filter(str.strip, message.split("…")):  # with its spaces: "lease lost " is not "lease lost, …"
            assert any(piece in literal for literal in known), f"{piece!r} of {message!r} is not in the source"


def test_every_message_of_a_table_that_djqueue_logs_is_in_the_source():
    known = literals()
    for message in re.findall(r"^\| `(\w+ \w+ [\w ]+)`", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE):
        assert any(message.startswith(literal) or message in literal for literal in known if len(literal) > 8), message


def commands(page: Path) -> list[str]:
    found = re.findall(r"`manage\.py ((?:djqueue|djqueue_worker|runworker)\b[^`]*)`", page.read_text())
    return [command.replace("ID", NO_ID) for command in found]


@pytest.mark.parametrize("command", sorted({one for page in PAGES for one in commands(page)}))
def test_a_command_that_is_named_can_be_called(command):
    name, *arguments = shlex.split(command)
    parser = load_command_class("djqueue", name).create_parser("manage.py", name)
    if name != "djqueue" or arguments:
        parser.parse_args([argument.replace("MB", "500") for argument in arguments])


def test_every_symptom_of_the_contents_has_a_section():
    text = (DOCS / "troubleshooting.md").read_text()
    contents = re.findall(r"\]\(#([\w-]+)\)", text.split("\n## ")[0])
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    sections = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert sorted(contents) == sorted(set(sections) - {"the-log-says-something-else"})


# Glossary

TERMS = """
ack nack dead-letter task job queue enqueue scheduled pending claim lease attempt done dead cancelled reap
promote sweep requeue schedule supervisor worker-process fork-server drain quiet dedup-key misfire overlap
slot topic header progress claim-token settle snooze release retry wake-up heartbeat quarantine
admission blocked debounce hold limit limit-key permit
"""


def test_the_glossary_is_complete_and_sorted():
    terms = re.findall(r"^\*\*(.+?)\*\*:", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
    words = {word.lower().replace(" ", "-") for term in terms for word in term.split(", ")}
    assert not set(TERMS.split()) - words
