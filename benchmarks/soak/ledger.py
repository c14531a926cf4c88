"""What the processes did, by their own account: files to which each event is appended by a single write.

A file has one writer. A process that is killed can leave at most its last line incomplete, and that one is ignored.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = "SOAK_FOLDER"  # the environment variable


class Entry(NamedTuple):
    """One event. Moments are of the monotonic clock, which all processes of the machine share."""

    at: float
    pid: int
    event: str
    values: list[Any]


class Ledger:
    """A file of this process."""

    def __init__(self, name: str) -> None:
        path = Path(os.environ[FOLDER], f"{name}-{os.getpid()}.ledger")
        self.pid = os.getpid()
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, event: str, *values: Any) -> None:
        line = json.dumps([time.monotonic(), self.pid, event, *values], default=str)
        os.write(self.file, line.encode() + b"\n")


def read(folder: Path, name: str) -> Iterator[Entry]:
    """Yield the events of all processes that wrote under this name, each file in its order."""
    for path in sorted(folder.glob(f"{name}-*.ledger")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            at, pid, event, *values = json.loads(line)
            yield Entry(at, pid, event, values)
