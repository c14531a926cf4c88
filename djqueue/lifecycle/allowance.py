"""How many jobs of a limit key may be admitted, and when more may: arithmetic over what was read of the key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

from djqueue.core import registry
from djqueue.core.limits import Numbers
from djqueue.core.records import AdmittedJob, LimitRow

JOBS = 1000  # of one key in one transaction
LOCKED_ELSEWHERE = 0.5  # seconds after which a key is read again, if its row or those of its next jobs are locked
SHORTEST = 0.05
EXACT = 1e-6  # of a job: what rounding may cost


def numbers_of(row: LimitRow, task: str | None) -> Numbers | None:
    """Return what the key allows to jobs of a task; None without a task, or if its limit is not known here."""
    if task is None:
        return None
    options = registry.known_options(task)
    if options is None:
        # A process that does not know the task does not know its limit, unless an operator has set all of it.
        return row.override if row.override.concurrency is not None and row.override.rate is not None else None
    return (Numbers() if options.limit is None else options.limit.numbers).replaced_by(row.override)


def used_for(row: LimitRow) -> float:
    """Return for how many seconds the rate of the key is used up."""
    return 0.0 if row.spent_until is None else max(0.0, (row.spent_until - row.now).total_seconds())


class Allowance:
    """The arithmetic of one admission, which reads the numbers of each task once, however many keys there are."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, Numbers], Numbers | None] = {}
        self._mixed: dict[Numbers, bool] = {}

    def numbers(self, row: LimitRow, task: str | None) -> Numbers | None:
        """Return what the key allows to jobs of a task."""
        place = task, row.override
        if place not in self._known:
            self._known[place] = numbers_of(row, task)
        return self._known[place]

    def left(self, row: LimitRow, task: str | None) -> int:
        """Return how many jobs of the key may be admitted now, by the numbers of a task."""
        numbers = self.numbers(row, task)
        if numbers is None or (row.held_until is not None and row.held_until > row.now):
            return 0
        most = JOBS
        if numbers.concurrency is not None:
            most = min(most, numbers.concurrency - row.admitted)
        if numbers.rate is not None:
            burst = numbers.burst or 1
            # Jobs that were admitted and not claimed count too: all of them may start at once.
            most = min(most, burst - row.pending, math.floor(burst - used_for(row) * numbers.rate + EXACT))
        return max(0, most)

    def may_overtake(self, row: LimitRow) -> bool:
        """Return whether the next job could be admitted if a job of a lower priority gave its permit back."""
        if not row.overtakes:
            return False
        return self.left(row._replace(admitted=row.admitted - 1, pending=row.pending - 1), row.task) > 0

    def allowed(self, row: LimitRow, jobs: Sequence[AdmittedJob]) -> int:
        """Return how many of the jobs, in their order, are within the limits of their own tasks.

        Tasks that share a key may have different numbers: if those of a job are used up, it waits, and so do those
        behind it.
        """
        most = {task: self.left(row, task) for task in {job.task for job in jobs}}
        return next((place for place, job in enumerate(jobs) if place >= most[job.task]), len(jobs))

    def seconds_of_rate(self, row: LimitRow, jobs: Iterable[AdmittedJob]) -> float:
        """Return for how long admitted jobs use up the rate of the key, each at the rate of its own task."""
        rates = [numbers.rate for job in jobs if (numbers := self.numbers(row, job.task)) is not None]
        return sum(1 / rate for rate in rates if rate is not None)

    def is_mixed(self, row: LimitRow) -> bool:
        """Return whether the key may be shared by tasks with different numbers."""
        if row.override not in self._mixed:
            self._mixed[row.override] = len({numbers.replaced_by(row.override) for numbers in self._limits}) > 1
        return self._mixed[row.override]

    @cached_property
    def _limits(self) -> set[Numbers]:
        """The numbers of all tasks that have a limit."""
        return {options.limit.numbers for options in registry.known().values() if options.limit is not None}

    def waits(self, rows: Iterable[LimitRow]) -> dict[str, float]:
        """Return the seconds until the rate or the hold of a key allows more, if nothing else is missing."""
        waits = {}
        for row in rows:
            numbers = self.numbers(row, row.task)
            if numbers is None or (numbers.rate is None and row.held_until is None):
                continue
            wait = 0.0
            if row.held_until is not None:
                wait = (row.held_until - row.now).total_seconds()
            if numbers.rate is not None:
                burst = numbers.burst or 1
                wait = max(wait, used_for(row) - (burst - 1) / numbers.rate)
                if row.pending >= burst:
                    wait = max(wait, min(LOCKED_ELSEWHERE, 1 / numbers.rate), SHORTEST)  # until they are claimed
            if wait > 0:
                waits[row.key] = wait
        return waits
