"""The ratios that djqueue promises, computed from the figures of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .results import Results

DATABASE_PEERS = ("pgqueuer", "procrastinate", "dj-queue", "django-tasks-db", "django-ox")


@dataclass(frozen=True)
class Target:
    """A ratio, and what it must be."""

    text: str
    value: float | None
    bound: float
    at_least: bool = True

    @property
    def reached(self) -> bool | None:
        """None if it was not measured."""
        if self.value is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        value = "not measured" if self.value is None else f"{self.value:.2f}"
        verdict = {True: "reached", False: "MISSED", None: ""}[self.reached]
        return f"{self.text:<62} {value:>12}   {'≥' if self.at_least else '≤'} {self.bound:<5g} {verdict}".rstrip()


def targets(results: Results) -> list[Target]:
    return [*_throughput(results), *_latency(results), *_scale(results), *_cost(results)]


def _throughput(results: Results) -> Iterator[Target]:
    def ours(figure: str, other: str) -> float | None:
        return results.ratio(figure, "djqueue", other)

    yield Target("drain, 1 worker, of the limit (aim 0.75)", ours("drain 1", "limit"), 0.6)
    yield Target("drain, 1 worker, of pgqueuer", ours("drain 1", "pgqueuer"), 1.2)
    yield Target("drain, 2 workers, of the limit", ours("drain 2", "limit"), 0.4)
    yield Target("drain, 2 workers, of pgqueuer", ours("drain 2", "pgqueuer"), 1.2)
    yield Target("drain, async def tasks, of plain ones", results.ratio("async", "djqueue", "djqueue", "plain"), 0.8)
    yield Target("enqueue one by one, of the limit", ours("enqueue", "limit"), 0.8)
    yield Target("enqueue one by one, of pgqueuer", ours("enqueue", "pgqueuer"), 1)
    yield Target("bulk enqueue, of COPY by hand", ours("bulk", "limit"), 0.3)
    yield Target("bulk enqueue, of pgqueuer", ours("bulk", "pgqueuer"), 1.5)
    yield Target("drain on SQLite, of django-tasks-db", ours("sqlite", "django-tasks-db"), 3)


def _latency(results: Results) -> Iterator[Target]:
    p50 = results.ratio("pickup p50", "djqueue", "pgqueuer")
    yield Target("idle pickup, p50, of pgqueuer's", p50, 1, at_least=False)
    peers = [value for peer in DATABASE_PEERS if (value := results.median(peer, "pickup p99")) is not None]
    own = results.median("djqueue", "pickup p99")
    p99 = own / min(peers) if own is not None and peers else None
    yield Target("idle pickup, p99, of the best database peer's", p99, 2, at_least=False)
    yield Target("mixed load, of what the sleeping allows", results.median("djqueue", "mixed"), 0.9)
    stuck = results.median("djqueue", "mixed stuck")
    yield Target("mixed load, short jobs that waited while a thread was free", stuck, 0.01, at_least=False)


def _scale(results: Results) -> Iterator[Target]:
    for kind, text in (
        ("future", "beside future jobs"),
        ("finished", "beside finished jobs"),
        ("pending", "many pending"),
    ):
        ratio = results.ratio(f"depth {kind}", "djqueue", "djqueue", "depth empty")
        yield Target(f"depth: drain {text}, of the empty table", ratio, 0.9)
    rates = {count: results.median("djqueue", f"processes {count}") for count in (1, 2, 4, 8)}
    measured = [rate for rate in rates.values() if rate is not None]
    for count, rate in rates.items():
        ratio = rate / max(measured) if rate is not None else None
        yield Target(f"--processes {count}, of the best number of processes", ratio, 0.85)
    yield Target("100 queues, of one queue", results.ratio("queues 100", "djqueue", "djqueue", "queues 1"), 0.8)


def _cost(results: Results) -> Iterator[Target]:
    def own(figure: str) -> float | None:
        return results.median("djqueue", figure)

    yield Target("idle worker, statements/s", own("idle statements"), 2, at_least=False)
    yield Target("idle worker, CPU seconds per minute", own("idle cpu"), 0.3, at_least=False)
    yield Target(
        "ten idle workers, claims for one job more than for one worker", own("extra claims"), 3, at_least=False
    )
    yield Target(
        "memory of a process that runs jobs, of a bare Django process", own("memory ratio"), 1.3, at_least=False
    )
    share = own("memory share")
    yield Target("memory of --processes 4 in all, of four bare Django processes", share, 1.3, at_least=False)


def show(results: Results, say: Callable[[str], None] = print) -> bool:
    """Print the targets; return whether none that was measured is missed."""
    found = targets(results)
    measured = [target for target in found if target.value is not None]
    for target in measured:
        say(str(target))
    say(
        f"{sum(bool(target.reached) for target in measured)} of {len(measured)} targets are reached; "
        f"{len(found) - len(measured)} were not measured"
    )
    return all(target.reached for target in measured)
