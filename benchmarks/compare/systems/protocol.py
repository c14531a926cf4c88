"""What every system can be asked, and how: one request per line on standard input, one answer per line."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from abc import ABC, abstractmethod
from typing import Any

TEXT = "a small payload"
ONE_DAY = 86_400


def text_of(size: int) -> str:
    """Return an argument of so many characters; by default, a short one."""
    return (TEXT * (size // len(TEXT) + 1))[:size] if size else TEXT


class System(ABC):
    """A queue. Job numbers are `first`, `first + 1` and so on."""

    @abstractmethod
    def prepare(self) -> None:
        """Create the tables."""

    @abstractmethod
    def clear(self) -> None:
        """Delete all jobs, also finished ones."""

    @abstractmethod
    def enqueue(self, number: int, task: str = "nothing") -> None:
        """Enqueue one job; it is durable when this returns, as far as the system promises that."""

    def enqueue_one_by_one(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.enqueue(number)

    @abstractmethod
    def enqueue_bulk(self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0) -> None:
        """Enqueue jobs in the fastest documented way, spread over a number of queues."""

    @abstractmethod
    def unsettled(self) -> int:
        """Return how many jobs are due or running."""

    def pick_up(self, first: int, count: int, pause: float = 0.05) -> list[float]:
        """Enqueue jobs with pauses in which the worker becomes idle; return the times just before each enqueue."""
        starts = []
        for number in range(first, first + count):
            time.sleep(random.uniform(0.5, 1.5) * pause)
            starts.append(time.monotonic())
            self.enqueue(number)
        return starts

    def mixed(self, first: int, count: int, rate: float) -> list[float]:
        """Enqueue jobs at an even rate, every second one a nap; return the times at which each was committed."""
        begin, commits = time.monotonic(), []
        for number in range(count):
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            self.enqueue(first + number, "nap" if number % 2 else "nothing")
            commits.append(time.monotonic())
        return commits

    @abstractmethod
    def work(self, **options: Any) -> None:
        """Run a worker in this process until it is told to exit."""


def main(system: type[System]) -> None:
    """Answer requests, or run a worker: `python -m … worker '{"processes": 1}'`."""
    if sys.argv[1:2] == ["worker"]:
        system().work(**json.loads(sys.argv[2]))
    else:
        serve(system())


def serve(system: System) -> None:
    """Answer requests until standard input is closed. Whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        method = getattr(system, request["method"])
        start = time.perf_counter()
        try:
            answer = {"result": method(**request["options"]), "seconds": time.perf_counter() - start}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers)


def queue_name(number: int, queues: int) -> str:
    """Return the queue of a job."""
    return f"q{number % queues}" if queues > 1 else "default"
