"""The jobs that a worker process holds, in memory shared with its supervisor, which can read it at any time.

What the process knows about a job survives the process: that it has started, that it has ended, and its outcome are
written here before the next step. An entry is written job first and state last. A reader may see a half-written entry:
its id and token then match no row, and every statement about a job names both.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from djqueue.core.records import Settlement
from djqueue.exceptions import DjqueueError
from djqueue.states import Verdict

CAPACITY = 1024  # jobs that one process can hold

FREE, HELD, RUNNING, ENDED = 0, 1, 2, 3

_JOB = struct.Struct("<16s16sdd")  # id, token, lease in seconds, deadline
_SIZE = 64
_STATE = _JOB.size  # its offset in the entry

# The outcome of an entry: verdict, flags, delay, wait, run, then the lengths of the texts that follow.
_OUTCOME = struct.Struct("<BBdddHHH")
_OUTCOME_SIZE = 1024
_ROOM = _OUTCOME_SIZE - _OUTCOME.size
_CLAIM_SIZE = 64  # a flag and a token
_PROCESS_SIZE = CAPACITY * (_SIZE + _OUTCOME_SIZE) + _CLAIM_SIZE
_VERDICTS = list(Verdict)
_NUMBER_OF = {verdict: number for number, verdict in enumerate(_VERDICTS)}
_KEEP_DONE, _FINAL, _UNKNOWN, _HAS_RESULT, _RESULT_LOST = 1, 2, 4, 8, 16

Claim = tuple[UUID, UUID]  # a job's id and its claim's token


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that a process holds."""

    claim: Claim
    lease: float
    state: int
    deadline: float  # monotonic, the same for all processes of a machine; 0 without a timeout
    place: int

    @property
    def running(self) -> bool:
        return self.state == RUNNING


class HeldJobs:
    """The jobs of one process. Only that process writes to them. After its exit, the supervisor clears them."""

    def __init__(self, memory: mmap.mmap | None = None, number: int = 0) -> None:
        self.memory = memory or new_memory(1)
        self.number = number
        self.start_at = number * CAPACITY * _SIZE
        processes = len(self.memory) // _PROCESS_SIZE
        self.outcomes_at = CAPACITY * (processes * _SIZE + number * _OUTCOME_SIZE)
        self.claim_at = processes * CAPACITY * (_SIZE + _OUTCOME_SIZE) + number * _CLAIM_SIZE
        # The last one that was freed comes first: few places are used again and again, and their memory is at hand.
        self.free = list(reversed(range(CAPACITY)))

    def start_claim(self, token: UUID) -> None:
        """Note a claim that is sent to the database now."""
        self.memory[self.claim_at + 1 : self.claim_at + 17] = token.bytes
        self.memory[self.claim_at] = True

    def finish_claim(self) -> None:
        """Note that every job of the claim has been added."""
        self.memory[self.claim_at] = False

    def unfinished_claim(self) -> UUID | None:
        """Return the token of a claim whose jobs may not all have been added; None if there is none."""
        if not self.memory[self.claim_at]:
            return None
        return UUID(bytes=self.memory[self.claim_at + 1 : self.claim_at + 17])

    def add(self, claim: Claim, lease: float) -> int:
        """Add a job that has not started, and return its place."""
        try:
            place = self.free.pop()
        except IndexError:
            raise DjqueueError(f"a worker process can hold at most {CAPACITY} jobs") from None
        at = self.start_at + place * _SIZE
        _JOB.pack_into(self.memory, at, claim[0].bytes, claim[1].bytes, lease, 0.0)
        self.memory[at + _STATE] = HELD
        return place

    def start(self, place: int, claim: Claim, lease: float, deadline: float) -> None:
        """Note that a job is running, and its deadline; 0 means none."""
        at = self.start_at + place * _SIZE
        if deadline:
            _JOB.pack_into(self.memory, at, claim[0].bytes, claim[1].bytes, lease, deadline)
        self.memory[at + _STATE] = RUNNING

    def end(self, place: int, settlement: Settlement) -> None:
        """Note that an attempt has ended, and that its outcome is not yet in the database."""
        _pack(self.memory, self.outcomes_at + place * _OUTCOME_SIZE, settlement)
        self.memory[self.start_at + place * _SIZE + _STATE] = ENDED

    def remove(self, place: int) -> None:
        self.memory[self.start_at + place * _SIZE + _STATE] = FREE
        self.free.append(place)

    def read(self, *, running: bool = False) -> Iterator[Entry]:
        """Return the jobs that the process holds now; if `running`, those alone that run."""
        states = self.memory[self.start_at + _STATE : self.start_at + CAPACITY * _SIZE : _SIZE]
        if states.count(FREE) == CAPACITY:
            return
        for place, state in enumerate(states):
            if state == RUNNING if running else state != FREE:
                job, token, lease, deadline = _JOB.unpack_from(self.memory, self.start_at + place * _SIZE)
                deadline = deadline if state == RUNNING else 0.0  # it counts only while the job is running
                yield Entry((UUID(bytes=job), UUID(bytes=token)), lease, state, deadline, place)

    def outcome(self, entry: Entry) -> tuple[Settlement, bool]:
        """Return the outcome of an attempt that has ended, and whether its result was too large to be kept here."""
        return _unpack(self.memory, self.outcomes_at + entry.place * _OUTCOME_SIZE, entry.claim)

    def clear(self) -> None:
        """Make room for another process."""
        self.memory[self.start_at : self.start_at + CAPACITY * _SIZE] = bytes(CAPACITY * _SIZE)
        self.memory[self.claim_at] = 0
        self.free = list(reversed(range(CAPACITY)))


