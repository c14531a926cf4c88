"""When each fault came, and how long no job started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.soak.evidence import Evidence


@dataclass
class Outage:
    """A fault of the database. All moments are of the monotonic clock."""

    kind: str
    begin: float
    over: float  # a server accepts changes
    healthy: float  # all servers are there again

    def jobs_again(self, starts: list[float]) -> float:
        """Return the seconds from the fault to the end of the longest time without a start of a job, or inf."""
        before = [at for at in starts if at <= self.begin][-1:]
        during = [at for at in starts if self.begin < at <= self.healthy]
        after = [at for at in starts if at > self.healthy][:1]
        gaps = [(later - earlier, later) for earlier, later in pairwise([*before, *during, *after])]
        return max(gaps)[1] - self.begin if after else float("inf")


def starts_of(evidence: Evidence, pids: Iterable[int] | None = None) -> list[float]:
    """Return when jobs started, of all processes or of the given ones."""
    chosen = None if pids is None else set(pids)
    return sorted(run.start for runs in evidence.runs.values() for run in runs if chosen is None or run.pid in chosen)


def show(title: str, what: str, rows: dict[str, list[tuple[float, float]]]) -> None:
    """Print the median and the maximum of two durations for each kind of fault."""
    print(f"\n{title:<28}{'count':>6}{what + ': median':>30}{'max':>9}{'first job again: median':>26}{'max':>9}")
    for kind, durations in rows.items():
        first, second = zip(*durations, strict=True)
        print(
            f"{kind:<28}{len(durations):>6}{median(first):>28.1f} s{max(first):>7.1f} s"
            f"{median(second):>24.1f} s{max(second):>7.1f} s"
        )
