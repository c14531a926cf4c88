"""What both tests have in common: the programs, the load between the faults, the audit and its summary."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.soak import audit, evidence, ledger, report
from benchmarks.soak.command import TURN, Soak
from benchmarks.soak.evidence import Evidence
from benchmarks.soak.faults import Fault
from benchmarks.soak.workers import Program

from .outages import Outage

# What asynchronous replication loses: enqueues that were acknowledged, and outcomes, so that attempts are not counted.
LOST = ["every acknowledged job is stored", "the sum is right", "starts are within max attempts"]
SETTLED_TWICE = ["every job has one row", "counters agree with rows"]


class Course(Soak):
    """A soak test whose faults are planned."""

    may_lose = False  # what was acknowledged

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        super().__init__(options, stack)
        # Removed after all servers were killed.
        self.servers = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="djqueue-servers-")))
        self.servers.chmod(0o755)  # the servers run as another user
        self.outages: list[Outage] = []
        self.workers: list[Program] = []
        self.producers: list[Program] = []
        self.members: dict[int, frozenset[int]] = {}  # the processes of each worker at the start

    def start_producer(self, number: int, rate: float, url: str = "") -> None:
        command = ["benchmarks.cluster.producers", str(self.options.seed + number), str(rate)]
        self.producers.append(self.started(Program(f"producer {number}", *command, url=url)))

    def load(self, seconds: float) -> None:
        """Let the producers and workers work."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(TURN)
            self.meanwhile()

    def meanwhile(self) -> None:
        self.progress()
        self.check_all()

    def check_all(self) -> None:
        self.check([*self.workers, *self.producers])

    def remember_processes(self) -> None:
        self.members = {number: frozenset(worker.members()) for number, worker in enumerate(self.workers)}

    def check_processes(self) -> None:
        """Note each process of a worker that has exited since the start."""
        for number, members in self.members.items():
            for pid in members - self.workers[number].members():
                self.problems.append(f"process {pid} of {self.workers[number].name} exited; see its log")

    def finish(self) -> tuple[Evidence, dict[str, list[str]]]:
        """End the load, and return what was seen and which rules were violated."""
        for producer in self.producers:
            self.stop(producer)
        self.drain()
        self.probe_limits()
        self.check_processes()
        for worker in self.workers:
            self.stop(worker)
        faults = [Fault(outage.kind, outage.begin, outage.healthy, None) for outage in self.outages]
        seen = evidence.collect(self.folder, faults)
        seen.problems = self.problems
        self.accept(seen)
        found = audit.violations(seen)
        report.show(seen, found)
        return seen, found

    def accept(self, seen: Evidence) -> None:
        """Take errors that a producer may see from the evidence."""

    def summary(self, seen: Evidence, found: dict[str, list[str]]) -> None:
        unanswered = {job for raised in seen.raised for job in raised.jobs}
        table = {
            "acknowledged jobs": len(seen.acknowledged),
            "acknowledged jobs lost": len(found[LOST[0]]),
            "settled twice": violated(found, SETTLED_TWICE),
            "ran again because of a fault": sum(
                count for reason, count in audit.second_starts(seen).items() if reason in audit.FAULTS
            ),
            "enqueued again after an error": len(unanswered & seen.acknowledged.keys()),
            "of these, stored already (DuplicateJob)": sum(1 for _ in ledger.read(self.folder, "repeats")),
            "processes that exited": len(self.problems),
        }
        print()
        for name, count in table.items():
            print(f"{name:<44}{count:>10,}")

    def judged(self, found: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return the violations that count."""
        return {rule: texts for rule, texts in found.items() if not (self.may_lose and rule in LOST)}


def violated(found: dict[str, list[str]], rules: Iterable[str]) -> int:
    return sum(len(found[rule]) for rule in rules)
