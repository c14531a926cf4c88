"""One run of the comparison: the systems, the size of the workloads, and the order in which systems take turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from .ledgers import NotOnceError
from .results import Results
from .subject import FailedError, Subject


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repetitions: int = 3
    singles: int = 2_000  # jobs that djqueue enqueues one by one
    bulk: int = 100_000
    drain: int = 60_000
    pickups: int = 300
    near: int = 10_000  # jobs that run beside the depth
    depth: int = 1_000_000
    idle: float = 60  # seconds
    mixed: int = 4_000

    def scaled(self, factor: float) -> Sizes:
        """Return the same with more or fewer jobs."""
        counts = {name: max(10, int(getattr(self, name) * factor)) for name in COUNTS}
        return replace(self, **counts)


COUNTS = ("singles", "bulk", "drain", "pickups", "near", "depth", "mixed")
QUICK = Sizes(2, 1_000, 20_000, 20_000, 60, 2_000, 100_000, 10, 1_000)


@dataclass
class Run:
    """What a workload needs to know."""

    subjects: dict[str, Subject]
    sizes: Sizes
    results: Results = field(default_factory=Results)
    load: float = field(default_factory=lambda: os.getloadavg()[0])  # of the machine, before the run
    began: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Print a line of progress."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def take_turns(
        self, measure: Callable[[Subject, int], None], wanted: Callable[[Subject], bool] = lambda subject: True
    ) -> None:
        """Measure each system once per repetition; each repetition begins with another one.

        A system that fails is not measured again in this workload, and is reported.
        """
        subjects = [subject for subject in self.subjects.values() if wanted(subject)]
        failed: set[str] = set()
        for repetition in range(self.sizes.repetitions if subjects else 0):
            start = repetition % len(subjects)
            for subject in subjects[start:] + subjects[:start]:
                if subject.name not in failed and not self.attempt(subject, partial(measure, subject, repetition + 1)):
                    failed.add(subject.name)

    def attempt(self, subject: Subject, work: Callable[[], None]) -> bool:
        """Do something with a system; return whether it did not fail."""
        try:
            work()
        except (FailedError, NotOnceError) as error:
            self.results.failures.append(f"{subject.name}: {error}")
            self.say(f"FAILED: {subject.name}: {error}")
            return False
        return True
