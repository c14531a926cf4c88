"""Read the ledgers of workers: what ran, when, and whether every job ran once."""

from __future__ import annotations

import mmap
import tempfile
from collections import Counter
from pathlib import Path

from .systems.ledger import CAPACITY, RECORD

MEMORY = "/dev/shm"


class NotOnceError(Exception):
    """A job did not run, or ran more than once."""


class Ledgers:
    """The ledgers of all processes of the workers of one run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="compare-ledger-", dir=MEMORY if Path(MEMORY).is_dir() else None
        )
        self.path = Path(self._folder.name)
        self._maps: dict[int, mmap.mmap] = {}
        self._counts: dict[int, int] = {}

    def close(self) -> None:
        for memory in self._maps.values():
            memory.close()
        self._folder.cleanup()

    def counts(self) -> dict[int, int]:
        """Return how many jobs each process has run so far."""
        for path in self.path.iterdir():
            if int(path.name) not in self._maps and path.stat().st_size:
                with path.open("rb") as file:
                    self._maps[int(path.name)] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for pid, memory in self._maps.items():
            self._counts[pid] = _length(memory, self._counts.get(pid, 0))
        return {pid: count for pid, count in self._counts.items() if count}

    def done(self) -> int:
        """Return how many jobs have run so far."""
        return sum(self.counts().values())

    def records(self) -> list[tuple[float, int, int]]:
        """Return the time, number and process of each run, in the order of time."""
        return sorted(
            (time, number, pid)
            for pid, count in self.counts().items()
            for number, time in RECORD.iter_unpack(self._maps[pid][: count * RECORD.size])
            if time  # a killed process may have left a gap
        )

    def check(self, first: int, count: int) -> None:
        """Raise NotOnceError unless each of these jobs ran once, and no other."""
        runs = Counter(number for _, number, _ in self.records())
        expected = range(first, first + count)
        missing = [number for number in expected if number not in runs]
        repeated = [number for number, times in runs.items() if times > 1]
        foreign = [number for number in runs if number not in expected]
        if missing or repeated or foreign:
            raise NotOnceError(
                f"of {count} jobs, {len(missing)} did not run {missing[:5]}, {len(repeated)} ran more than once "
                f"{repeated[:5]}, and {len(foreign)} others ran {foreign[:5]}"
            )


def _length(memory: mmap.mmap, known: int) -> int:
    """Return the number of records: the first place from `known` on that has no time, found by bisection."""
    step = 1
    while known + step < CAPACITY and _is_written(memory, known + step - 1):
        step *= 2
    low, high = known + step // 2, known + step - 1
    while low < high:
        middle = (low + high) // 2
        if _is_written(memory, middle):
            low = middle + 1
        else:
            high = middle
    return low


def _is_written(memory: mmap.mmap, place: int) -> bool:
    return bool(RECORD.unpack_from(memory, place * RECORD.size)[1] > 0)
