"""Start a real worker in its own processes and measure its cost."""

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
        total = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:  # the session
                total += (int(fields[11]) + int(fields[12])) / TICKS
        return total


@contextmanager
def worker(*arguments: str, **options: Any) -> Iterator[Running]:
    """Run `runworker` in another process, with DJQUEUE options as keyword arguments."""
    with tempfile.TemporaryDirectory() as folder:
        statements = Path(folder, "statements")
        statements.touch()
        with Path(folder, "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.runworker", *arguments],
                env=os.environ | {"DJQUEUE": json.dumps(options), "BENCHMARK_STATEMENTS": str(statements)},
                stdout=log,
                start_new_session=True,
            )
        try:
            _wait_until_ready()
            yield Running(process, statements)
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready() -> None:
    """Wait for the worker's row, which is written once its process has reported."""
    from djqueue.models import Worker

    before = set(Worker.objects.values_list("pk", flat=True))
    while not Worker.objects.filter(stopped_at=None).exclude(pk__in=before).exists():
        time.sleep(0.05)
    time.sleep(0.5)
