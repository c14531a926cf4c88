"""The admin's log of jobs. An action on many jobs is one entry, found again by the id of each of them.

The first line of such an entry's message says what was done, and each further line names a job. The list of recent
actions then shows the action once, and the history of a job still shows who acted on it, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q
from django.utils.formats import number_format

from djqueue.models import DeadJob, DoneJob, Job

TABLES = (Job, DoneJob, DeadJob)
MOST_JOBS = 10_000  # in one entry: its text is written again after each batch
MOST_HISTORY = 100


def write(user: Any, flag: int, text: str, jobs: Sequence[Any], entry: LogEntry | None) -> LogEntry | None:
    """Log an action on jobs of one table. Continue the entry of an earlier batch; return the entry to continue."""
    lines = [line(job) for job in jobs]
    if entry is None and len(jobs) == 1:
        more = "" if lines[0] == str(jobs[0].pk) else f" {lines[0]}"
        LogEntry.objects.log_actions(user, jobs, flag, f"{text}{more}")
        return None
    if entry is None or entry.change_message.count("\n") + len(lines) > MOST_JOBS:
        kind = ContentType.objects.get_for_model(jobs[0])
        entry = LogEntry(user_id=user, content_type=kind, action_flag=flag, change_message=text)
    entry.change_message += "".join(f"\n{one}" for one in lines)
    count = number_format(entry.change_message.count("\n"), force_grouping=True)
    entry.object_repr = f"{count} {jobs[0]._meta.verbose_name_plural}: {text}"[:200]
    entry.save()
    return entry


def line(job: Any) -> str:
    """Return the line that names a job, and its copy if it was enqueued again."""
    copy = getattr(job, "copy_id", None)
    return f"{job.pk} → {copy}" if copy else str(job.pk)


def history(job_id: UUID) -> list[LogEntry]:
    """Return the entries about a job from all tables, latest first. A requeue is logged for the dead job."""
    named = Q(object_id=str(job_id)) | Q(change_message__contains=str(job_id))
    types = ContentType.objects.get_for_models(*TABLES).values()
    entries = LogEntry.objects.filter(named, content_type__in=types).select_related("user").order_by("-action_time")
    return [about(entry, str(job_id)) for entry in entries[:MOST_HISTORY]]


def about(entry: LogEntry, job_id: str) -> LogEntry:
    """Leave out the other jobs of the entry."""
    text, *lines = entry.change_message.split("\n")
    entry.change_message = " ".join([text, *(one for one in lines if job_id in one and one != job_id)])
    return entry
