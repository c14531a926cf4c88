"""What the sdist and the wheel contain, what their metadata say, and that both can be used elsewhere."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import djqueue
from tests.packaging.conftest import ROOT
from tests.packaging.environment import Environment, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

REQUIRED = {"django", "asgiref", "sqlparse", "croniter", "python-dateutil", "pytz", "six", "tzdata"}
SETTINGS = """
from site_of_a_user.settings_of_django import *

INSTALLED_APPS += ["djqueue", "shop"]
DATABASES["default"]["OPTIONS"] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
}
"""
TASKS = """
import djqueue

@djqueue.task
def add(a, b):
    return a + b
"""
ENQUEUE = "from shop.tasks import add; print('job', add.enqueue(2, 3).id)"
RESULT = "import djqueue; print('result', djqueue.get_job(%r).result)"
FINDERS = """
from django.contrib.staticfiles import finders
from django.template.loader import get_template
assert finders.find("djqueue/admin.css")
get_template("admin/djqueue/overview/page.html")
"""


class Addresses(HTMLParser):
    """The targets of links and images."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {"href": [], "src": [], "srcset": []}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in self.found and value:
                self.found[name].append(value)


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata_of(wheel: Path) -> tuple[dict[str, list[str]], str]:
    """Return the fields and the description."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        message = Parser().parsestr(archive.read(name).decode())
    fields: dict[str, list[str]] = {}
    for key, value in message.items():
        fields.setdefault(key, []).append(value)
    return fields, message.get_payload()


def test_the_wheel_contains_every_file_of_the_package_and_nothing_else(wheel):
    package = {path for path in (ROOT / "djqueue").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    expected = {path.relative_to(ROOT).as_posix() for path in package}
    found = {name for name in files_of(wheel) if ".dist-info/" not in name}
    assert found == expected
    for kind in ("djqueue/py.typed", "djqueue/migrations/0001_initial.py", "djqueue/static/djqueue/admin.css"):
        assert kind in found
    assert any(name.endswith(".html") for name in found)


def test_the_sdist_contains_every_file_that_git_does_not_ignore(sdist):
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT).split()
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert found == {name for name in listed if (ROOT / name).exists()} | {"PKG-INFO"}


def test_the_metadata_pass_the_check_of_the_upload_tool(dist):
    paths = [str(path) for path in dist.iterdir()]
    assert run([sys.executable, "-m", "twine", "check", "--strict", *paths], cwd=dist).count("PASSED") == 2


def test_the_version_is_the_one_in_the_code_and_has_a_section_in_the_changelog_once_released(wheel):
    fields, _ = metadata_of(wheel)
    assert fields["Version"] == [djqueue.__version__]
    assert djqueue.__version__ not in (ROOT / "pyproject.toml").read_text()
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0].startswith(djqueue.__version__)


def test_the_description_has_no_relative_link_or_image(wheel):
    """As the package index renders it; an image whose address it cannot use would be missing from the page."""
    from readme_renderer.markdown import render

    _, description = metadata_of(wheel)
    html = render(description)
    assert html is not None
    addresses = Addresses(html).found
    readme = Addresses(render((ROOT / "README.md").read_text()) or "").found
    for kind, found in addresses.items():
        assert len(found) == len(readme[kind])
        assert [address for address in found if not address.startswith(("https://", "#"))] == []
    assert addresses["src"]
    assert addresses["href"]


def test_links_of_the_description_lead_to_files_of_this_version(wheel):
    from readme_renderer.markdown import render

    fields, description = metadata_of(wheel)
    urls = dict(value.split(", ") for value in fields["Project-URL"])
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith(urls["Source"]) for url in urls.values())
    addresses = Addresses(render(description) or "").found
    tag = f"v{fields['Version'][0]}"
    ours = [url for found in addresses.values() for url in found if url.startswith(f"{urls['Source']}/")]
    files = [urlsplit(url).path.partition(f"/{tag}/")[2] for url in ours if "/blob/" in url or "/raw/" in url]
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_the_wheel_brings_django_and_croniter_alone(installed: Environment):
    listed = json.loads(run([installed.python, "-m", "pip", "list", "--format", "json"]).splitlines()[-1])
    names = {package["name"].lower() for package in listed} - {"pip", "setuptools"}
    assert {"django", "croniter", "django-djqueue"} <= names <= REQUIRED | {"django-djqueue"}
    installed.pip("check")


def test_the_installed_wheel_runs_a_job_in_a_new_project(installed: Environment, tmp_path):
    django = [installed.python, "-W", "error", "-m", "django"]
    run([*django, "startproject", "site_of_a_user", "."], cwd=tmp_path)
    run([*django, "startapp", "shop"], cwd=tmp_path)
    settings = tmp_path / "site_of_a_user" / "settings.py"
    settings.rename(settings.with_name("settings_of_django.py"))
    settings.write_text(SETTINGS)
    (tmp_path / "shop" / "tasks.py").write_text(TASKS)

    def manage(*arguments: str) -> str:
        return installed.run("manage.py", *arguments, cwd=tmp_path)

    assert "no issues" in manage("check")
    manage("migrate")
    assert "No changes detected" in manage("makemigrations", "--check")
    [job] = re.findall(r"^job (\S+)$", manage("shell", "-v0", "-c", ENQUEUE), re.MULTILINE)
    manage("runworker", "--burst")
    assert "result 5\n" in manage("shell", "-v0", "-c", RESULT % job)
    manage("shell", "-v0", "-c", FINDERS)
    assert not list((installed.folder / "lib").glob("python*/site-packages/tests"))


def test_the_sdist_runs_its_own_tests(sdist, scratch):
    """With `make test`, in an environment of its own: what a packager of a distribution does."""
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    [folder] = scratch.iterdir()
    chosen = "tests/core tests/test_conf.py tests/test_queue.py"
    output = run(["make", "test", f"PYTEST_ARGS=-q {chosen}"], cwd=folder)
    assert re.search(r"^\d{3,} passed", output, re.MULTILINE), output
