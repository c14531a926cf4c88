"""The example project's own tests, which use the kit, on every database."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings

from tests.conftest import LEFT_OUT
from tests.testing.plugin import run_pytest


def example_urls(scratch: Path) -> dict[str, str]:
    """A database that no other test uses; only its test database is created."""
    urls = {"postgresql": os.environ["DATABASE_URL"]}
    if "mysql" in settings.DATABASES:
        urls["mysql"] = os.environ["DJQUEUE_TEST_MYSQL_URL"]
    own = {name: urlsplit(url) for name, url in urls.items()}
    found = {name: urlunsplit(url._replace(path=f"{url.path}_example")) for name, url in own.items()}
    return found | {"sqlite": f"sqlite:///{scratch / 'example.sqlite3'}"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("vendor", [vendor for vendor in ("postgresql", "sqlite", "mysql") if vendor not in LEFT_OUT])
def test_the_tests_of_the_example_project(vendor, tmp_path):
    urls = example_urls(tmp_path)
    if vendor not in urls:
        pytest.skip("set DJQUEUE_TEST_MYSQL_URL to a MariaDB")
    arguments = ["--ds", "example_project.settings", "example_project"]
    output = run_pytest(tmp_path, *arguments, timeout=280, DATABASE_URL=urls[vendor])
    assert re.search(r"= 5\d passed in ", output), output[-500:]  # all of them: none is skipped or deselected
