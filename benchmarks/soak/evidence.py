"""What is known at the end: the ledgers, the faults and the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from . import ledger
from .faults import Fault


@dataclass
class Run:
    """One start of a job. Without an `end`, its process exited before; `error` is the class of what it raised."""

    job: str
    attempt: int
    pid: int
    key: str  # the limit key
    start: float
    end: float | None = None
    error: str = ""

    @property
    def failed(self) -> bool:
        return self.end is not None and bool(self.error)

    @property
    def succeeded(self) -> bool:
        return self.end is not None and not self.error


class Raised(NamedTuple):
    """An error that a producer or the operator got; `jobs` are those whose enqueue has an unknown outcome."""

    who: str
    at: float
    what: str
    jobs: list[str]
    error: str
    text: str


class Row(NamedTuple):
    table: str
    status: str
    queue: str
    attempts: int
    max_attempts: int


@dataclass
class Evidence:
    faults: list[Fault]
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))  # by job, in the order of time
    acknowledged: dict[str, str] = field(default_factory=dict)  # the kind of each job
    kinds: Counter[str] = field(default_factory=Counter)  # of the jobs that were created
    enqueued_at: list[float] = field(default_factory=list)
    duplicates: int = 0
    raised: list[Raised] = field(default_factory=list)
    asked_to_cancel: set[str] = field(default_factory=set)
    requeues: Counter[str] = field(default_factory=Counter)  # also those with an unknown outcome
    requeued: int = 0  # acknowledged
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)  # what was seen before the audit

    def count(self, status: str) -> int:
        return sum(row.status == status for rows in self.rows.values() for row in rows)

    @property
    def live(self) -> int:
        return sum(row.table == "job" for rows in self.rows.values() for row in rows)

    @property
    def uncertain(self) -> set[str]:
        """Jobs whose enqueue raised an error, and was not repeated: they may exist, or not."""
        return {job for raised in self.raised for job in raised.jobs} - self.acknowledged.keys()


def collect(folder: Path, faults: list[Fault]) -> Evidence:
    evidence = Evidence(faults)
    read_runs(evidence, folder)
    read_producers(evidence, folder)
    read_operator(evidence, folder)
    read_rows(evidence)
    return evidence


def read_runs(evidence: Evidence, folder: Path) -> None:
    open_runs: dict[tuple[int, str, int], Run] = {}
    for at, pid, event, values in ledger.read(folder, "runs"):
        job, attempt, text = values
        if event == "start":
            run = open_runs[pid, job, attempt] = Run(job, attempt, pid, text, at)
            evidence.runs[job].append(run)
        else:
            run = open_runs.pop((pid, job, attempt))
            run.end, run.error = at, text
    for runs in evidence.runs.values():
        runs.sort(key=lambda run: run.start)


def read_producers(evidence: Evidence, folder: Path) -> None:
    for at, _, event, values in ledger.read(folder, "producer"):
        if event == "raised":
            evidence.raised.append(Raised("producer", at, *values))
            continue
        kind, job, created = values
        evidence.acknowledged[job] = kind
        if created:
            evidence.kinds[kind] += 1
            evidence.enqueued_at.append(at)
        else:
            evidence.duplicates += 1


def read_operator(evidence: Evidence, folder: Path) -> None:
    for at, _, event, values in ledger.read(folder, "operator"):
        match event:
            case "raised":
                evidence.raised.append(Raised("operator", at, *values))
            case "cancel":
                evidence.asked_to_cancel.add(values[0])
            case "requeue":
                evidence.requeues[values[0]] += 1
            case "not dead":
                evidence.requeues[values[0]] -= 1
            case "requeued":
                evidence.requeued += 1


def read_rows(evidence: Evidence) -> None:
    from djqueue.models import DeadJob, DoneJob, Job

    columns = ["queue", "attempts", "max_attempts"]
    for job, status, *values in Job.objects.values_list("id", "status", *columns):
        evidence.rows[str(job)].append(Row("job", status, *values))
    for job, status, *values in DoneJob.objects.values_list("id", "status", *columns):
        evidence.rows[str(job)].append(Row("donejob", status, *values))
    for job, *values in DeadJob.objects.values_list("id", *columns):
        evidence.rows[str(job)].append(Row("deadjob", "dead", *values))
