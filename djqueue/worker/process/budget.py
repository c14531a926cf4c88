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
MOST_IN_HAND = 600
# Seconds after which jobs that wait for a thread are given back: another process may have a free thread.
STUCK_AFTER = 0.5
# Seconds for which threads that run short jobs may seem busy: each of them waits for Python's lock.
HICCUP = 0.02
# Below this average, in seconds, all claimed jobs are marked as started with the claim: they start soon enough. Marking
# them later takes a statement for every few jobs, which the threads would wait for.
SHORT = 0.03


class Budget:
    """Arithmetic over the options and the counts of the jobs that the process holds; it changes neither."""

    def __init__(self, options: Options, counts: Counts) -> None:
        self.options = options
        self.counts = counts
        # When so few jobs of the threads, or of the event loop, wait or run, the claimer wants to be woken. Set
        # whenever it asks for room: they are compared after every job.
        self.wake_at = self.wake_for_loop_at = CAPACITY

    @property
    def is_spent(self) -> bool:
        """Return whether the process has run as many jobs as it may."""
        return self.options.max_jobs is not None and self.counts.finished >= self.options.max_jobs

    @property
    def total_room(self) -> int:
        """Return how many more jobs of any kind the process may hold."""
        total = self.counts.total  # before `finished`, which grows first
        room = CAPACITY - total
        if self.options.max_jobs is not None:
            room = min(room, self.options.max_jobs - self.counts.finished - total)
        return room

    def room(self) -> tuple[int, int]:
        """Return how many more jobs the threads, and the event loop, can start soon."""
        self.wake_at, self.wake_for_loop_at = self._low, self._low_of_loop
        total = self.total_room
        return min(total, self._room_of_threads()), min(total, self._room_of_loop())

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
        return self.counts.for_threads <= self._low

    @property
    def has_waiting(self) -> bool:
        """Return whether jobs wait for a thread, or for the event loop."""
        return self.counts.for_threads > self.counts.running_in_threads or self._wait_for_loop

    @property
    def threads_are_stuck(self) -> bool:
        """Return whether jobs wait for a thread for too long, because they, or those that run, are longer than before.

        More than four for each thread wait only if they were claimed when jobs were shorter. So what is claimed after
        they are given back is not given back, too.
        """
        counts, threads = self.counts, self.options.threads
        waiting = counts.for_threads - counts.running_in_threads
        will_take = waiting * counts.average / threads if waiting > 4 * threads else 0.0
        return waiting > 0 and max(self._busy_for, will_take) > STUCK_AFTER

    @property
    def loop_is_stuck(self) -> bool:
        """Return whether coroutines have waited for too long, because as many longer ones run as may.

        Not if a queue has both kinds: what is claimed for the threads may be coroutines again, without end.
        """
        return self._wait_for_loop and self._loop_full_for > STUCK_AFTER and not self._has_mixed_queues

    @property
    def _wait_for_loop(self) -> bool:
        return self.counts.for_loop > self.counts.running_in_loop

    @property
    def _loop_full_for(self) -> float:
        """Return the seconds for which no coroutine has started, because as many run as may."""
        counts = self.counts
        return _since(counts.last_start_in_loop) if counts.running_in_loop >= COROUTINES else 0.0

    @property
    def _busy_for(self) -> float:
        """Return the seconds for which no thread has started a job, because each of them runs one."""
        counts = self.counts
        return _since(counts.last_start) if counts.running_in_threads >= self.options.threads else 0.0

    @property
    def _ahead(self) -> int:
        """Return how many jobs may wait for a thread."""
        expected = max(self.counts.average, self._busy_for, 1e-4)
        return int(min(MOST_IN_HAND, self.options.threads * WORK_IN_HAND / expected))

    @property
    def _low(self) -> int:
        return max(self.options.threads - 1, self._ahead // 2)

    @property
    def _has_mixed_queues(self) -> bool:
        return not self.counts.coroutine_queues.isdisjoint(self.counts.plain_queues)

    @property
    def _ahead_of_loop(self) -> int:
        """Return how many jobs may wait for the event loop: none unless they are so short that they hardly overlap."""
        counts = self.counts
        if self._has_mixed_queues:
            return 0
        # One of them may block the loop, so that no other can start.
        silent_for = _since(counts.last_start_in_loop) if counts.running_in_loop else 0.0
        return int(min(MOST_IN_HAND, WORK_IN_HAND / max(counts.loop_average, silent_for, 1e-4)))

    @property
    def _low_of_loop(self) -> int:
        return max(COROUTINES - 1, self._ahead_of_loop // 2)

    def _room_of_loop(self) -> int:
        in_loop = self.counts.for_loop
        return COROUTINES + self._ahead_of_loop - in_loop if in_loop <= self._low_of_loop else 0

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


def _since(start: float) -> float:
    """Return the seconds since a job was started; 0 if it may just wait for Python's lock."""
    passed = time.monotonic() - start
    return passed if passed > HICCUP else 0.0
