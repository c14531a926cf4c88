"""What `benchmarks.simulate` has measured, and its tables in Markdown."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from .queueing import chance_to_wait, threads_for

USE = 0.7  # the share of time in which a thread should be busy, for the model


@dataclass
class Phase:
    """What happened in one phase."""

    seconds: float
    statements: int  # of all hosts
    server_cpu: float | None  # seconds; None if the server runs elsewhere
    jobs: int = 0
    rate: float = 0.0  # at which they were enqueued, per second
    busy_threads: float = 0.0  # mean
    pickups: list[float] = field(default_factory=list)  # seconds from the enqueue to the start, sorted
    waited: int = 0  # jobs that were enqueued while all threads were busy

    @property
    def per_second(self) -> float:
        return self.statements / self.seconds

    @property
    def jobs_per_second(self) -> float:
        return self.jobs / self.seconds

    def per_job(self, idle: Phase) -> float:
        """Return the statements per job, without those that idle hosts send."""
        return (self.statements - idle.per_second * self.seconds) / self.jobs

    def pickup(self, part: float) -> str:
        place = min(len(self.pickups) - 1, int(len(self.pickups) * part))
        return f"{self.pickups[place] * 1000:.0f} ms"

    def cpu_share(self) -> str:
        return "unknown" if self.server_cpu is None else f"{self.server_cpu / self.seconds:.1%}"

    def cpu_per_job(self) -> str:
        return "unknown" if self.server_cpu is None else f"{self.server_cpu / self.jobs * 1000:.2f} ms"


@dataclass
class Step:
    """All phases with one number of hosts."""

    hosts: int
    idle: Phase
    sparse: Phase
    busy: Phase
    backlog: Phase
    empty: Phase
    connections: int
    memory: float  # of one host, in bytes
    load: float  # of the machine


def report(options: argparse.Namespace, steps: Sequence[Step]) -> list[str]:
    """Return the tables, as lines of Markdown."""
    return [
        f"Each host: {options.processes} process(es) with {options.threads} threads. Tasks take {options.duration:g} s."
        f" Busy: {options.rate:g} jobs/s per host. Sparse: {options.sparse:g} jobs/s in total. "
        f"{os.cpu_count()} processors.",
        "",
        *counts(options, steps),
        *compared_with_the_model(options, steps),
        *speeds(options, steps),
    ]


def counts(options: argparse.Namespace, steps: Sequence[Step]) -> list[str]:
    """Return what does not depend on the speed of the machine."""
    rows = (
        f"{step.hosts} | {step.connections} | {step.hosts * per_host(options.processes, options.threads)} | "
        f"{step.idle.per_second:.1f} | {step.idle.per_second / step.hosts:.2f} | "
        f"{step.sparse.per_job(step.idle):.1f} | {step.busy.per_job(step.idle):.1f} | "
        f"{step.backlog.per_job(step.idle):.1f} | {step.memory / 2**20:.0f} MB"
        for step in steps
    )
    head = (
        "hosts | connections | by the formula | statements/s, idle | per host | statements per job, sparse | "
        "busy | backlog | memory per host"
    )
    return table(head, rows)


def compared_with_the_model(options: argparse.Namespace, steps: Sequence[Step]) -> list[str]:
    rows = []
    for step in steps:
        rate, threads = step.busy.rate, options.processes * options.threads * step.hosts
        needed, load = threads_for(rate, options.duration, USE), rate * options.duration
        rows.append(
            f"{step.hosts} | {rate:.0f} jobs/s | {needed} of {threads} | {load:.1f} | "
            f"{step.busy.busy_threads:.1f} | "
            f"{chance_to_wait(threads, load):.1%} | {step.busy.waited / step.busy.jobs:.1%} | "
            f"{step.busy.pickup(0.5)} | {step.busy.pickup(0.99)}"
        )
    head = (
        f"hosts | rate | threads for {USE:.0%} use | busy threads, model | measured | jobs that wait, model | "
        "measured | pickup p50 | pickup p99"
    )
    return table(head, rows)


def speeds(options: argparse.Namespace, steps: Sequence[Step]) -> list[str]:
    rows = (
        f"{step.hosts} | {options.processes * options.threads * step.hosts / options.duration:.0f} jobs/s | "
        f"{step.backlog.jobs_per_second:.0f} jobs/s | {step.empty.jobs_per_second:.0f} jobs/s | "
        f"{step.idle.cpu_share()} | {step.busy.cpu_share()} | {step.busy.cpu_per_job()} | "
        f"{step.empty.cpu_per_job()} | {step.load:.1f}"
        for step in steps
    )
    head = (
        "hosts | backlog, model | backlog, measured | empty tasks | PostgreSQL's CPU, idle | busy | per job, busy | "
        "per empty task | load"
    )
    return table(head, rows)


def per_host(processes: int, threads: int) -> int:
    """Return the number of connections of a worker, as docs/howto/scale.md states it."""
    return 4 + processes * (3 + threads)


def verdict(sent: Sequence[UUID], runs: bytes, done: int) -> tuple[bool, str]:
    """Return whether every job ran once, and that in words.

    `runs` has the id of a job for each of its runs, and `done` jobs were done in their first attempt.
    """
    ran = sorted(runs[place : place + 16] for place in range(0, len(runs), 16))
    if done == len(sent) and ran == sorted(job.bytes for job in sent):
        return True, f"Each of {len(sent):,} jobs ran exactly once."
    text = f"{len(ran)} runs of {len(set(ran))} jobs, and {done} jobs done in one attempt"
    return False, f"WRONG: {len(sent)} jobs were enqueued, but there were {text}."


def table(head: str, rows: Iterable[str]) -> list[str]:
    return [f"| {head} |", "|---" * len(head.split(" | ")) + "|", *(f"| {row} |" for row in rows), ""]
