"""UUIDv7 generated in Python: known before the insert, and ordered by time."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterator
from uuid import UUID, SafeUUID


class Generator:
    """Generate strictly increasing ids within a process, across its threads.

    The 12 bits after the milliseconds hold their fraction. The last value is kept, so that the order holds even if the
    clock stands still or goes back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> UUID:
        return next(self.many(1))

    def many(self, count: int) -> Iterator[UUID]:
        """Return so many ids, for less than as many calls."""
        millis, nanos = divmod(time.time_ns(), 1_000_000)
        ticks = (millis << 12) | (nanos * 4096 // 1_000_000)
        with self._lock:
            first = max(ticks, self._last + 1)
            self._last = first + count - 1
        random = struct.unpack(f"{count}Q", os.urandom(8 * count))
        return map(_uuid, range(first, first + count), random)


def _uuid(ticks: int, random: int) -> UUID:
    made = _new(UUID)  # without its checks, which take longer than all the rest
    _set_int(made, ((ticks >> 12) << 16 | 0x7000 | ticks & 0xFFF) << 64 | 0x8000_0000_0000_0000 | random >> 2)
    _set_is_safe(made, _UNKNOWN)
    return made


# A UUID itself cannot be changed, but its slots can be set.
_new, _set_int, _set_is_safe = UUID.__new__, vars(UUID)["int"].__set__, vars(UUID)["is_safe"].__set__
_UNKNOWN = SafeUUID.unknown


uuid7 = Generator()

# In a child that is forked while another thread holds the lock, the lock would never be released.
os.register_at_fork(after_in_child=uuid7.__init__)  # type: ignore[misc]
