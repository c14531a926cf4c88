"""UUIDv7 generated in Python: known before the insert, and ordered by time."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID


class Generator:
    """Generate strictly increasing ids within a process, across its threads.

    The 12 bits after the milliseconds hold their fraction. The last value is kept, so that the order holds even if the
    clock stands still or goes back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> UUID:
        millis, nanos = divmod(time.time_ns(), 1_000_000)
        ticks = (millis << 12) | (nanos * 4096 // 1_000_000)
        with self._lock:
            ticks = self._last = max(ticks, self._last + 1)
        random = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
        return UUID(int=(ticks >> 12) << 80 | 7 << 76 | (ticks & 0xFFF) << 64 | 2 << 62 | random)


uuid7 = Generator()

# In a child that is forked while another thread holds the lock, the lock would never be released.
os.register_at_fork(after_in_child=uuid7.__init__)  # type: ignore[misc]
