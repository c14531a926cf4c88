"""The virtual environments of the peers, made once and kept in `.peers`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .catalog import Entry

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".peers"


class UnavailableError(Exception):
    """A system cannot be measured here; the message says why."""


def python_of(entry: Entry) -> Path:
    """Return the Python that runs a system, after its environment was made or brought up to date."""
    if entry.requirements is None:
        return Path(sys.executable)
    return environment(entry.name, entry.requirements, entry.python)


def environment(name: str, requirements: Path, oldest: str | None = None) -> Path:
    """Return the Python of an environment with the packages of a file."""
    folder = FOLDER / name
    python, stamp = folder / "bin/python", folder / "installed"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return python
    print(f"making the environment of {name} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    base = find_python(oldest)
    try:
        _call(base, "-m", "venv", folder)
        _call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines()
        raise UnavailableError(f"cannot install {name}: {lines[-1] if lines else error}") from error
    stamp.write_text(digest)
    return python


def find_python(oldest: str | None) -> str:
    """Return this Python, or the oldest one that is new enough, from the PATH or from pyenv."""
    wanted = tuple(map(int, (oldest or "3.11").split(".")))
    if sys.version_info >= wanted:
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in range(wanted[1], wanted[1] + 5):
        for python in [f"python3.{minor}", *map(str, sorted(versions.glob(f"3.{minor}.*/bin/python")))]:
            if shutil.which(python) and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
                return python
    raise UnavailableError(f"needs Python {oldest}, which is not installed")


def _call(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
