"""Virtual environments of their own, and commands that know nothing of the environment of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# What the tests set for themselves; a user has none of it.
OURS = ("DJANGO_", "DJQUEUE_", "DATABASE_", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "MAKE", "MFLAGS", "GIT_")
PATIENCE = 600.0


def outside() -> dict[str, str]:
    """Return the environment variables of someone who has just logged in: also `python3` is that of the system."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    system = os.path.dirname(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
    own = os.path.dirname(sys.executable)
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != own]
    return variables | {"PATH": os.pathsep.join([system, *path]), "NO_COLOR": "1"}


def run(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return the output of a command. Raise AssertionError with it if the command fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=outside() | dict(env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}"
    return done.stdout


class Environment:
    """A virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run(["python3", "-m", "venv", str(folder)])
        self.python = str(folder / "bin" / "python")

    def pip(self, *arguments: str) -> str:
        return run([self.python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])

    def run(self, *arguments: str, cwd: Path) -> str:
        """Run Python; all warnings are errors."""
        return run([self.python, "-W", "error", *arguments], cwd=cwd)
