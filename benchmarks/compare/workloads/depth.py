"""Whether a drain slows down beside many rows: future jobs, finished jobs, and pending jobs behind those that run."""

from __future__ import annotations

from functools import partial

from benchmarks.compare.ledgers import NotOnceError
from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject
from benchmarks.compare.systems.protocol import ONE_DAY

from .drain import drain_filled, rate

SEED = 1_000  # jobs that are made by the system itself; their rows are multiplied on the server


def depth(run: Run) -> None:
    """Systems take turns with each kind of rows, which stay while the repetitions run."""
    for kind in ("empty", "future", "finished", "pending"):
        ready = [subject for subject in run.subjects.values() if subject.entry.depth]
        ready = [subject for subject in ready if run.attempt(subject, partial(prepare, run, subject, kind))]
        run.take_turns(partial(measure, run, kind), ready.__contains__)
        for subject in ready:
            subject.ask("clear")


def measure(run: Run, kind: str, subject: Subject, repetition: int) -> None:
    got = first_of_many(run, subject) if kind == "pending" else beside(run, subject)
    run.results.add(subject.name, f"depth {kind}", got)
    run.say(f"depth, {kind} {repetition}  {subject.name:<16} {got:>10,.0f} jobs/s")


def prepare(run: Run, subject: Subject, kind: str) -> None:
    """Make many rows of a kind."""
    assert subject.database is not None
    subject.ask("clear")
    seed, factor = min(SEED, run.sizes.depth), max(0, run.sizes.depth // SEED - 1)
    first = subject.numbers(seed)
    if kind == "future":
        subject.ask("enqueue_bulk", first=first, count=seed, delay=ONE_DAY)
        subject.database.multiply(seed, factor)
    elif kind == "finished":
        subject.ask("enqueue_bulk", first=first, count=seed)
        drain_filled(subject, first, seed, **subject.entry.settings[0])
        subject.database.multiply(seed, factor)
    elif kind == "pending":
        subject.ask("enqueue_bulk", first=first, count=seed)
        subject.database.multiply(seed, factor)
    if kind != "empty":
        run.say(f"depth, {kind}    {subject.name:<16} has {run.sizes.depth:,} rows")


def near(run: Run, subject: Subject) -> int:
    """Return how many jobs run; fewer if the system is slow."""
    return int(run.sizes.near * min(1, subject.entry.jobs))


def beside(run: Run, subject: Subject) -> float:
    """Return the rate of a drain beside the rows that are there."""
    count = near(run, subject)
    first = subject.numbers(count)
    subject.ask("enqueue_bulk", first=first, count=count)
    subject.tidy()
    return drain_filled(subject, first, count, **subject.entry.settings[0]).rate


def first_of_many(run: Run, subject: Subject) -> float:
    """Return the rate of the first of many pending jobs.

    Copies of a row have the number of their job in common, so the check is one of sums: what ran is no longer there.
    """
    count = near(run, subject)
    before = subject.ask("unsettled")
    subject.tidy()
    with subject.workers(**subject.entry.settings[0]) as running:
        running.wait(lambda: running.ledgers.done() >= count, f"the first {count} jobs")
        running.stop()
        records = running.ledgers.records()
    if (gone := before - subject.ask("unsettled")) != len(records):
        raise NotOnceError(f"of {before} pending jobs, {gone} were settled, but {len(records)} runs were counted")
    return rate(records[:count], 1)
