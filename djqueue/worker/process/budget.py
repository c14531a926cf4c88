"""How much a process claims: what it can start soon, divided among the queues that have something."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from djqueue.core.options import resolve
from djqueue.lifecycle.claim import MOST
from djqueue.worker.held_jobs import CAPACITY
from djqueue.worker.options import Options

from .in_hand import Counts

COROUTINES = 100  # at once in one process
# Seconds of work to claim ahead for the threads: enough to keep them busy during a round trip.
WORK_IN_HAND = 0.05
MOST_IN_HAND = 400
# Seconds after which jobs that wait for a thread are given back: another process may have a free thread.
STUCK_AFTER = 0.5
# Below this average, in seconds, all claimed jobs are marked as started with the claim: they start soon enough.
SHORT = 0.005


class Budget:
    """Arithmetic over the options and the counts of the jobs that the process holds; it changes neither."""

    def __init__(self, options: Options, counts: Counts) -> None:
        self.options = options
        self.counts = counts

    @property
    def is_spent(self) -> bool:
        """Return whether the process has run as many jobs as it may."""
        return self.options.max_jobs is not None and self.counts.finished >= self.options.max_jobs

    @property
    def total_room(self) -> int:
        """Return how many more jobs of any kind the process may hold."""
        room = CAPACITY - self.counts.total
        if self.options.max_jobs is not None:
            room = min(room, self.options.max_jobs - self.counts.finished - self.counts.total)
        return room

    def room(self) -> tuple[int, int]:
        """Return how many more jobs the threads, and the event loop, can start soon."""
        total = self.total_room
        return min(total, self._room_of_threads()), min(total, COROUTINES - self.counts.for_loop)

    def wants(self, queues: Sequence[str], threads: int, loop: int) -> dict[str, int]:
        """Return how many jobs to claim from each of these queues, with so much room for the threads and the loop."""
        permits = {name: count for name in queues if (count := self._permits(name)) > 0}
        coroutines = [name for name in permits if self._has_only_coroutines(name)]
        others = [name for name in permits if name not in coroutines]
        wants = self._share(coroutines, loop)
        wants |= self._share(others, threads) if threads > 0 else self._beside_busy_threads(others, loop)
        return {name: min(count, permits[name]) for name, count in wants.items() if count > 0}

    def start_at_once(self, wants: Iterable[str]) -> int:
        """Return how many of the jobs that are claimed now start at once: all if they are short, or coroutines."""
        if self.counts.average < SHORT or all(self._has_only_coroutines(name) for name in wants):
            return MOST
        return max(0, self.options.threads - self.counts.for_threads)

    @property
    def is_low(self) -> bool:
        """Return whether a thread has nothing to do, or fewer than half of the jobs claimed ahead are left."""
        waiting_or_running = self.counts.for_threads
        return waiting_or_running < self.options.threads or waiting_or_running <= self._ahead / 2

    @property
    def has_waiting(self) -> bool:
        """Return whether jobs wait for a thread."""
        return self.counts.for_threads > self.counts.running_in_threads

    @property
    def is_stuck(self) -> bool:
        """Return whether jobs have waited for a thread for too long, because all threads run longer ones."""
        return self.has_waiting and self._busy_for > STUCK_AFTER

    @property
    def _busy_for(self) -> float:
        """Return the seconds for which no thread has started a job, because each of them runs one."""
        counts = self.counts
        return time.monotonic() - counts.last_start if counts.running_in_threads >= self.options.threads else 0.0

    @property
    def _ahead(self) -> int:
        """Return how many jobs may wait for a thread."""
        expected = max(self.counts.average, self._busy_for, 1e-4)
        return int(min(MOST_IN_HAND, self.options.threads * WORK_IN_HAND / expected))

    def _room_of_threads(self) -> int:
        return self.options.threads + self._ahead - self.counts.for_threads if self.is_low else 0

    def _beside_busy_threads(self, names: list[str], loop: int) -> dict[str, int]:
        """Return what to claim for the loop alone from queues that may have plain functions too.

        Whether a job is a coroutine is known only after the claim. So claim one job of a queue of which nothing is
        known, and of mixed queues as many as the threads could soon take.
        """
        unknown = [name for name in names if name not in self.counts.plain_queues]
        mixed = [name for name in names if name in self.counts.coroutine_queues]
        spare = 2 * self.options.threads - max(0, self.counts.for_threads - self._ahead)
        return dict.fromkeys(unknown[: max(0, loop)], 1) | self._share(mixed, min(loop, spare))

    def _has_only_coroutines(self, queue: str) -> bool:
        return queue in self.counts.coroutine_queues and queue not in self.counts.plain_queues

    def _share(self, names: list[str], room: int) -> dict[str, int]:
        """Return equal shares; with an order of preference one job for each queue, and the rest for the first."""
        names = names[: max(0, room)]
        if not names:
            return {}
        if self.options.queues:
            return dict.fromkeys(names, 1) | {names[0]: room - len(names) + 1}
        share, more = divmod(room, len(names))
        return {name: share + (place < more) for place, name in enumerate(names)}

    def _permits(self, queue: str) -> int:
        """Return how many more jobs of this queue may be waiting or running."""
        limit: int | None = resolve("concurrency", queue, call=self.options.queues.get(queue))
        return CAPACITY if limit is None else max(0, limit - self.counts.by_queue[queue])
