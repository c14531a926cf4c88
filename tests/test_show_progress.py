"""docs/howto/show_progress.md: its project runs, and its tables are complete."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from django.test import Client, RequestFactory
from django.urls import clear_url_caches

from djqueue import progress, testing
from djqueue.core import registry
from djqueue.templatetags.djqueue import TEXTS, djqueue_progress
from tests.test_progress import Page

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "show_progress.md"
TEXT = PAGE.read_text()
pytestmark = pytest.mark.databases("sqlite")


def blocks(language: str) -> dict[str, str]:
    """Return the blocks of a language, by the name of the file in their first line."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return {source.partition("\n")[0].strip("#<>!- "): source for source in found}


@pytest.fixture
def shop(database, settings, monkeypatch):
    """The project of the page."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    sources = blocks("python")
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    for path in ("shop/tasks.py", "shop/views.py", "shop/api.py", "urls.py"):
        name = path.removesuffix(".py").replace("/", ".").replace("urls", "docs_urls")
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(sources.pop(path), path, "exec"), module.__dict__)
        if name.startswith("shop."):
            setattr(sys.modules["shop"], name.removeprefix("shop."), module)
    assert not sources
    own = [("django.template.loaders.locmem.Loader", blocks("html"))]
    [backend] = settings.TEMPLATES
    loaders = [*own, "django.template.loaders.app_directories.Loader"]
    options = {**backend["OPTIONS"], "loaders": loaders}
    settings.TEMPLATES = [{**backend, "APP_DIRS": False, "OPTIONS": options}]
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    settings.ROOT_URLCONF = "docs_urls"
    yield sys.modules["shop"]
    clear_url_caches()


def test_the_project_of_the_page_runs(shop):
    client = Client()
    answer = client.post("/exports/", follow=True)
    assert answer.redirect_chain == [("/exports/latest/", 302)]
    page = Page(answer.content.decode())
    assert {"Your export", "Waiting…", "Cancel"} <= set(page.texts)
    [url] = [attributes["data-url"] for tag, attributes in page.tags if tag == "djqueue-progress"]
    assert client.get(url).json()["status"] == "pending"
    testing.run_pending()
    found = client.get(url).json()
    assert found["status"] == "done"
    assert found["progress"] == {"done": 999, "total": 1000, "message": "Order 1000 of 1000"}
    assert "Done." in Page(client.get("/exports/latest/").content.decode()).texts


def test_the_api_of_the_page_returns_urls(shop):
    answer = shop.api.start_export(RequestFactory().post("/"))
    urls = json.loads(answer.content)
    assert set(urls) == {"status", "cancel"}
    assert Client().get(urls["status"]).json()["status"] == "pending"


def test_the_example_has_the_fields_of_a_status():
    [example] = [json.loads(source) for source in re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)]
    stored = {"done": 300, "total": 1000, "message": "Order 301 of 1000"}
    assert example == progress.describe("claimed", stored=stored)
    fields = re.findall(r"^\| `(\w+)` \|", TEXT.partition("A GET of the status URL")[2], re.MULTILINE)
    assert fields == list(example)


def test_the_options_are_those_of_the_tag():
    options = re.findall(r"^\| `(\w+)` \|", TEXT.partition("| option |")[2].partition("\n\n")[0], re.MULTILINE)
    assert set(options) == set(djqueue_progress.__kwdefaults__)


def test_every_text_is_explained():
    from django.template.loader import render_to_string

    shown = TEXT.partition("| text | state of the job |")[2].partition("\n\n")[0]
    for text in TEXTS:
        said = " ".join(Page(render_to_string("djqueue/progress_text.html", {"text": text})).texts)
        assert f"| {said} |" in shown, text
