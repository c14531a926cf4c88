"""A system under measurement: its database, the process that enqueues, and its workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from . import processes
from .catalog import Entry
from .database import Database
from .ledgers import Ledgers

ROOT = Path(__file__).resolve().parents[2]
STALL = 60  # seconds without progress after which a run has failed


class FailedError(Exception):
    """A system raised an error or made no progress."""


class Subject:
    """A system whose process for enqueues is running."""

    def __init__(self, entry: Entry, python: Path, database: Database | None, addresses: dict[str, str]) -> None:
        self.entry = entry
        self.name = entry.name
        self.database = database
        self.python = python
        self.environment = (
            os.environ
            | addresses
            | {
                "COMPARE_SYSTEM": entry.name,
                "PYTHONPATH": str(ROOT),
                "PYTHONWARNINGS": "ignore",
            }
        )
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._next = 0
        if database:
            database.create()
        self._process = subprocess.Popen(
            [python, *entry.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env=self.environment,
        )
        try:
            self.ask("prepare")
        except FailedError:
            self.close()
            raise

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()
        if self.database:
            self.database.drop()

    def ask(self, method: str, **options: Any) -> Any:
        """Call a method in the process of the system and return its result."""
        return self._ask(method, options)["result"]

    def time(self, method: str, **options: Any) -> float:
        """Return the seconds that a method took in the process of the system."""
        return float(self._ask(method, options)["seconds"])

    def _ask(self, method: str, options: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            print(json.dumps({"method": method, "options": options}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"the process of {self.name} exited\n{tail(self._log)}"}
        if "error" in answer:
            error = answer["error"].strip()
            raise FailedError(f"{method}: {error.splitlines()[-1]}\n{error}")
        return dict(answer)

    def numbers(self, count: int) -> int:
        """Return the first of so many job numbers that were not used before."""
        self._next += count
        return self._next - count

    def fill(self, count: int, **options: Any) -> int:
        """Replace all jobs by new ones, tidy up, and return the first number."""
        self.ask("clear")
        first = self.numbers(count)
        self.ask("enqueue_bulk", first=first, count=count, **options)
        self.tidy()
        return first

    def tidy(self) -> None:
        if self.database:
            self.database.tidy()

    @contextmanager
    def workers(self, count: int = 1, **options: Any) -> Iterator[Workers]:
        """Run worker commands with the same options."""
        workers = Workers(self.name)
        try:
            for _ in range(count):
                workers.start([self.python, *self.entry.command, "worker", json.dumps(options)], self.environment)
            yield workers
        finally:
            workers.close()

    def wait_until_settled(self, workers: Workers) -> None:
        """Wait until no job is due or running."""
        workers.wait(lambda: self.ask("unsettled") == 0, "unsettled jobs", pause=0.05)


class Workers:
    """Running workers of one system and their ledgers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ledgers = Ledgers()
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[Any], environment: dict[str, str]) -> None:
        self._processes.append(
            subprocess.Popen(
                command,
                env=environment | {"COMPARE_LEDGER": str(self.ledgers.path)},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                cwd=ROOT,
                start_new_session=True,
            )
        )

    def stop(self) -> None:
        """Let the workers exit as after SIGTERM; kill what is left of them after ten seconds."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            for pid in processes.session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()

    def close(self) -> None:
        self.stop()
        self.ledgers.close()

    def cpu(self) -> float:
        """Return the CPU time of all processes in seconds."""
        return sum(processes.cpu_of_session(process.pid) for process in self._processes)

    def exact_cpu(self) -> float:
        """Return the same, exact enough for idle workers."""
        return sum(processes.exact_cpu_of_session(process.pid) for process in self._processes)

    def memory(self) -> float:
        """Return the memory of all processes in MB, proportionally."""
        return sum(processes.pss(pid) for process in self._processes for pid in processes.session(process.pid))

    def wait(self, condition: Callable[[], bool], what: str, pause: float = 0.005) -> None:
        """Wait for a condition; raise FailedError if a worker exits or no job runs for a minute."""
        seen, since = -1, time.monotonic()
        while not condition():
            if any(process.poll() is not None for process in self._processes):
                raise FailedError(f"a worker exited while waiting for {what}\n{tail(self._log)}")
            if (done := self.ledgers.done()) != seen:
                seen, since = done, time.monotonic()
            elif time.monotonic() > since + STALL:
                raise FailedError(
                    f"no progress in {STALL} s after {done} jobs while waiting for {what}\n{tail(self._log)}"
                )
            time.sleep(pause)


def tail(log: Any, lines: int = 20) -> str:
    log.seek(0)
    return "".join(log.readlines()[-lines:])
