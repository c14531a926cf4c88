"""Work that a worker repeats in the background, and that is late if no worker does it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Min

from djqueue.conf import FOR_EVER, config
from djqueue.core.durations import in_words
from djqueue.core.options import resolve
from djqueue.models import KV, DeadJob, Throughput
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.operations.wording import counted
from djqueue.sql import Statements

LATE = 3600.0  # seconds
MOST_LEASES = 1000
MAINTENANCE = "Start a worker without --no-maintenance, or look in the log of one that runs for errors of this work."


def leases(database: Statements) -> Iterator[Finding]:
    """Report claimed jobs whose lease expired more than two leases ago."""
    now = database.now_sql()
    late = 2 * config().lease
    [[expired, oldest, at]] = database.fetch(
        f"""
        SELECT COUNT(*), MIN(lease_expires_at), {now} FROM (
            SELECT lease_expires_at FROM djqueue_job
            WHERE status = 'claimed' AND lease_expires_at < {database.later_sql(-late)} LIMIT {MOST_LEASES}) expired
        """
    )
    if expired:
        number = f"{counted(expired, 'claimed job')}{' or more' if expired == MOST_LEASES else ''}"
        since = (database.instant(at) - database.instant(oldest)).total_seconds()
        yield Finding(
            code=Code.LEASES_EXPIRED,
            severity=Severity.ERROR,
            text=f"The lease of {number} has expired, the first {in_words(since)} ago, and no worker takes them back.",
            remedy=f"{MAINTENANCE} djqueue.maintenance.reap() does it once.",
            subject=Subject.DATABASE,
            key=database.alias,
        )


def retention(database: Statements) -> Iterator[Finding]:
    """Report tables whose oldest row should have been deleted an hour ago. Each is read from the end of an index."""
    now = database.now()
    for queue, oldest in database.oldest_done().items():
        late = _late(oldest, resolve("keep_done", queue), now)
        if late > LATE:
            yield _kept_too_long(f"Done jobs of the queue {queue!r}", late, "KEEP_DONE", "sweep_done")
    dead = DeadJob.objects.using(database.alias).aggregate(oldest=Min("failed_at"))["oldest"]
    if (late := _late(dead, config().keep_dead, now)) > LATE:
        yield _kept_too_long("Dead jobs", late, "KEEP_DEAD", "sweep_dead")
    expiry = KV.objects.using(database.alias).aggregate(oldest=Min("expires_at"))["oldest"]
    if (late := _late(expiry, 0, now)) > LATE:
        yield _kept_too_long("KV entries", late, "", "sweep_kv")


def _late(oldest: datetime | None, keep: float, now: datetime) -> float:
    """Return by how many seconds the deletion of the oldest row is late."""
    return 0.0 if oldest is None or keep == FOR_EVER else (now - oldest).total_seconds() - keep


def _kept_too_long(what: str, late: float, setting: str, sweep: str) -> Finding:
    return Finding(
        code=Code.RETENTION_LATE,
        severity=Severity.WARNING,
        text=f"{what} should have been deleted {in_words(late)} ago{f' ({setting})' if setting else ''}, and are still "
        "there.",
        remedy=f"{MAINTENANCE} djqueue.maintenance.{sweep}() does it once.",
        subject=Subject.SETTINGS if setting else Subject.DATABASE,
        key=setting or config().database,
    )


def counts(database: Statements) -> Iterator[Finding]:
    """Report counts of minutes that should have been merged an hour ago, along djqueue_throughput_roll."""
    rows = Throughput.objects.using(database.alias).filter(rolled=0)
    oldest = rows.aggregate(oldest=Min("minute"))["oldest"]
    late = _late(oldest, timedelta(minutes=2).total_seconds(), database.now())
    if late > LATE:
        yield Finding(
            code=Code.COUNTS_NOT_MERGED,
            severity=Severity.WARNING,
            text=f"Counts of finished jobs should have been merged {in_words(late)} ago: djqueue_throughput grows, and "
            "statistics become slow.",
            remedy=f"{MAINTENANCE} djqueue.maintenance.roll_up() does it once.",
            subject=Subject.DATABASE,
            key=database.alias,
        )
