"""The processes of a soak test: workers that are killed, stopped and started again, and the clients of the queue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.workers import SESSION, processes

from .ledger import FOLDER

PROCESSES, THREADS = 2, 8
STATE = 0  # the field of /proc/PID/stat
EXIT_WITHIN = 90.0  # seconds after SIGTERM


class Program:
    """A Python module in a session of its own. All its processes are in that session."""

    def __init__(self, name: str, *command: str, url: str = "", environment: dict[str, str] | None = None) -> None:
        self.name = name
        self.command = command
        self.environment = os.environ | {"DJANGO_SETTINGS_MODULE": "benchmarks.soak.settings"} | (environment or {})
        if url:
            self.environment["DATABASE_URL"] = url
        self.log = Path(os.environ[FOLDER], f"{name.replace(' ', '-')}.log")
        self.start()

    def start(self) -> None:
        self.launch([sys.executable, "-m", *self.command])

    def launch(self, command: list[str], **options: Any) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **options,
            )

    def members(self) -> set[int]:
        """Return all living processes of the session."""
        session = self.process.pid
        return {pid for pid, fields in processes() if int(fields[SESSION]) == session and fields[STATE] != "Z"}

    def signal_all(self, number: int) -> set[int]:
        """Send a signal to every process, also to those that are forked meanwhile; return them."""
        reached: set[int] = set()
        while new := self.members() - reached:
            for pid in new:
                with suppress(ProcessLookupError):  # it has just exited
                    os.kill(pid, number)
            reached |= new
        return reached

    def kill(self) -> set[int]:
        """Kill every process, and return them when all have exited."""
        killed = self.signal_all(signal.SIGKILL)
        self.process.wait()
        while self.members():
            time.sleep(0.01)
        return killed

    def stop(self) -> int | None:
        """Return the exit code after SIGTERM; None if it did not exit in time."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(EXIT_WITHIN)
        return None


def start_worker(number: int, url: str) -> Program:
    options = ["--processes", str(PROCESSES), "--threads", str(THREADS), "--name", f"soak-{number}"]
    return Program(f"worker {number}", "django", "runworker", *options, url=url)


def start_producer(number: int, seed: int, rate: float, url: str) -> Program:
    return Program(f"producer {number}", "benchmarks.soak.producers", str(seed + number), str(rate), url=url)


def start_operator(seed: int) -> Program:
    return Program("operator", "benchmarks.soak.operating", str(seed))


def worker_processes(worker: Program) -> list[int]:
    """Return the processes of a worker that run jobs."""
    from djqueue.models import Worker

    members = worker.members()
    found = Worker.objects.filter(stopped_at=None).exclude(name="quarantine").values_list("pid", flat=True)
    return sorted({pid for pid in found if pid in members})
