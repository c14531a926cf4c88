"""The memory of a process over its whole life, in a bounded list."""

from __future__ import annotations

import time

MOST = 120
FIRST_INTERVAL = 2.0  # seconds: at first, every heartbeat is a sample


class MemorySamples:
    """Samples of [seconds since the start, bytes]. When there are too many, every second one is dropped.

    The interval doubles then. So a heartbeat writes at most MOST samples, however old the process is.
    """

    def __init__(self) -> None:
        self.started_at = time.monotonic()
        self.interval = FIRST_INTERVAL
        self.values: list[list[int]] = []

    def add(self, memory: int) -> None:
        """Add a sample, unless the last one is too recent or nothing is known yet."""
        age = time.monotonic() - self.started_at
        if not memory or (self.values and age < self.values[-1][0] + self.interval):
            return
        self.values.append([round(age), memory])
        if len(self.values) > MOST:
            self.values = self.values[::2]
            self.interval *= 2
