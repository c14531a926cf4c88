"""Keep what was computed for so long that computing it costs little, however many people have the page open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from djqueue.conf import config

T = TypeVar("T")

TIMES = 300  # a value is kept for so many times as long as it took to compute, so it costs at most 1/300 of a core
LEAST, MOST = 2.0, 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    value: T
    version: int  # the time in microseconds, so that versions of several processes can be compared
    until: float  # by time.monotonic()


class Cache(Generic[T]):
    """A value per database, computed by one thread at a time while the others get the previous one."""

    def __init__(self, compute: Callable[[], T], times: int = TIMES) -> None:
        self.compute, self.times = compute, times
        self._kept: dict[str, Kept[T]] = {}
        self._lock = threading.Lock()

    def get(self) -> Kept[T]:
        alias = config().database
        found = self._kept.get(alias)
        now = time.monotonic()
        if found is not None and now < found.until:
            return found
        # A value that nobody has asked for lately is too old to be shown.
        usable = found is not None and now < found.until + MOST
        if not self._lock.acquire(blocking=not usable):
            assert found is not None
            return found
        try:
            latest = self._kept.get(alias)
            if latest is not None and time.monotonic() < latest.until:  # computed while this thread waited
                return latest
            kept = self._kept[alias] = self._computed()
            return kept
        finally:
            self._lock.release()

    def _computed(self) -> Kept[T]:
        version, start = time.time_ns() // 1000, time.perf_counter()
        value = self.compute()
        took = time.perf_counter() - start
        return Kept(value, version, time.monotonic() + min(MOST, max(LEAST, self.times * took)))

    def forget(self) -> None:
        """Compute the value again when it is needed next: an operator has changed something."""
        self._kept.clear()
