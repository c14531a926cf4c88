"""Faults of every kind, with real workers. Those that take long have the marker `faults`: `make test-faults`."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("faults"):
            item.add_marker(pytest.mark.timeout(600))
