"""Group dead jobs by task and error."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

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


def groups(queryset: QuerySet[Any]) -> tuple[list[Group], int]:
    """Return the largest groups of the latest dead jobs, and how many jobs were grouped."""
    rows = queryset.values_list("task", Left("last_error", 2 * LENGTH))[:LATEST]
    counts = Counter((task, kind(error)) for task, error in rows)
    return [Group(task, error, count) for (task, error), count in counts.most_common(SHOWN)], counts.total()


def kind(error: str) -> str:
    """Return the first line of an error as the pattern that `ErrorFilter` matches."""
    return _VARIES.sub("#", error.partition("\n")[0][:LENGTH])
