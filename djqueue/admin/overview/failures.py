"""What failed in the last hour: dead jobs, and jobs that wait for a retry, by task and error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models.functions import Left

from djqueue.admin.error_groups import LENGTH, Group, group_rows, groups
from djqueue.models import DeadJob, Job
from djqueue.sql import Statements
from djqueue.states import Status

# Scheduled jobs that are read, those that are due first: retries are due soon.
FIRST_SCHEDULED = 2_000


@dataclass(frozen=True, slots=True)
class Failures:
    dead: list[Group]
    dead_jobs: int  # that were grouped
    retrying: list[Group]
    retrying_jobs: int
    cut: bool  # not all scheduled jobs were read


def failures(database: Statements, now: datetime) -> Failures:
    since = now - timedelta(hours=1)
    # Along djqueue_dead_sweep.
    dead, dead_jobs = groups(DeadJob.objects.using(database.alias).filter(failed_at__gte=since))
    # Along djqueue_job_due.
    first = Job.objects.using(database.alias).filter(status=Status.SCHEDULED.value).order_by("run_at", "id")
    rows = list(first.values_list("pk", "task", Left("last_error", 2 * LENGTH), "failed_at")[:FIRST_SCHEDULED])
    failed = sorted((row for row in rows if row[3] and row[3] >= since), key=lambda row: row[3], reverse=True)
    retrying = group_rows(first, failed)
    return Failures(dead, dead_jobs, retrying, len(failed), len(rows) == FIRST_SCHEDULED)
