"""Start a real worker in its own processes and measure its cost, and that of a PostgreSQL on the same machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
# The name of a worker's connections in pg_stat_activity.
APPLICATION = "djqueue benchmark worker"
# Fields of /proc/PID/stat behind the name of the program.
PARENT, SESSION, USER, SYSTEM, USER_OF_EXITED, SYSTEM_OF_EXITED = 1, 3, 11, 12, 13, 14


class Running:
    """A worker that is ready."""

    def __init__(self, process: subprocess.Popen[bytes], statements: Path) -> None:
        self.process = process
        self.counter = statements

    def statements(self) -> int:
        return self.counter.stat().st_size

    def claims(self) -> int:
        """The number of statements that were claims."""
        return self.counter.read_bytes().count(b"c")

    def cpu(self) -> float:
        """The CPU time of all its processes in seconds."""
        return sum(
            (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
            for _, fields in processes()
            if int(fields[SESSION]) == self.process.pid
        )

    def memory(self) -> int:
        """The memory of all its processes in bytes; pages that they share are counted once."""
        members = [pid for pid, fields in processes() if int(fields[SESSION]) == self.process.pid]
        return sum(map(proportional_memory, members))


def processes() -> Iterator[tuple[int, list[str]]]:
    """Yield the id and the fields of every process of the machine."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(stat.parent.name), fields


def proportional_memory(pid: int) -> int:
    """Return the memory of a process in bytes; of shared pages, its share of them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has exited
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def postmaster(backend: int) -> int | None:
    """Return the main process of the server of this backend; None if the server runs on another machine."""
    for pid, fields in processes():
        if pid == backend and "postgres" in Path(f"/proc/{pid}/cmdline").read_text():
            return int(fields[PARENT])
    return None


def server_cpu(main: int) -> float:
    """Return the CPU time of a PostgreSQL server in seconds, including backends that have exited."""
    total = 0
    for pid, fields in processes():
        if pid == main:
            total += int(fields[USER_OF_EXITED]) + int(fields[SYSTEM_OF_EXITED])
        if pid == main or int(fields[PARENT]) == main:
            total += int(fields[USER]) + int(fields[SYSTEM])
    return total / TICKS


@contextmanager
def worker(*arguments: str, **options: Any) -> Iterator[Running]:
    """Run `runworker` in another process, with DJQUEUE options as keyword arguments."""
    with tempfile.TemporaryDirectory() as folder:
        statements = Path(folder, "statements")
        statements.touch()
        with Path(folder, "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.runworker", *arguments],
                env=os.environ
                | {
                    "DJQUEUE": json.dumps(options),
                    "BENCHMARK_STATEMENTS": str(statements),
                    "PGAPPNAME": APPLICATION,
                },
                stdout=log,
                start_new_session=True,
            )
        try:
            _wait_until_ready(process)
            yield Running(process, statements)
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes]) -> None:
    """Wait for the worker's row, which is written once its process has reported."""
    from djqueue.models import Worker

    before = set(Worker.objects.values_list("pk", flat=True))
    while not Worker.objects.filter(stopped_at=None).exclude(pk__in=before).exists():
        if process.poll() is not None:
            raise RuntimeError(f"The worker exited with code {process.returncode} before it was ready.")
        time.sleep(0.05)
    time.sleep(0.5)
