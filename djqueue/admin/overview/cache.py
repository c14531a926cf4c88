"""Keep what was read for so long that reading it costs little, however many people have the page open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from djqueue.conf import config

T = TypeVar("T")

TIMES = 300  # a value is kept for so many times as long as it took to make it, so it costs at most 1/300 of a core
LEAST, MOST = 2.0, 60.0  # seconds


@dataclass(slots=True)
class Kept(Generic[T]):
    value: T
    version: int  # the time in microseconds, so that versions of several processes can be compared
    made: float  # by time.monotonic()
    seconds: float  # that it took to make it; those who render it add theirs

    def lasts(self, times: int) -> float:
        return min(MOST, max(LEAST, times * self.seconds))


class Cache(Generic[T]):
    """A value per database, made by one thread at a time while the others get the previous one."""

    def __init__(self, make: Callable[[], T], times: int = TIMES) -> None:
        self.make, self.times = make, times
        self._kept: dict[str, Kept[T]] = {}
        self._lock = threading.Lock()

    def get(self) -> Kept[T]:
        alias = config().database
        found = self._kept.get(alias)
        if found is not None and not self._is_older(found):
            return found
        # A value that nobody has asked for lately is too old to be shown.
        usable = found is not None and not self._is_older(found, MOST)
        if not self._lock.acquire(blocking=not usable):
            assert found is not None
            return found
        try:
            latest = self._kept.get(alias)
            if latest is None or self._is_older(latest):  # otherwise it was made while this thread waited
                latest = self._kept[alias] = self._made()
            return latest
        finally:
            self._lock.release()

    def _is_older(self, kept: Kept[T], by: float = 0.0) -> bool:
        return time.monotonic() >= kept.made + kept.lasts(self.times) + by

    def _made(self) -> Kept[T]:
        version, start = time.time_ns() // 1000, time.monotonic()
        value = self.make()
        end = time.monotonic()
        return Kept(value, version, end, end - start)

    def forget(self) -> None:
        """Make the value again when it is needed next: an operator has changed something."""
        self._kept.clear()
