"""Workers in processes of their own, started by a test and killed at its end."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.db import connections

from djqueue.jobs import JobHandle
from djqueue.models import Worker
from tests.tools import eventually, rows

# The constants of djqueue.worker that tests change.
CONSTANTS = {
    "EXIT_GRACE": "supervisor.supervisor.EXIT_GRACE",  # for what the supervisor settles at the end
    "IMPORT_WITHIN": "supervisor.supervisor.IMPORT_WITHIN",
    "KILL_AFTER": "supervisor.children.EXIT_GRACE",
    "LAST_FLUSH": "process.worker.LAST_FLUSH",
    "LAST_HEARTBEAT": "supervisor.supervisor.LAST_HEARTBEAT",
    "READY_WITHIN": "supervisor.children.READY_WITHIN",
    "STUCK_AFTER": "process.budget.STUCK_AFTER",
    "SWEEP": "supervisor.admitter.SWEEP",
    "TIMEOUT_GRACE": "supervisor.children.TIMEOUT_GRACE",
    "WORK_IN_HAND": "process.budget.WORK_IN_HAND",
}


class Running:
    """A `runworker` of a test: the supervisor, the fork server and the worker processes are one session.

    They have a terminal of their own.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path, events: Path, terminal: int) -> None:
        self.process = process
        self.terminal = terminal
        self.pid = process.pid
        self.log_file = log
        self.events_file = events

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def wait_for_log(self, text: str, seconds: float = 100) -> None:
        eventually(lambda: text in self.log(), seconds)

    def events(self) -> Counter[tuple[str, str, int]]:
        """How often each event of each attempt was signalled."""
        lines = self.events_file.read_text().splitlines() if self.events_file.exists() else []
        return Counter((event, job, int(attempt)) for event, job, attempt, _ in map(str.split, lines))

    def started(self, handles: Iterable[JobHandle]) -> int:
        """Return how many of these jobs have started their first attempt; rows may show it later."""
        events = self.events()
        return sum(events["started", str(handle.id), 1] for handle in handles)

    def workers(self) -> list[int]:
        """Return the ids of its worker processes that have reported and not exited, except for the quarantine."""
        found = rows(Worker).filter(stopped_at=None).exclude(name="quarantine").values_list("pid", flat=True)
        return [pid for pid in found if pid in self.members()]

    def members(self) -> set[int]:
        """All living processes of the session."""
        members = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.pid and state != "Z":
                    members.add(int(stat.parent.name))
        return members

    def signal_all(self, number: int) -> None:
        """Send a signal to all processes. SIGKILL is as if the machine was lost: no process sees another exit."""
        members = self.members()
        for step in (signal.SIGSTOP, number) if number == signal.SIGKILL else (number,):
            for pid in members:
                with suppress(ProcessLookupError):  # it has just exited
                    os.kill(pid, step)

    def press_ctrl_c(self) -> None:
        """Let the terminal send SIGINT to all processes of the command."""
        os.write(self.terminal, b"\x03")

    def stop(self, number: int = signal.SIGTERM, seconds: float = 100) -> int:
        """Send a signal and wait for the exit; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


class Site:
    """Where workers are started."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.running: list[Running] = []

    def start(
        self, *arguments: str, env: dict[str, str] | None = None, stdout: int | None = None, **options: object
    ) -> Running:
        """Start a worker; DJQUEUE options by name. Its output goes to its log, or to the file descriptor `stdout`."""
        number = len(self.running)
        log, events = self.folder / f"log-{number}", self.folder / f"events-{number}"
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DJQUEUE_TEST_OPTIONS": json.dumps(options),
            "DJQUEUE_TEST_EVENTS": str(events),
        }
        name = str(connections[self.database].settings_dict["NAME"])
        terminal, stdin = pty.openpty()
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.worker.main", self.database, name, *arguments],
                env=environment | (env or {}),
                stdout=output if stdout is None else stdout,
                stderr=output,
                stdin=stdin,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        os.close(stdin)
        running = Running(process, log, events, terminal)
        self.running.append(running)
        return running

    def start_ready(
        self, *arguments: str, processes: int = 1, env: dict[str, str] | None = None, **options: object
    ) -> Running:
        """Start a worker and wait until its processes have reported."""
        running = self.start("--processes", str(processes), *arguments, env=env, **options)
        eventually(lambda: len(running.workers()) == processes, 100)
        return running


def constants(**values: float) -> dict[str, str]:
    """Return the environment of a worker that has other values for these constants."""
    given = {f"djqueue.worker.{CONSTANTS[name]}": value for name, value in values.items()}
    return {"DJQUEUE_TEST_CONSTANTS": json.dumps(given)}


@contextmanager
def site(database: str, folder: Path) -> Iterator[Site]:
    """A place for workers; whatever is left at the end is killed, and the log is shown if the test fails."""
    place = Site(database, folder)
    try:
        yield place
    finally:
        for running in place.running:
            running.signal_all(signal.SIGKILL)
            running.process.wait()
            os.close(running.terminal)
            print(f"--- worker {running.pid}:", running.log()[-20_000:])
