"""The arithmetic of an estimate: when a server with some capacity has worked off what is ahead.

All work is in seconds of run time as workers measure it, from the claim to the end of a job. That includes the time for
which a job waits in its worker process, and so does the measured capacity: it cancels out, or is subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt

from djqueue.operations.rates import Histogram
from djqueue.sql.throughput import BUCKETS

# Nine tenths of a normal distribution are below the mean plus so many standard deviations.
NINETY = 1.2816
# The relative error of a capacity that is measured well: jobs and machines differ from one minute to the next.
LEAST_ERROR = 0.25
# A capacity that is only assumed counts like one that was measured by so many jobs.
ASSUMED_JOBS = 5
# The part of a measured run time that is not waiting, at the least.
LEAST_RUN = 0.05
# Seconds by which a job may start late although a thread is free: claims, commits and notifications take time.
LATENCY = 0.25


@dataclass(frozen=True, slots=True)
class RunTime:
    """The distribution of the run times of one task."""

    mean: float
    variance: float
    cells: Sequence[tuple[float, float, int]] = ()  # from, to, number of attempts

    def without(self, idle: float) -> RunTime:
        """Return the run time without the seconds for which a job waits in its worker process."""
        mean = max(self.mean - idle, self.mean * LEAST_RUN)
        return replace(self, mean=mean, variance=min(self.variance, mean * self.variance / (self.mean or 1)))

    def remaining(self, age: float) -> float:
        """Return the expected rest of a run that has taken so long. It is as long again if no run took longer."""
        longer = [(max(low, age), high, count) for low, high, count in self.cells if high > age]
        total = sum(count for _, _, count in longer)
        return sum(count * ((low + high) / 2 - age) for low, high, count in longer) / total if total else age


def run_time(histogram: Histogram) -> RunTime | None:
    """Return the distribution of measured run times; the variance is that of even distributions within the cells."""
    mean, total = histogram.mean, histogram.total
    if mean is None:
        return None
    cells = [(*bounds(cell, mean), count) for cell, count in enumerate(histogram.counts) if count]
    square = sum(count * (low * low + low * high + high * high) / 3 for low, high, count in cells) / total
    return RunTime(mean, max(square - mean * mean, 0.0), cells)


def bounds(cell: int, mean: float) -> tuple[float, float]:
    low = BUCKETS[cell - 1] if cell else 0.0
    return low, BUCKETS[cell] if cell < len(BUCKETS) else max(2 * low, mean)


def average(known: Sequence[tuple[float, RunTime]]) -> RunTime | None:
    """Return the run time of a job of one of these tasks, given how often each occurs."""
    total = sum(count for count, _ in known)
    if not total:
        return None
    mean = sum(count * run.mean for count, run in known) / total
    square = sum(count * (run.variance + run.mean**2) for count, run in known) / total
    return RunTime(mean, max(square - mean**2, 0.0), [cell for _, run in known for cell in run.cells])


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many seconds of run time are worked off in a second, and how well that is known."""

    seconds: float
    measured: int = 0  # the number of jobs by which it was measured

    def within(self, threads: float, elapsed: float) -> tuple[Capacity, float]:
        """Return the capacity of so many threads if more was measured, and the seconds for which jobs were only held.

        More seconds of run time per second than there are threads are possible because workers claim jobs ahead.
        """
        if not self.measured or self.seconds <= threads:
            return self, 0.0
        return Capacity(threads, self.measured), (self.seconds - threads) * elapsed / self.measured

    def blended(self, assumed: float) -> Capacity:
        """Return a mean of what was measured and what is assumed, by the number of jobs behind each."""
        total = self.measured + ASSUMED_JOBS
        return Capacity((self.seconds * self.measured + assumed * ASSUMED_JOBS) / total, self.measured)

    @property
    def error(self) -> float:
        """The relative standard error."""
        return sqrt(LEAST_ERROR**2 + 1 / (self.measured + ASSUMED_JOBS))


@dataclass(frozen=True, slots=True)
class Load:
    """What comes before a job."""

    capacity: Capacity
    ahead: Sequence[tuple[float, RunTime]] = ()  # number of jobs, run time
    held: Sequence[float] = ()  # expected remaining seconds of each job that workers hold

    def start(self) -> tuple[float, float]:
        """Return the seconds after which the job has started with a probability of 50% and of 90%."""
        middle = self._worked_off(self._work())
        spread = sum(count * run.variance for count, run in self.ahead)
        spread += sum(min(rest, middle) ** 2 for rest in self.held)  # the rest of a run may be of any length
        deviation = sqrt(spread / self.capacity.seconds**2 + (self.capacity.error * middle) ** 2)
        return middle, middle + NINETY * deviation + LATENCY

    def _work(self) -> float:
        """Return the work that is ahead, without what the other threads have still to do when the job starts."""
        usual = average(self.ahead)
        if usual is None or not usual.mean:
            return 0.0
        work = sum(count for count, _ in self.ahead) * usual.mean
        rest = (usual.variance + usual.mean**2) / (2 * usual.mean)  # of a run at a random moment
        return work - min(max(self.capacity.seconds - 1, 0) * rest, work / 2)

    def _worked_off(self, work: float) -> float:
        """Return when the work is done and a thread is free. Until then, a held job takes part of the capacity.

        The held jobs that end before are those with the shortest rests; the others take one thread each.
        """
        rests, ended = self._one_after_the_other(), 0.0
        for number, rest in enumerate([*rests, inf]):
            free = self.capacity.seconds - (len(rests) - number)
            if free > 1e-9:
                end = max((work + ended) / free, rests[number - 1] if number else 0.0)
                if end <= rest:
                    return end
            ended += rest
        return inf

    def _one_after_the_other(self) -> list[float]:
        """Return when the held jobs end: random rests are spread, so the first of n ends after an nth of the mean."""
        count, factor, ends = len(self.held), 0.0, []
        for number, rest in enumerate(sorted(self.held)):
            factor += 1 / (count - number)
            ends.append(rest * factor)
        return ends
