"""Four threads, every second job sleeps for 10 ms, and a producer enqueues beside."""

from __future__ import annotations

from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject

THREADS = 4
NAP = 0.01
SHARE = 0.5  # of the jobs are naps
POSSIBLE = THREADS / (NAP * SHARE)  # jobs per second
NOTICEABLE = 0.005  # seconds that a job may wait although a thread is free, beyond the usual time of a pickup


def mixed(run: Run) -> None:
    def measure(subject: Subject, repetition: int) -> None:
        share = busy(run, subject)
        stuck, usual = calm(run, subject)
        run.results.add(subject.name, "mixed", share)
        run.results.add(subject.name, "mixed stuck", stuck)
        run.say(
            f"mixed {repetition}    {subject.name:<16} {share:.2f} of what the sleeping allows; of the short jobs, "
            f"{stuck:.1%} waited although a thread was free (median wait {usual * 1000:.1f} ms)"
        )

    run.take_turns(measure, lambda subject: subject.entry.threads)


def busy(run: Run, subject: Subject) -> float:
    """Keep all threads busy; return the time that the naps need in relation to the time that passed.

    Three quarters of the jobs are there before, so that the rate does not depend on that of the producer.
    """
    waiting, count = run.sizes.mixed * 3 // 4, run.sizes.mixed
    subject.ask("clear")
    first = subject.numbers(count)
    subject.ask("mixed", first=first, count=waiting, rate=1e9)
    subject.tidy()
    with subject.workers(threads=THREADS, **subject.entry.settings[0]) as running:
        running.wait(lambda: running.ledgers.done() > 0, "the first job")
        subject.ask("mixed", first=first + waiting, count=count - waiting, rate=POSSIBLE / 4)
        running.wait(lambda: running.ledgers.done() >= count, "the last job")
        subject.wait_until_settled(running)
        running.stop()
        running.ledgers.check(first, count)
        times = [time for time, _, _ in running.ledgers.records()]
    # Without the start of the worker, and without the tail, in which threads run out of jobs.
    begin, end = int(count * 0.05), int(count * 0.95)
    return ((end - begin) / POSSIBLE) / (times[end] - times[begin])


def calm(run: Run, subject: Subject) -> tuple[float, float]:
    """Keep a quarter of the threads busy.

    Return the share of the short jobs that waited although a thread was free, and the median wait.
    """
    count = run.sizes.mixed // 4
    subject.ask("clear")
    subject.tidy()
    first = subject.numbers(count)
    with subject.workers(threads=THREADS, **subject.entry.settings[0]) as running:
        ready = subject.numbers(1)
        subject.ask("enqueue", number=ready)
        running.wait(lambda: running.ledgers.done() > 0, "the first job")
        commits = subject.ask("mixed", first=first, count=count, rate=POSSIBLE / 4)
        running.wait(lambda: running.ledgers.done() > count, "the last job")
        running.stop()
        running.ledgers.check(first, count + 1)
        began = {number: time for time, number, _ in running.ledgers.records()}
    naps = sorted(began[first + place] for place in range(count) if place % 2)
    # A job may begin before the producer has the answer to its commit: it has not waited.
    waits = [(commit, max(commit, began[first + place])) for place, commit in enumerate(commits) if place % 2 == 0]
    usual = sorted(end - start for start, end in waits)[len(waits) // 2]
    stuck = sum(free_time(start, end, naps) > usual + NOTICEABLE for start, end in waits)
    return stuck / len(waits), usual


def free_time(start: float, end: float, naps: list[float]) -> float:
    """Return for how long between two times fewer naps than threads were running."""
    changes = sorted(
        [(max(start, nap), 1) for nap in naps if nap < end and nap + NAP > start]
        + [(min(end, nap + NAP), -1) for nap in naps if nap < end and nap + NAP > start]
    )
    free, running, last = 0.0, 0, start
    for time, change in [*changes, (end, 0)]:
        if running < THREADS:
            free += time - last
        running, last = running + change, time
    return free
