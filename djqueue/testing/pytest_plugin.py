"""The pytest fixtures, found by the entry point `djqueue`. They need pytest-django.

Nothing of djqueue is imported before a fixture is used: a project may configure Django later, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from djqueue.core.records import JobRecord


@pytest.fixture
def djqueue_jobs(db: None) -> Iterator[list[JobRecord]]:
    """The jobs that the test has enqueued so far."""
    from djqueue import testing

    with testing.capture_jobs() as jobs:
        yield jobs


@pytest.fixture
def djqueue_eager(db: None) -> Iterator[None]:
    """Run jobs as soon as they are enqueued."""
    from djqueue import testing

    with testing.eager():
        yield


@pytest.fixture
def djqueue_worker(transactional_db: None) -> Iterator[None]:
    """A real worker in threads beside the test."""
    from djqueue import testing

    with testing.worker():
        yield