def new_memory(processes: int) -> mmap.mmap:
    """Return anonymous memory that forked processes share; pages that were never written to cost nothing."""
    return mmap.mmap(-1, processes * _PROCESS_SIZE)


def _pack(memory: mmap.mmap, at: int, item: Settlement) -> None:
    if item.verdict is Verdict.ACK and item.result is None:  # most jobs: only the numbers
        flags = _KEEP_DONE * item.keep_done
        _OUTCOME.pack_into(memory, at, _NUMBER_OF[Verdict.ACK], flags, 0.0, item.wait, item.run, 0, 0, 0)
        return
    result, error, entry = (item.result or "").encode(), item.error.encode(), item.entry.encode()
    flags = _KEEP_DONE * item.keep_done | _FINAL * item.final | _UNKNOWN * item.unknown
    flags |= _HAS_RESULT * (item.result is not None)
    if len(result) + len(error) + len(entry) > _ROOM:
        if len(result) > _ROOM:
            # The work was done, and must not be done again for the sake of its result.
            result, flags = b"", flags & ~_HAS_RESULT | _RESULT_LOST
        if item.entry:
            error, entry = _shortened(item)
    texts = result + error + entry
    lengths = (len(result), len(error), len(entry))
    _OUTCOME.pack_into(memory, at, _NUMBER_OF[item.verdict], flags, item.delay, item.wait, item.run, *lengths)
    memory[at + _OUTCOME.size : at + _OUTCOME.size + len(texts)] = texts


def _shortened(item: Settlement) -> tuple[bytes, bytes]:
    """Return the error and its entry without the traceback, cut so that both fit."""
    entry = {**json.loads(item.entry), "message": item.error[:200], "traceback": ""}
    entry["exception"] = str(entry.get("exception", ""))[-100:]
    line = (json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
    error = item.error[:200].encode()
    return (error, line) if len(error) + len(line) <= _ROOM else (b"", b'{"message":"","traceback":""}\n')


def _unpack(memory: mmap.mmap, at: int, claim: Claim) -> tuple[Settlement, bool]:
    number, flags, delay, wait, run, *lengths = _OUTCOME.unpack_from(memory, at)
    texts, at = [], at + _OUTCOME.size
    for length in lengths:
        texts.append(bytes(memory[at : at + length]).decode())
        at += length
    settlement = Settlement(
        id=claim[0],
        token=claim[1],
        verdict=_VERDICTS[number],
        keep_done=bool(flags & _KEEP_DONE),
        result=texts[0] if flags & _HAS_RESULT else None,
        error=texts[1],
        entry=texts[2],
        delay=delay,
        final=bool(flags & _FINAL),
        unknown=bool(flags & _UNKNOWN),
        wait=wait,
        run=run,
    )
    return settlement, bool(flags & _RESULT_LOST)
