from __future__ import annotations

from collections.abc import Iterator

HOST = "127.0.0.1"
MOST = 100


def candidates(wanted: int) -> Iterator[int]:
    """The port that is wanted, those that follow, and in the end 0: any that is free."""
    yield from range(wanted, min(wanted + MOST, 65536))
    yield 0
