"""Fixtures: Chromium, a live server, and a worker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import connections
from pytest_django.live_server_helper import LiveServer

from tests.browser.visitor import Visitor
from tests.worker.site import constants

HERE = Path(__file__).parent
SCREENSHOTS = HERE.parent / "screenshots"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture
def server(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # Playwright's synchronous API runs an event loop in this thread, which Django would refuse.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    ContentType.objects.clear_cache()
    server = LiveServer("localhost")
    yield server.url
    server.stop()
    for model in (LogEntry, Session, User):
        model.objects.all().delete()


@pytest.fixture
def worker(database: str, server: str) -> Iterator[subprocess.Popen[str]]:
    name = str(connections[database].settings_dict["NAME"])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.worker.main", database, name],
        # Its last heartbeat says that it has stopped, however busy the machine is.
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"} | constants(LAST_HEARTBEAT=60),
        stdout=subprocess.DEVNULL,
    )
    yield process
    process.terminate()
    process.wait(120)


@pytest.fixture
def visitor(server: str, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A superuser at the login page; errors and warnings of the browser fail the test."""
    from playwright.sync_api import sync_playwright

    User.objects.create_superuser("ada", password="engine")
    chromium = shutil.which("chromium")
    assert chromium, "Chromium is not installed: see make test-browser"
    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        scripts = getattr(request, "param", True)
        context = browser.new_context(viewport={"width": 1440, "height": 900}, java_script_enabled=scripts)
        context.set_default_timeout(60_000)
        visitor = Visitor(context.new_page(), server, SCREENSHOTS if scripts else None)
        yield visitor
        connections.close_all()  # inside Playwright's event loop this thread has connections of its own
        browser.close()
    assert visitor.complaints == []
