"""Every code block of the documentation is tried. The conventions are in the docstring of `tests.docs`."""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
from django.db import connections, transaction

from tests.docs import python_page
from tests.docs.formats import PARSERS
from tests.docs.pages import BLOCKS, PAGES, ROOT, TUTORIAL, Block, blocks
from tests.docs.shell import check

SHELL = ("console", "bash")
PYTHON = ("python", "pycon")
MOST_NOT_RUN = 5
GIVEN = ("order", "user", "request")
PYTHON_PAGES = [page for page in PAGES if page != TUTORIAL and any(map(python_page.is_tried, blocks(page)))]


def among(*languages: str) -> pytest.MarkDecorator:
    """Parametrize a test by the blocks of these languages."""
    found = [block for block in BLOCKS if block.language in languages and block.page != TUTORIAL and block.is_run]
    return pytest.mark.parametrize("block", found, ids=str)


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessPoolExecutor]:
    """Processes forked from one in which the project of the documentation is ready; each runs one page."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.docs.ready"])
    with ProcessPoolExecutor(max_workers=1, mp_context=context, max_tasks_per_child=1) as executor:
        yield executor


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_has_a_language_that_can_be_tried(block):
    assert block.language, "indent nothing; use ``` with a language, which is `text` for output"
    assert block.language in {*PARSERS, *SHELL, *PYTHON, "sql"}


def test_few_blocks_are_not_run():
    assert len([block for block in BLOCKS if not block.is_run]) <= MOST_NOT_RUN


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_runs(processes, page):
    failures = processes.submit(python_page.run, page).result()
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_uses_no_undefined_name(page):
    tried = [block for block in blocks(page) if python_page.is_tried(block) and block.language == "python"]
    source = "\n".join(part.source for block in tried for part in python_page.parts(block) if not part.is_settings)
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "--output-format=concise"]
    found = subprocess.run(
        [*ruff, f"--config=builtins = {list(GIVEN)}", "-"], input=source, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


@among("python")
def test_the_python_of_other_queues_compiles(block: Block):
    if block.is_foreign:
        compile(block.source, str(block), "exec")


@among(*SHELL)
def test_a_command_is_one_that_exists(block: Block):
    check(block)


@among(*PARSERS)
def test_a_block_can_be_parsed(block: Block):
    PARSERS[block.language](block.source)


@among("sql")
@pytest.mark.databases("postgresql")
def test_a_query_runs_on_postgresql(database: str, block: Block):
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        for statement in filter(str.strip, block.source.split(";\n")):
            verb = statement.split(maxsplit=1)[0].upper()
            explained = verb in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")
            cursor.execute(f"EXPLAIN {statement}" if explained else statement)
        transaction.set_rollback(True, using=database)


def test_the_index_links_to_every_page():
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([\w./]+\.md)\)", index.read_text())}
    assert not [str(page.relative_to(ROOT)) for page in PAGES if page not in linked | {index}]
