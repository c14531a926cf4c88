"""Drain a full queue with one worker and with two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.compare.database import Counts
from benchmarks.compare.processes import pss
from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject


@dataclass(frozen=True)
class Drained:
    """What a drain took."""

    rate: float  # jobs per second
    cpu: float  # microseconds of CPU time of the workers per job
    memory: float  # MB
    largest: float  # MB, of the largest process that ran jobs
    counts: Counts | None
    jobs: int


def drain(run: Run) -> None:
    for workers in (1, 2):
        run.take_turns(partial(drain_once, run, workers))


def drain_once(run: Run, workers: int, subject: Subject, repetition: int) -> None:
    """Measure a drain with each of the settings of a system."""
    for settings in subject.entry.settings:
        count = int(run.sizes.drain * subject.entry.jobs * (1 if workers == 1 else 1.5))
        got = measure(subject, count, workers, **settings)
        run.results.add(subject.name, f"drain {workers}", got.rate, settings)
        run.results.add(subject.name, f"cpu {workers}", got.cpu, settings)
        if workers == 1:
            add_costs(run, subject, got, settings)
        note = " ".join(f"{name} {value}" for name, value in settings.items())
        run.say(
            f"drain, {workers} worker{'s' * (workers > 1)}, {repetition}  {subject.name:<16} "
            f"{got.rate:>10,.0f} jobs/s {got.cpu:>8,.0f} µs of CPU/job  {note}"
        )


def add_costs(run: Run, subject: Subject, got: Drained, settings: dict[str, Any]) -> None:
    """Add what the drain cost the server per job."""
    run.results.add(subject.name, "memory", got.memory, settings)
    if (counts := got.counts) is None:
        return
    for figure, value in (("wal", counts.wal), ("commits", counts.commits), ("statements", counts.statements)):
        run.results.add(subject.name, figure, None if value is None else value / got.jobs, settings)
    run.results.add(subject.name, "server cpu", None if counts.cpu is None else counts.cpu / got.jobs * 1e6, settings)


def measure(subject: Subject, count: int, workers: int = 1, processes: int = 1, **options: Any) -> Drained:
    """Fill the queue, drain it and check that each job ran once."""
    filling = {name: options[name] for name in ("queues",) if name in options}
    filling |= {name: options.pop(name) for name in ("task", "size") if name in options}
    first = subject.fill(count, **filling)
    return drain_filled(subject, first, count, workers, processes, **options)


def drain_filled(
    subject: Subject, first: int, count: int, workers: int = 1, processes: int = 1, **options: Any
) -> Drained:
    """Start workers and wait until the jobs in the queue are settled."""
    if subject.database:
        subject.database.count_statements(True)
    before = subject.database.counts() if subject.database else None
    with subject.workers(workers, processes=processes, **options) as running:
        ledgers = running.ledgers

        def all_have_begun() -> bool:
            counts = ledgers.counts()
            return len(counts) >= workers * processes or sum(counts.values()) > count // 3

        running.wait(all_have_begun, "the first jobs")
        early, cpu = ledgers.done(), running.cpu()
        running.wait(lambda: ledgers.done() >= count, "the last job")
        subject.wait_until_settled(running)
        cpu = running.cpu() - cpu
        memory, largest = running.memory(), largest_of(ledgers.counts())
        running.stop()
        ledgers.check(first, count)
        records = ledgers.records()
    counts = subject.database.counts() - before if subject.database and before else None
    if subject.database:
        subject.database.count_statements(False)
    return Drained(
        rate(records, workers * processes), cpu / max(1, count - early) * 1e6, memory, largest, counts, count
    )


def largest_of(pids: dict[int, int]) -> float:
    return max(map(pss, pids), default=0.0)


def rate(records: list[tuple[float, int, int]], expected: int) -> float:
    """Return the jobs per second since each expected process has run a job, or since a third of the jobs had run."""
    firsts: dict[int, float] = {}
    for time, _, pid in records:
        firsts.setdefault(pid, time)
    everybody = sorted(firsts.values())[expected - 1] if len(firsts) >= expected else float("inf")
    start = min(everybody, records[len(records) // 3][0])
    return sum(time > start for time, _, _ in records) / (records[-1][0] - start)
