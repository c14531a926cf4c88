"""How much a process claims: what it can start soon, shared out among the queues that have something."""

from __future__ import annotations

import threading
import time
from collections import Counter

from djqueue.conf import config
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.sql import statements

from .board import PLACES
from .options import Options

COROUTINES = 100  # at once in one process
# So much work, in seconds, may lie ready behind the threads: enough to keep them busy during a round trip.
WORK_IN_HAND = 0.05
MOST_IN_HAND = 400
# Queues that were found are claimed from for so long without looking for others.
LOOK_AGAIN = 0.25


class Budget:
    """Counts what is in hand: waiting for a thread or the loop, running, and waiting to be settled."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.lock = threading.Lock()
        self.by_queue: Counter[str] = Counter()  # waiting or running, as are the next two
        self.for_threads = 0
        self.for_loop = 0
        self.in_hand = 0
        self.running = 0
        self.finished = 0
        self.average = WORK_IN_HAND  # seconds of a thread's job
        self.coroutine_queues: set[str] = set()  # that have had coroutines
        self.plain_queues: set[str] = set()  # that have had plain functions
        self.names: list[str] = []
        self.names_until = 0.0
        self.is_fresh = False  # the queues were looked for just now
        self.turn = 0  # claims that were made

    # What happens to jobs

    def took(self, job: ClaimedJob, coroutine: bool) -> None:
        with self.lock:
            self.in_hand += 1
            self.by_queue[job.queue] += 1
            if coroutine:
                self.for_loop += 1
                self.coroutine_queues.add(job.queue)
            else:
                self.for_threads += 1
                self.plain_queues.add(job.queue)

    def started(self) -> None:
        with self.lock:
            self.running += 1

    def ended(self, job: ClaimedJob, coroutine: bool, seconds: float | None) -> None:
        """A job has an outcome; `seconds` is how long it ran, if it did."""
        with self.lock:
            self.by_queue[job.queue] -= 1
            if coroutine:
                self.for_loop -= 1
            else:
                self.for_threads -= 1
                if seconds is not None:
                    self.average += 0.1 * (seconds - self.average)

    def settled(self, ran: bool) -> None:
        """Its outcome has been written."""
        with self.lock:
            self.in_hand -= 1
            if ran:
                self.running -= 1
                self.finished += 1

    @property
    def is_spent(self) -> bool:
        """Whether it has run as many jobs as it may."""
        return self.options.max_jobs is not None and self.finished >= self.options.max_jobs

    # What to claim

    @property
    def room(self) -> int:
        """How many jobs more may be in hand at all."""
        room = PLACES - self.in_hand
        if self.options.max_jobs is not None:
            room = min(room, self.options.max_jobs - self.finished - self.in_hand)
        return room

    def wants(self) -> dict[str, int]:
        """How many jobs of which queues to ask for now."""
        room = self.room
        threads, loop = min(room, self._room_of_threads()), min(room, COROUTINES - self.for_loop)
        if max(threads, loop) <= 0:
            return {}
        wants = self._wants_of(self._queues(), threads, loop)
        if not wants and not self.is_fresh and threads > 0:  # a queue that was empty then may have something now
            self.look_again()
            wants = self._wants_of(self._queues(), threads, loop)
        return wants

    def _wants_of(self, names: list[str], threads: int, loop: int) -> dict[str, int]:
        permits = {name: count for name in names if (count := self._permits(name)) > 0}
        coroutines = [name for name in permits if name in self.coroutine_queues and name not in self.plain_queues]
        others = [name for name in permits if name not in coroutines]
        wants = self._share(coroutines, loop)
        wants |= self._share(others, threads) if threads > 0 else self._beside_busy_threads(others, loop)
        return {name: min(count, permits[name]) for name, count in wants.items() if count > 0}

    def _beside_busy_threads(self, names: list[str], loop: int) -> dict[str, int]:
        """Coroutines need no thread, but what kind a job is shows when it is claimed: a few may be tried.

        One of a queue that nothing is known of, and of mixed queues as many as the threads could soon take.
        """
        unknown = [name for name in names if name not in self.plain_queues]
        mixed = [name for name in names if name in self.coroutine_queues]
        spare = 2 * self.options.threads - max(0, self.for_threads - self._store)
        return dict.fromkeys(unknown[: max(0, loop)], 1) | self._share(mixed, min(loop, spare))

    def claimed(self) -> None:
        """A claim was made: it is another queue's turn."""
        self.turn += 1

    def look_again(self) -> None:
        """Forget which queues had something."""
        self.names_until = 0.0

    @property
    def is_low(self) -> bool:
        """Whether a thread has nothing to do, or the store behind them is half empty."""
        return self.for_threads < self.options.threads or self.for_threads <= self._store / 2

    @property
    def _store(self) -> int:
        """How many jobs may wait for a thread."""
        return int(min(MOST_IN_HAND, self.options.threads * WORK_IN_HAND / max(self.average, 1e-4)))

    def _room_of_threads(self) -> int:
        """How many more jobs the threads can start soon."""
        return self.options.threads + self._store - self.for_threads if self.is_low else 0

    def _queues(self) -> list[str]:
        """The queues to claim from, in the order of preference where there is one, else each first in its turn."""
        self.is_fresh = time.monotonic() >= self.names_until
        if self.is_fresh:
            chosen, exclude = self.options.queues, self.options.exclude
            found = [name for name in statements().claimable_queues() if name not in exclude]
            self.names = [name for name in chosen if name in found] if chosen else found
            self.names_until = time.monotonic() + LOOK_AGAIN
        # Every so often the last is first: nobody waits for ever behind a queue that is never empty.
        if not self.names or (self.options.queues and self.turn % 8):
            return self.names
        first = (self.turn // 8 if self.options.queues else self.turn) % len(self.names)
        return self.names[first:] + self.names[:first]

    def _share(self, names: list[str], room: int) -> dict[str, int]:
        """Equal shares; with an order of preference one place for each, and the rest for the first."""
        names = names[: max(0, room)]
        if not names:
            return {}
        if self.options.queues:
            return dict.fromkeys(names, 1) | {names[0]: room - len(names) + 1}
        share, more = divmod(room, len(names))
        return {name: share + (place < more) for place, name in enumerate(names)}

    def _permits(self, queue: str) -> int:
        """How many more of this queue's jobs may be in our hands."""
        limit = self.options.queues.get(queue) or config().queue(queue).concurrency
        if limit is None:
            return PLACES
        with self.lock:
            return max(0, limit - self.by_queue[queue])
