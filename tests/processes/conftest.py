"""Long tests, with real processes: `make test-processes`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.site import site as make_site

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.processes)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def site(database, tmp_path):
    with make_site(database, tmp_path) as place:
        yield place
