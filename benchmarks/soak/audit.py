"""The audit: rules that must hold between the ledgers, the faults and the rows. Each yields its violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from .evidence import Evidence, Run
from .faults import Fault
from .tasks import AT_ONCE

CONNECTION_ERRORS = ("OperationalError", "InterfaceError")
# Django has the same class for these, which no caller may see: djqueue repeats its own transactions after a conflict.
CONFLICTS = ("deadlock", "lock wait", "serialize", "is locked", "too many")
CANCELS = ("Cancelled", "CancelledError", "LeaseLost")  # raised in a task


def every_acknowledged_job_is_stored(evidence: Evidence) -> Iterator[str]:
    for job, kind in evidence.acknowledged.items():
        if job not in evidence.rows:
            yield f"job {job} ({kind}) was acknowledged and is in no table"


def every_job_was_enqueued(evidence: Evidence) -> Iterator[str]:
    for job in evidence.rows.keys() - evidence.acknowledged.keys() - evidence.uncertain:
        yield f"job {job} was enqueued by no producer"


def transactions_are_all_or_none(evidence: Evidence) -> Iterator[str]:
    for raised in evidence.raised:
        stored = sum(job in evidence.rows for job in raised.jobs)
        if 0 < stored < len(raised.jobs):
            yield f"{stored} of {len(raised.jobs)} jobs are stored of a transaction that raised {raised.error}"


def every_job_has_one_row(evidence: Evidence) -> Iterator[str]:
    for job, rows in evidence.rows.items():
        if len(rows) > 1:
            yield f"job {job} is in {', '.join(row.table for row in rows)}"


def no_job_is_left(evidence: Evidence) -> Iterator[str]:
    for job, rows in evidence.rows.items():
        for row in rows:
            if row.table == "job":
                yield f"job {job} is {row.status} after {row.attempts} attempts, in queue {row.queue}"


def the_sum_is_right(evidence: Evidence) -> Iterator[str]:
    stored = len(evidence.uncertain & evidence.rows.keys())
    created = evidence.kinds.total()
    ended = sum(map(evidence.count, ["done", "dead", "cancelled"]))
    if created + stored != ended + evidence.live:
        yield f"{created} acknowledged + {stored} stored after an error != {ended} ended + {evidence.live} live"


def attempts_are_within_max_attempts(evidence: Evidence) -> Iterator[str]:
    for job, rows in evidence.rows.items():
        for row in rows:
            highest = max([row.attempts, *(run.attempt for run in evidence.runs.get(job, []))])
            if highest > row.max_attempts:
                yield f"job {job} had attempt {highest} of {row.max_attempts}"


def starts_are_within_max_attempts(evidence: Evidence) -> Iterator[str]:
    """A start beyond the attempts of a job and its requeues needs a fault of its own."""
    for job, runs in evidence.runs.items():
        for row in evidence.rows.get(job, []):
            allowed = row.max_attempts * (1 + evidence.requeues[job])
            faults = sum(explain(evidence, before, after) in FAULTS for before, after in pairwise(runs))
            if len(runs) > allowed + faults:
                yield f"job {job} started {len(runs)} times, {allowed} attempts and {faults} faults allow fewer"


def failed_attempts_are_counted(evidence: Evidence) -> Iterator[str]:
    """The number of the attempt rises from one start to the next, unless the job was requeued or a fault came."""
    for job, runs in evidence.runs.items():
        same = [
            (before, after)
            for before, after in pairwise(runs)
            if after.attempt <= before.attempt and not faults_between(evidence, before, after)
        ]
        if len(same) > evidence.requeues[job]:
            attempts = [run.attempt for run in runs]
            yield f"job {job} started with the attempts {attempts}, and was requeued {evidence.requeues[job]} times"


def every_second_start_is_explained(evidence: Evidence) -> Iterator[str]:
    for job, runs in evidence.runs.items():
        for before, after in pairwise(runs):
            if explain(evidence, before, after) is None:
                ended = "without an end" if before.end is None else f"until {before.end:.3f} {before.error or 'ok'}"
                yield (
                    f"job {job} started at {before.start:.3f} (attempt {before.attempt}, process {before.pid}, {ended})"
                    f" and at {after.start:.3f} (attempt {after.attempt}, process {after.pid})"
                )


FAILED, PROCESS, DATABASE = "after a failed attempt", "fault of a process", "fault of the database"
FAULTS = (PROCESS, DATABASE)


def explain(evidence: Evidence, before: Run, after: Run) -> str | None:
    """Return why a job started again."""
    if before.failed and before.error not in CANCELS and before.end is not None and before.end <= after.start:
        return FAILED
    found = faults_between(evidence, before, after)
    if any(fault.pids is not None for fault in found):
        return PROCESS
    return DATABASE if found else None


def faults_between(evidence: Evidence, before: Run, after: Run) -> list[Fault]:
    """Return the faults that can have led from one start of a job to the next."""
    return [fault for fault in evidence.faults if fault.touches(before.start, after.start, before.pid, after.pid)]


def second_starts(evidence: Evidence) -> Counter[str]:
    """Return how many starts there were beside the first of each job, by their reason."""
    pairs = (pair for runs in evidence.runs.values() for pair in pairwise(runs))
    return Counter(explain(evidence, before, after) or "not explained" for before, after in pairs)


def every_start_has_an_end(evidence: Evidence) -> Iterator[str]:
    killed = deaths(evidence)
    for job, runs in evidence.runs.items():
        for run in runs:
            if run.end is None and run.pid not in killed:
                yield f"job {job} started at {run.start:.3f} in process {run.pid}, did not end, and was not killed"


def done_jobs_have_succeeded(evidence: Evidence) -> Iterator[str]:
    for job, rows in evidence.rows.items():
        if rows[0].status == "done" and not any(run.succeeded for run in evidence.runs.get(job, [])):
            yield f"job {job} is done, and no run of it succeeded"


def cancelled_jobs_were_cancelled(evidence: Evidence) -> Iterator[str]:
    for job, rows in evidence.rows.items():
        if rows[0].status == "cancelled" and job not in evidence.asked_to_cancel:
            yield f"job {job} is cancelled, and nobody asked for it"


def dead_jobs_have_used_their_attempts(evidence: Evidence) -> Iterator[str]:
    for job, rows in evidence.rows.items():
        if rows[0].status == "dead" and rows[0].attempts != rows[0].max_attempts:
            yield f"job {job} is dead after {rows[0].attempts} of {rows[0].max_attempts} attempts"


def errors_are_lost_connections(evidence: Evidence) -> Iterator[str]:
    outages = [fault for fault in evidence.faults if fault.pids is None]
    for raised in evidence.raised:
        lost = raised.error in CONNECTION_ERRORS and not any(text in raised.text.lower() for text in CONFLICTS)
        if not lost or not any(fault.touches(raised.at, raised.at) for fault in outages):
            yield f"{raised.who}, {raised.what}, at {raised.at:.3f}: {raised.error}: {raised.text}"


def counters_agree_with_rows(evidence: Evidence) -> Iterator[str]:
    import djqueue

    rows = Counter((row.queue, row.status) for rows in evidence.rows.values() for row in rows)
    for queue in djqueue.queues():
        stats = djqueue.stats(queue)
        for status in ("pending", "scheduled", "claimed", "blocked", "done", "dead"):
            if getattr(stats, status) != rows[queue, status]:
                yield f"queue {queue}: {getattr(stats, status)} {status} by stats(), {rows[queue, status]} rows"


def totals_agree_with_rows(evidence: Evidence) -> Iterator[str]:
    """The history counts each death: those of jobs that are dead, and those of jobs that were requeued."""
    from django.db.models import Sum

    from djqueue.models import Throughput

    totals = Throughput.objects.aggregate(cancelled=Sum("cancelled", default=0), dead=Sum("dead", default=0))
    if totals["cancelled"] != evidence.count("cancelled"):
        yield f"{totals['cancelled']} cancelled by the history, {evidence.count('cancelled')} rows"
    least = evidence.count("dead") + evidence.requeued
    most = evidence.count("dead") + evidence.requeues.total()
    if not least <= totals["dead"] <= most:
        yield f"{totals['dead']} deaths by the history, {least} to {most} by the rows and requeues"


def permits_are_returned(evidence: Evidence) -> Iterator[str]:
    import djqueue
    from djqueue.models import LimitKey

    for key in LimitKey.objects.values_list("key", flat=True):
        state = djqueue.limits.get(key)
        if state.admitted or state.blocked:
            yield f"limit {key}: {state.admitted} admitted, {state.blocked} blocked"


def limits_are_kept(evidence: Evidence) -> Iterator[str]:
    """A run beyond the limit is explained only by a fault that took the lease from one that still ran."""
    for key, run, count, faults in beyond_limits(evidence):
        if not faults:
            yield f"limit {key}: {count} runs at {run.start:.3f}"


def beyond_limits(evidence: Evidence) -> Iterator[tuple[str, Run, int, list[Fault]]]:
    """Yield each run that began while its limit was used up, how many runs there were, and the faults around them."""
    killed = deaths(evidence)
    by_key: dict[str, list[Run]] = {}
    for runs in evidence.runs.values():
        for run in runs:
            if run.key:
                by_key.setdefault(run.key, []).append(run)
    for key, runs in by_key.items():
        running: list[Run] = []
        for run in sorted(runs, key=lambda run: run.start):
            running = [one for one in running if (one.end or killed.get(one.pid, one.start)) > run.start]
            running.append(run)
            if len(running) > AT_ONCE:
                around = [f for f in evidence.faults if any(f.touches(r.start, run.start, r.pid) for r in running)]
                yield key, run, len(running), around


def deaths(evidence: Evidence) -> dict[int, float]:
    """Return when each killed process was still alive."""
    return {pid: fault.begin for fault in evidence.faults if fault.killed for pid in fault.pids or ()}


def the_workers_behave(evidence: Evidence) -> Iterator[str]:
    yield from evidence.problems


RULES: list[Callable[[Evidence], Iterator[str]]] = [
    every_acknowledged_job_is_stored,
    every_job_was_enqueued,
    transactions_are_all_or_none,
    every_job_has_one_row,
    no_job_is_left,
    the_sum_is_right,
    attempts_are_within_max_attempts,
    starts_are_within_max_attempts,
    failed_attempts_are_counted,
    every_second_start_is_explained,
    every_start_has_an_end,
    done_jobs_have_succeeded,
    cancelled_jobs_were_cancelled,
    dead_jobs_have_used_their_attempts,
    errors_are_lost_connections,
    counters_agree_with_rows,
    totals_agree_with_rows,
    permits_are_returned,
    limits_are_kept,
    the_workers_behave,
]


def violations(evidence: Evidence) -> dict[str, list[str]]:
    """Return the violations of each rule."""
    return {rule.__name__.replace("_", " "): list(rule(evidence)) for rule in RULES}
