"""Group dead jobs by task and error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

from . import timeline

LATEST = 10_000  # dead jobs that are grouped, of those that match the filters
SHOWN = 10
LENGTH = 120

# The parts that vary between errors of the same kind: UUIDs, addresses, long hexadecimal words, numbers.
_VARIES = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{16,}\b|[0-9]+", re.I)


@dataclass(frozen=True, slots=True)
class Group:
    task: str
    error: str  # with # in place of the parts that vary
    count: int
    first: datetime  # when the first and the latest of its jobs died
    last: datetime
    exception: str = ""  # of the latest job


def groups(queryset: QuerySet[Any]) -> tuple[list[Group], int]:
    """Return the largest groups of the latest dead jobs, and how many jobs were grouped."""
    latest = queryset.order_by("-failed_at", "-pk")[:LATEST]
    found: dict[tuple[str, str], list[Any]] = {}  # the ids and times of each group, latest first
    grouped = 0
    for pk, task, error, failed_at in latest.values_list("pk", "task", Left("last_error", 2 * LENGTH), "failed_at"):
        found.setdefault((task, kind(error)), []).append((pk, failed_at))
        grouped += 1
    largest = sorted(found.items(), key=lambda group: -len(group[1]))[:SHOWN]
    exceptions = exceptions_of(queryset, [jobs[0][0] for _, jobs in largest])
    return [
        Group(task, error, len(jobs), jobs[-1][1], jobs[0][1], exceptions.get(jobs[0][0], ""))
        for (task, error), jobs in largest
    ], grouped


def exceptions_of(queryset: QuerySet[Any], ids: Sequence[Any]) -> dict[Any, str]:
    """Return the class of the last exception of each job. Only a few are read: tracebacks are long."""
    if not ids:
        return {}
    rows = queryset.model._base_manager.using(queryset.db).filter(pk__in=ids).values_list("pk", "errors")
    return {pk: timeline.last_exception(errors) for pk, errors in rows}


def kind(error: str) -> str:
    """Return the first line of an error as the pattern that `ErrorFilter` matches."""
    return _VARIES.sub("#", error.partition("\n")[0][:LENGTH])
