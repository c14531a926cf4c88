"""Every supported Django with the Python that it is tested on: `make matrix`, or `nox -s "tests(6.0)" -- -k admin`.

Each has an environment of its own, made by the Makefile. A Python that is not installed is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import nox

MATRIX = [
    nox.param("3.11", "5.2", id="5.2"),  # with the backport of django.tasks
    nox.param("3.12", "6.0", id="6.0"),
    nox.param("3.13", "6.1", id="6.1"),
]


@nox.session(venv_backend="none")
@nox.parametrize("version, django", MATRIX)
def tests(session: nox.Session, version: str, django: str) -> None:
    """Run the test suite."""
    make(session, "test", version, django)


@nox.session(venv_backend="none", default=False)
@nox.parametrize("version, django", MATRIX)
def browser(session: nox.Session, version: str, django: str) -> None:
    """Run the tests of the admin in Chromium."""
    make(session, "test-browser", version, django)


def make(session: nox.Session, target: str, version: str, django: str) -> None:
    """Run a target of the Makefile in the environment of this Python and Django."""
    python = find_python(version)
    if python is None:
        session.skip(f"Python {version} is not installed")
    variables = [f"PYTHON={python}", f"VENV=.venv-{django}", f"DJANGO=Django~={django}.0"]
    session.run("make", target, *variables, f"PYTEST_ARGS={' '.join(session.posargs)}", external=True)


def find_python(version: str) -> str | None:
    """Return a Python that is on the PATH or was installed by pyenv; the shims of pyenv may lead nowhere."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for python in [f"python{version}", *map(str, sorted(versions.glob(f"{version}.*/bin/python")))]:
        if shutil.which(python) and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return python
    return None
