"""The processes of the demo: started together, and stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Seconds after SIGTERM until a process is killed; the worker needs a few to let its jobs finish.
PATIENCE = 10.0


class Child:
    """A command in a process of its own, whose lines are passed on as they come."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], on_line: Callable[[str], None]):
        self.name = name
        self.on_line = on_line
        self.process = subprocess.Popen(
            [sys.executable, "-m", "example_project.demo.child", str(os.getpid()), *command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches the demo alone, which then stops its processes in order
        )
        self.reader = threading.Thread(target=self.read, name=name, daemon=True)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.strip():
                    self.on_line(line.rstrip())

    def has_exited(self) -> bool:
        return self.process.poll() is not None

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process and all that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.reader.join(1)


def stop(children: list[Child], hurry: threading.Event) -> None:
    """Ask all processes to exit. Kill those that have not done so in time, or as soon as `hurry` is set."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + PATIENCE
    while not all(child.has_exited() for child in children):
        if hurry.wait(0.05) or time.monotonic() > deadline:
            break
    for child in children:
        child.kill()  # also what it has left behind
        child.close()
