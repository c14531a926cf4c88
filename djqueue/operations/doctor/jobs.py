"""Jobs that run far longer than usual."""

from __future__ import annotations

from collections.abc import Iterator

from djqueue.core import registry
from djqueue.core.durations import in_words
from djqueue.core.options import resolve
from djqueue.operations import rates
from djqueue.operations.attention import DAY, MOST
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.sql import Statements

# A job runs too long after this time, and so many times the p95 of its task's run times of the last day, if so many
# attempts of the task have ended.
TOO_LONG, TIMES_P95, ATTEMPTS = 60.0, 10, 5
OLDEST = 200


def long_running(database: Statements) -> Iterator[Finding]:
    """Compare the running jobs with the usual run times of their tasks. Claimed rows are few."""
    now = database.now_sql()
    rows = database.fetch(
        f"""
        SELECT id, task, queue, timeout, worker, claimed_at, {now} FROM djqueue_job
        WHERE status = 'claimed' AND started AND claimed_at < {database.later_sql(-TOO_LONG)}
        ORDER BY claimed_at LIMIT {OLDEST}
        """
    )
    usual = rates.by_task(DAY, sorted({row[1] for row in rows})) if rows else {}
    found = 0
    for job_id, task, queue, timeout, worker, claimed_at, at in rows:
        p95 = usual[task].run.quantile(0.95) if task in usual and usual[task].ended >= ATTEMPTS else None
        runs_for = (database.instant(at) - database.instant(claimed_at)).total_seconds()
        if p95 is None or runs_for < TIMES_P95 * p95 or found == MOST:
            continue
        found += 1
        limit = resolve("timeout", queue, registry.options(task), timeout)
        yield Finding(
            code=Code.LONG_RUNNING,
            severity=Severity.WARNING,
            text=f"A job of {task} has been running for {in_words(runs_for)} on {worker}; 95% of the attempts of the "
            f"last day took less than {in_words(p95)}." + ("" if limit else " It has no timeout."),
            remedy="Look at what it waits for, or cancel it; a task that does not look at its cancel request ends with "
            "its worker." + ("" if limit else " Give the task a timeout."),
            subject=Subject.JOB,
            key=str(database.uuid(job_id)),
        )
