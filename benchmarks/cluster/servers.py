"""Servers on 127.0.0.1, which run as a user without privileges."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.soak.workers import Program

USER = "pgserver"  # PostgreSQL and MariaDB refuse to run as root
ADDRESS = "127.0.0.1"
SYSTEM_PYTHON = "/usr/bin/python3"
TURN = 0.1  # seconds


def unprivileged() -> dict[str, Any]:
    """Return the arguments of subprocess.Popen for a user other than root."""
    return {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}


@cache
def ensure_user() -> None:
    if os.geteuid() != 0:
        return
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--shell", "/bin/sh", USER], check=True)


def call(*command: object, **options: Any) -> str:
    """Run a program as the user of the servers, and return its output."""
    ensure_user()
    options = {"cwd": "/", "capture_output": True, "text": True, **unprivileged(), **options}
    finished = subprocess.run([*map(str, command)], check=False, **options)
    if finished.returncode:
        raise RuntimeError(f"{command[0]} failed: {finished.stdout or ''}{finished.stderr or ''}")
    return str(finished.stdout)


@cache
def python() -> str:
    """Return a Python that this user can run: that of a virtual environment may be in the home of root."""
    for candidate in (sys.executable, SYSTEM_PYTHON):
        try:
            version = call(candidate, "-I", "-c", "import sys, ssl; print(sys.version)").strip()
        except (OSError, RuntimeError):
            continue
        if candidate != sys.executable or version == sys.version:
            return candidate
    raise SystemExit(f"The user {USER} can run neither {sys.executable} nor {SYSTEM_PYTHON}.")


def folder_of(parent: Path, name: str) -> Path:
    """Create the folder of a server."""
    ensure_user()
    folder = parent / name
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
    return folder


def free_port() -> int:
    """Return an unused port that was not returned before."""
    while True:
        with socket.socket() as free:
            free.bind((ADDRESS, 0))
            port = int(free.getsockname()[1])
        if port not in _ports:
            _ports.add(port)
            return port


_ports: set[int] = set()


def wait_for(what: str, fact: Callable[[], object], within: float, meanwhile: Callable[[], None] | None = None) -> None:
    """Wait until a function returns something true."""
    deadline = time.monotonic() + within
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {within:g} s")
        time.sleep(TURN)
        if meanwhile:
            meanwhile()


class Server(Program):
    """A server program in a session of its own."""

    def start(self) -> None:
        ensure_user()
        self.launch(list(self.command), cwd="/", **unprivileged())
