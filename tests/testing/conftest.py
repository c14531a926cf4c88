from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction

PLACES = ["committed", "TestCase"]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, database: str) -> Iterator[str]:
    """Run a test with autocommit, and inside the transaction that TestCase opens."""
    if request.param == "committed":
        yield request.param
        return
    block = transaction.atomic(using=database)
    block._from_testcase = True  # as TestCase._enter_atomics does
    with block:
        yield request.param
        transaction.set_rollback(True, using=database)
