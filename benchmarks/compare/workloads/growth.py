"""How the drain of one worker grows with processes, queues and payloads, and what `async def` tasks cost."""

from __future__ import annotations

from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject

from .drain import measure

PROCESSES = (1, 2, 4, 8)
QUEUES = (1, 10, 100)
PAYLOADS = (100, 1_000, 10_000)  # characters


def processes(run: Run) -> None:
    """One worker with more and more processes, by turns."""

    def measure_all(subject: Subject, repetition: int) -> None:
        for number in PROCESSES:
            count = int(run.sizes.drain * subject.entry.jobs * (1 if number == 1 else 1.5))
            got = measure(subject, count, processes=number, **subject.entry.settings[0]).rate
            add(run, subject, f"processes {number}", got, repetition)

    run.take_turns(measure_all, lambda subject: subject.entry.processes)


def queues(run: Run) -> None:
    """The same number of jobs in more and more queues."""

    def measure_all(subject: Subject, repetition: int) -> None:
        for number in QUEUES:
            count = int(run.sizes.drain * subject.entry.jobs) // 100 * 100
            got = measure(subject, count, queues=number, **subject.entry.settings[0]).rate
            add(run, subject, f"queues {number}", got, repetition)

    run.take_turns(measure_all, lambda subject: subject.entry.queues)


def payload(run: Run) -> None:
    """Jobs with longer and longer arguments."""

    def measure_all(subject: Subject, repetition: int) -> None:
        for size in PAYLOADS:
            count = int(run.sizes.drain * subject.entry.jobs) // (2 if size > 1_000 else 1)
            got = measure(subject, count, size=size, **subject.entry.settings[0]).rate
            add(run, subject, f"payload {size}", got, repetition)

    run.take_turns(measure_all, lambda subject: subject.entry.payloads)


def coroutines(run: Run) -> None:
    """Plain and `async def` tasks, by turns."""

    def measure_all(subject: Subject, repetition: int) -> None:
        for figure, task in (("plain", "nothing"), ("async", "coroutine")):
            count = int(run.sizes.drain * subject.entry.jobs)
            got = measure(subject, count, task=task, **subject.entry.settings[0]).rate
            add(run, subject, figure, got, repetition)

    run.take_turns(measure_all, lambda subject: subject.entry.coroutines)


def add(run: Run, subject: Subject, figure: str, rate: float, repetition: int) -> None:
    run.results.add(subject.name, figure, rate)
    run.say(f"{figure} {repetition}  {subject.name:<16} {rate:>10,.0f} jobs/s")
