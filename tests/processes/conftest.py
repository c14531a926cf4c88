"""Long tests, with real processes: `make test-processes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes.terminal import Command, Terminal

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.processes)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture
def command(database: str) -> Command:
    """Start the real command on the test database, in a process of its own."""
    return Command(database)


@pytest.fixture
def terminal(command: Command):
    """Start the real command on a terminal of its own."""
    started: list[Terminal] = []

    def start(*arguments: str, **options: Any) -> Terminal:
        started.append(Terminal(command, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()
