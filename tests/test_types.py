"""What a user sees who checks types: the project in tests/typing is accepted, and each of its mistakes is found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from djqueue.core.options import CallOptions, GivenCallOptions, GivenTaskOptions, TaskOptions

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "tests" / "typing"
Places = set[tuple[str, int]]

MYPY = """
[mypy]
strict = true
mypy_path = {root}
{options}
# As for an installed package, whose errors are not reported.
[mypy-djqueue.*]
follow_imports = silent
[mypy-django.*]
ignore_missing_imports = {without_stubs}
# The fields of models have types by the plugin alone.
[mypy-shop.models]
disable_error_code = var-annotated
"""
PLUGIN = 'plugins = mypy_django_plugin.main\n[mypy.plugins.django-stubs]\ndjango_settings_module = "settings"'
# Without stubs, Django's classes are of type Any.
WITHOUT_STUBS = "no_site_packages = true\ndisallow_subclassing_any = false"


@pytest.mark.parametrize("kind", [TaskOptions, CallOptions])
def test_the_typed_options_are_the_fields_of_the_dataclass(kind):
    given = {TaskOptions: GivenTaskOptions, CallOptions: GivenCallOptions}[kind]
    hints = get_type_hints(kind)
    assert get_type_hints(given) == {option.name: hints[option.name] for option in fields(kind)}
    assert given.__required_keys__ == frozenset()


@pytest.fixture
def project(tmp_path):
    """A copy of the user's project, outside of this repository."""
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", ".*")))


@pytest.mark.parametrize("kind", ["stubs", "plugin", "without-stubs"])
def test_mypy_accepts_a_typed_project_and_finds_its_mistakes(project, kind):
    options = {"stubs": "", "plugin": PLUGIN, "without-stubs": WITHOUT_STUBS}[kind]
    (project / "mypy.ini").write_text(MYPY.format(root=ROOT, options=options, without_stubs=options is WITHOUT_STUBS))
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache" / kind), "shop"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=110, check=False)
    found = re.findall(r"^(\S+?):(\d+): error:", done.stdout, re.MULTILINE)
    assert {(Path(file).name, int(line)) for file, line in found} == mistakes(), done.stdout + done.stderr
    assert "checked 5 source files" in done.stdout


@pytest.mark.parametrize("stubs", [True, False], ids=["stubs", "without-stubs"])
def test_pyright_accepts_a_typed_project_and_finds_its_mistakes(project, stubs):
    """In strict mode, except for models, whose fields are unknown to pyright, and for a project without stubs."""
    if find_spec("pyright") is None:
        pytest.skip("pip install pyright to run this test")
    link_packages(project.parent / "env", with_stubs=stubs)
    report = pyright(
        project,
        venvPath="..",
        venv="env",
        pythonVersion="3.11",
        include=["shop"],
        strict=[f"shop/{name}.py" for name in ("tasks", "views", "mistakes")] if stubs else [],
    )
    errors = [found for found in report["generalDiagnostics"] if found["severity"] == "error"]
    places = {(Path(error["file"]).name, error["range"]["start"]["line"] + 1) for error in errors}
    assert places == mistakes(), "\n".join(f"{error['file']}: {error['range']} {error['message']}" for error in errors)
    assert report["summary"]["filesAnalyzed"] == 5


def mistakes() -> Places:
    """Return the lines that are marked as mistakes."""
    file = PROJECT / "shop" / "mistakes.py"
    return {
        (file.name, number) for number, line in enumerate(file.read_text().splitlines(), 1) if "  # mistake" in line
    }


def link_packages(environment: Path, with_stubs: bool) -> None:
    """Make an environment in which djqueue is installed, with or without the stubs of Django."""
    packages = environment / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "djqueue").symlink_to(ROOT / "djqueue")
    installed = Path(find_spec("django").origin).parent.parent
    for name in ["django", "asgiref", "croniter", *(["django-stubs", "django_stubs_ext"] if with_stubs else [])]:
        (packages / name).symlink_to(installed / name)


def pyright(project: Path, **config: Any) -> dict[str, Any]:
    """Return the report of pyright. The first run in an environment downloads it; skip the test if this fails."""
    (project / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--outputjson"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=110, check=False)
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright could not be installed; connect this machine to the npm registry: {done.stderr[-200:]}")
    return json.loads(done.stdout)
