"""The CPU time and the memory of processes, from /proc."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Yield the id of each process, and the fields of its stat file from the state on."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(path.parent.name), path.read_text().rpartition(")")[2].split()
        except OSError:
            continue


def session(leader: int) -> list[int]:
    """Return the processes of a session: a worker and its children."""
    return [pid for pid, fields in _stats() if int(fields[3]) == leader]


def cpu_of_session(leader: int) -> float:
    """Return the CPU time of the running processes of a session in seconds."""
    return sum(_seconds(fields) for _, fields in _stats() if int(fields[3]) == leader)


def exact_cpu_of_session(leader: int) -> float:
    """Return the same for threads that are alive, to the nanosecond: an idle process uses a tick of CPU in seconds."""
    total = 0
    for pid in session(leader):
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # it has exited
                total += int(path.read_text().split()[0])
    return total / 1e9


def cpu_of_tree(root: int) -> float:
    """Return the CPU time of a process and its children in seconds, including children that have exited."""
    total = 0.0
    for pid, fields in _stats():
        if pid == root:
            total += _seconds(fields) + (int(fields[13]) + int(fields[14])) / TICKS
        elif int(fields[1]) == root:
            total += _seconds(fields)
    return total


def _seconds(fields: list[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / TICKS


def pss(pid: int) -> float:
    """Return the proportional memory of a process in MB: shared pages are divided among those who share them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


BARE = (
    "import django; django.setup(); from django.db import connection; connection.ensure_connection(); print(flush=True)"
)


@contextmanager
def bare_django(python: Path, environment: dict[str, str]) -> Iterator[int]:
    """Run a process that has only set Django up and connected to the database, and yield its id."""
    process = subprocess.Popen(
        [python, "-c", f"{BARE}; input()"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()
