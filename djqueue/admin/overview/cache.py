"""Keep what was read for so long that reading it costs little, however many people have the page open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from djqueue.conf import config

T = TypeVar("T")

LEAST, MOST = 2.0, 60.0  # seconds for which a value is kept


@dataclass(slots=True)
class Kept(Generic[T]):
    value: T
    version: int  # the time in microseconds, so that versions of several processes can be compared
    made: float  # by time.monotonic()
    seconds: float  # that it took to make it; those who render it add theirs
    times: float  # as long it is kept
    most: float = MOST

    def is_older(self, by: float = 0.0) -> bool:
        """Return whether it has been kept for its time, or longer by some seconds."""
        return time.monotonic() >= self.made + min(self.most, max(LEAST, self.times * self.seconds)) + by


class Cache(Generic[T]):
    """A value per database, made by one thread at a time while the others get the previous one.

    It is kept for so many times as long as it took to make it, so it costs at most 1/times of a core; for a short time
    only if it is urgent.
    """

    def __init__(
        self,
        make: Callable[[], T],
        times: int,
        most: float = MOST,
        is_urgent: Callable[[T], bool] = lambda value: False,
    ) -> None:
        self.make, self.times, self.most, self.is_urgent = make, times, most, is_urgent
        self._kept: dict[str, Kept[T]] = {}
        self._lock = threading.Lock()

    def get(self) -> Kept[T]:
        alias = config().database
        found = self._kept.get(alias)
        if found is not None and not found.is_older():
            return found
        # A value that has not been requested for so long is too old to be shown.
        usable = found is not None and not found.is_older(MOST)
        if not self._lock.acquire(blocking=not usable):
            assert found is not None
            return found
        try:
            latest = self._kept.get(alias)
            if latest is None or latest.is_older():  # otherwise it was made while this thread waited
                latest = self._kept[alias] = self._made()
            return latest
        finally:
            self._lock.release()

    def _made(self) -> Kept[T]:
        version, start = time.time_ns() // 1000, time.monotonic()
        value = self.make()
        end = time.monotonic()
        return Kept(value, version, end, end - start, 0 if self.is_urgent(value) else self.times, self.most)

    def forget(self) -> None:
        """Make the value again when it is needed next: an operator has changed something."""
        self._kept.clear()
