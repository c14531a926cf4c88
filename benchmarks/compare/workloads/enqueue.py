"""Enqueue jobs one by one and in bulk, without a worker."""

from __future__ import annotations

from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject


def enqueue(run: Run) -> None:
    """One call and one durable commit per job."""

    def measure(subject: Subject, repetition: int) -> None:
        subject.ask("clear")
        count = run.sizes.singles
        subject.ask("enqueue_one_by_one", first=subject.numbers(20), count=20)
        subject.tidy()
        rate = count / subject.time("enqueue_one_by_one", first=subject.numbers(count), count=count)
        run.results.add(subject.name, "enqueue", rate)
        run.say(f"enqueue {repetition}  {subject.name:<16} {rate:>10,.0f} jobs/s")

    run.take_turns(measure)


def bulk(run: Run) -> None:
    """All jobs at once, in the fastest way that the system documents."""

    def measure(subject: Subject, repetition: int) -> None:
        subject.ask("clear")
        subject.tidy()
        count = int(run.sizes.bulk * subject.entry.jobs)
        rate = count / subject.time("enqueue_bulk", first=subject.numbers(count), count=count)
        run.results.add(subject.name, "bulk", rate)
        run.say(f"bulk {repetition}     {subject.name:<16} {rate:>10,.0f} jobs/s")
        subject.ask("clear")

    run.take_turns(measure, lambda subject: subject.entry.bulk)
