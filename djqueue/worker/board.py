"""What a worker process holds, in memory that its supervisor reads whatever the process is doing, even if it is dead.

An entry is written job first and state last, and a reader may see one that is half written: its id and its token then
fit no row, and every act on a job names both.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from djqueue.exceptions import DjqueueError

PLACES = 1024  # of one process

FREE, HELD, RUNNING = 0, 1, 2

_JOB = struct.Struct("<16s16sdd")  # id, token, lease in seconds, deadline
_SIZE = 64
_STATE = _JOB.size  # its offset in the entry
_DEADLINE = struct.Struct("<d")
_DEADLINE_AT = _JOB.size - _DEADLINE.size

Claim = tuple[UUID, UUID]  # a job's id and its claim's token


@dataclass(frozen=True, slots=True)
class Entry:
    """A job in a process's hands."""

    claim: Claim
    lease: float
    running: bool
    deadline: float  # monotonic, the same for all processes of a machine; 0 without a timeout


class Board:
    """The places of one process; it alone writes, until it is dead."""

    def __init__(self, memory: mmap.mmap | None = None, number: int = 0) -> None:
        self.memory = memory or new_memory(1)
        self.number = number
        self.start = number * PLACES * _SIZE
        self.free = deque(range(PLACES))

    def put(self, claim: Claim, lease: float) -> int:
        """Show a job as held; gives its place."""
        try:
            place = self.free.popleft()
        except IndexError:
            raise DjqueueError(f"a process holds {PLACES} jobs at most") from None
        at = self.start + place * _SIZE
        _JOB.pack_into(self.memory, at, claim[0].bytes, claim[1].bytes, lease, 0.0)
        self.memory[at + _STATE] = HELD
        return place

    def run(self, place: int, claim: Claim, lease: float, deadline: float) -> None:
        """Show a job as running, until the deadline."""
        at = self.start + place * _SIZE
        if deadline:
            _JOB.pack_into(self.memory, at, claim[0].bytes, claim[1].bytes, lease, deadline)
        self.memory[at + _STATE] = RUNNING

    def end(self, place: int) -> None:
        """Its run is over, whenever its outcome will be written: no timeout any more."""
        _DEADLINE.pack_into(self.memory, self.start + place * _SIZE + _DEADLINE_AT, 0.0)

    def take_down(self, place: int) -> None:
        self.memory[self.start + place * _SIZE + _STATE] = FREE
        self.free.append(place)

    def read(self) -> Iterator[Entry]:
        """What it shows now."""
        page = self.memory[self.start : self.start + PLACES * _SIZE]
        for at in range(0, len(page), _SIZE):
            state = page[at + _STATE]
            if state != FREE:
                job, token, lease, deadline = _JOB.unpack_from(page, at)
                yield Entry((UUID(bytes=job), UUID(bytes=token)), lease, state == RUNNING, deadline)

    def wipe(self) -> None:
        """Make room for another process."""
        self.memory[self.start : self.start + PLACES * _SIZE] = bytes(PLACES * _SIZE)
        self.free = deque(range(PLACES))


def new_memory(processes: int) -> mmap.mmap:
    """Anonymous memory that forked processes share."""
    return mmap.mmap(-1, processes * PLACES * _SIZE)
