"""What workers cost while there is nothing to do, their memory, and what one job costs ten of them."""

from __future__ import annotations

import time

from benchmarks.compare.catalog import MODULES
from benchmarks.compare.processes import bare_django, pss
from benchmarks.compare.run import Run
from benchmarks.compare.subject import Subject

from .drain import measure
from .pickup import wait_times, warm_up

MANY = 10
PICKUPS = 30
PROCESSES = 4


def idle(run: Run) -> None:
    """Statements and CPU time of one worker that has run a few jobs and has nothing to do."""

    def measure_idle(subject: Subject, repetition: int) -> None:
        subject.ask("clear")
        subject.tidy()
        count_statements(subject, True)
        with subject.workers(**subject.entry.settings[0]) as running:
            warm_up(subject, running)
            time.sleep(2)  # the server reads the counters of a connection once a second
            before = subject.database.counts() if subject.database else None
            cpu = running.exact_cpu()
            time.sleep(run.sizes.idle)
            cpu = (running.exact_cpu() - cpu) / run.sizes.idle * 60
            counts = subject.database.counts() - before if subject.database and before else None
        count_statements(subject, False)
        run.results.add(subject.name, "idle cpu", cpu)
        text = f"idle {repetition}     {subject.name:<16} {cpu:6.2f} s of CPU per minute"
        if counts and counts.statements is not None:
            # Reading the counters takes three statements, one of which is counted.
            statements = max(0, counts.statements - 3) / run.sizes.idle
            run.results.add(subject.name, "idle statements", statements)
            text += f"   {statements:.2f} statements/s"
        run.say(text)

    run.take_turns(measure_idle)


def crowd(run: Run) -> None:
    """How many more claims ten idle workers make for a job than one does."""

    def measure_claims(subject: Subject, repetition: int) -> None:
        claims = {count: claims_per_job(subject, count) for count in (1, MANY)}
        one, many = claims[1], claims[MANY]
        if one is None or many is None:
            run.say(f"crowd       {subject.name:<16} needs pg_stat_statements")
            return
        run.results.add(subject.name, "extra claims", many - one)
        run.say(f"crowd {repetition}    {subject.name:<16} {one:.1f} claims per job, {many:.1f} with {MANY} workers")

    run.take_turns(measure_claims, lambda subject: subject.name == "djqueue")


def claims_per_job(subject: Subject, workers: int) -> float | None:
    """Return the statements with SKIP LOCKED per job, less those that idle workers make in that time."""
    assert subject.database is not None
    subject.ask("clear")
    subject.tidy()
    count_statements(subject, True)
    with subject.workers(workers, **subject.entry.settings[0]) as running:
        warm_up(subject, running)
        time.sleep(3)  # until the last worker has started
        counts, times = [], []
        for number in range(3):
            counts.append(subject.database.counts())
            times.append(time.monotonic())
            if number == 0:
                time.sleep(5)
            elif number == 1:
                wait_times(subject, running, PICKUPS, stop=False)
    count_statements(subject, False)
    at_rest, with_jobs = counts[1] - counts[0], counts[2] - counts[1]
    if at_rest.claims is None or with_jobs.claims is None:
        return None
    resting = at_rest.claims / (times[1] - times[0]) * (times[2] - times[1])
    return (with_jobs.claims - resting) / PICKUPS


def memory(run: Run) -> None:
    """The memory of a worker with several processes, compared with a Django process that has only connected."""

    def measure_memory(subject: Subject, repetition: int) -> None:
        settings = {"DJANGO_SETTINGS_MODULE": f"{MODULES}.{subject.entry.project}"}
        with bare_django(subject.python, subject.environment | settings) as pid:
            bare = pss(pid)
        got = measure(subject, run.sizes.near, processes=PROCESSES, **subject.entry.settings[0])
        run.results.add(subject.name, "memory ratio", got.largest / bare)
        run.results.add(subject.name, "memory share", got.memory / PROCESSES / bare)
        run.say(
            f"memory {repetition}   {subject.name:<16} {got.largest:.0f} MB in the largest process that ran jobs, "
            f"{got.memory:.0f} MB in all of --processes {PROCESSES}, {bare:.0f} MB in a bare Django process"
        )

    run.take_turns(measure_memory, lambda subject: bool(subject.entry.project))


def count_statements(subject: Subject, on: bool) -> None:
    if subject.database:
        subject.database.count_statements(on)
