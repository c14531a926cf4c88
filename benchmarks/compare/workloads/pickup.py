"""How soon an idle worker starts a job."""

from __future__ import annotations

from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject, Workers


def pickup(run: Run) -> None:
    """From just before the enqueue to the first line of the task."""

    def measure(subject: Subject, repetition: int) -> None:
        subject.ask("clear")
        subject.tidy()
        with subject.workers(**subject.entry.settings[0]) as running:
            warm_up(subject, running)
            waits = wait_times(subject, running, run.sizes.pickups)
        p50, p99 = percentile(waits, 0.5), percentile(waits, 0.99)
        run.results.add(subject.name, "pickup p50", p50)
        run.results.add(subject.name, "pickup p99", p99)
        run.say(f"pickup {repetition}   {subject.name:<16} p50 {p50:6.1f} ms   p99 {p99:6.1f} ms")

    run.take_turns(measure)


def warm_up(subject: Subject, running: Workers, jobs: int = 10) -> None:
    """Wait until the workers have started and have run a few jobs."""
    for _ in range(jobs):
        done = running.ledgers.done()
        subject.ask("enqueue", number=subject.numbers(1))
        running.wait(lambda done=done: running.ledgers.done() > done, "the first job")


def wait_times(subject: Subject, running: Workers, count: int, stop: bool = True) -> list[float]:
    """Enqueue jobs with pauses, and return how long each waited, in milliseconds."""
    first = subject.numbers(count)
    before = running.ledgers.done()
    starts = subject.ask("pick_up", first=first, count=count)
    running.wait(lambda: running.ledgers.done() >= before + count, "the last job")
    subject.wait_until_settled(running)
    if stop:
        running.stop()
    running.ledgers.check(first - before, before + count)
    began = {number: time for time, number, _ in running.ledgers.records()}
    return [(began[first + place] - start) * 1000 for place, start in enumerate(starts)]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
