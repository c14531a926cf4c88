"""A small model of a queue: how many threads a load needs, and how often a job finds no free one."""

from __future__ import annotations

import math


def threads_for(rate: float, duration: float, use: float) -> int:
    """Return how many threads run so many jobs per second of this duration, if each is used for this share of time.

    By Little's law, `rate * duration` jobs run at the same time, whatever the distribution of their durations is.
    """
    return math.ceil(rate * duration / use)


def chance_to_wait(threads: int, busy: float) -> float:
    """Return the probability that all threads are busy when a job arrives (Erlang C).

    `busy` is the mean number of busy threads, `rate * duration`. Jobs arrive at random times.
    """
    if busy >= threads:
        return 1.0
    blocked = 1.0  # Erlang B, for one more thread in each turn
    for number in range(1, threads + 1):
        blocked = busy * blocked / (number + busy * blocked)
    return blocked / (1 - busy / threads * (1 - blocked))
