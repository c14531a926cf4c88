"""Dead jobs by task and error: what went wrong, and how often."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

LOOKED_AT = 10_000  # the latest dead jobs that match the filters
SHOWN = 10
LENGTH = 120

# What differs between two errors of one kind: UUIDs, addresses, long hexadecimal words, numbers.
_VARIES = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{16,}\b|[0-9]+", re.I)


@dataclass(frozen=True, slots=True)
class Group:
    task: str
    error: str  # with # for what differs
    count: int


def groups(queryset: QuerySet[Any]) -> tuple[list[Group], int]:
    """The largest groups of the latest dead jobs, and how many jobs were looked at."""
    rows = queryset.values_list("task", Left("last_error", 2 * LENGTH))[:LOOKED_AT]
    counts = Counter((task, kind(error)) for task, error in rows)
    return [Group(task, error, count) for (task, error), count in counts.most_common(SHOWN)], counts.total()


def kind(error: str) -> str:
    """The first line of an error, as `ErrorFilter` finds its like again."""
    return _VARIES.sub("#", error.partition("\n")[0][:LENGTH])
