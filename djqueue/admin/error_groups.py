"""Group dead jobs by task and error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

from . import timeline

LATEST = 10_000  # dead jobs that are grouped, of those that match the filters
SHOWN = 10
LENGTH = 120

MOST_PARTS = 20  # of a pattern, between those that vary

# The parts that vary between errors of the same kind: UUIDs, addresses, long hexadecimal words, numbers.
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_VARIES = re.compile(rf"(?:\b{_UUID}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{{16,}}\b|[0-9]+|#)+", re.I)
# The same for databases: these know neither word boundaries nor flags in a common form.
_HEX = "[0-9a-fA-FxX#]"
_VARYING = f"({_UUID.replace('a-f', 'a-fA-F').replace('(?:', '(')}|{_HEX}*[0-9#]{_HEX}*)"
CUT = "…"  # ends a pattern of which only the beginning is known


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
    rows = list(latest.values_list("pk", "task", Left("last_error", 2 * LENGTH), "failed_at"))
    return group_rows(queryset, rows), len(rows)


def group_rows(queryset: QuerySet[Any], rows: Iterable[Any]) -> list[Group]:
    """Return the largest groups of rows, which are (pk, task, error, failed_at), latest first."""
    found: dict[tuple[str, str], list[Any]] = {}  # the ids and times of each group, latest first
    for pk, task, error, failed_at in rows:
        found.setdefault((task, kind(error)), []).append((pk, failed_at))
    largest = sorted(found.items(), key=lambda group: -len(group[1]))[:SHOWN]
    exceptions = exceptions_of(queryset, [jobs[0][0] for _, jobs in largest])
    return [
        Group(task, error, len(jobs), jobs[-1][1], jobs[0][1], exceptions.get(jobs[0][0], ""))
        for (task, error), jobs in largest
    ]


def exceptions_of(queryset: QuerySet[Any], ids: Sequence[Any]) -> dict[Any, str]:
    """Return the class of the last exception of each job. Only a few are read: tracebacks are long."""
    if not ids:
        return {}
    rows = queryset.model._base_manager.using(queryset.db).filter(pk__in=ids).values_list("pk", "errors")
    return {pk: timeline.last_exception(errors) for pk, errors in rows}


@lru_cache(5_000)  # the overview reads the same errors again and again
def kind(error: str) -> str:
    """Return the first line of an error as the pattern that `GroupFilter` matches."""
    first, newline, _ = error.partition("\n")
    parts = _VARIES.sub("#", first).split("#")
    line = "#".join(parts[:MOST_PARTS])
    is_whole = len(line) <= LENGTH and len(parts) <= MOST_PARTS and (newline or len(error) < 2 * LENGTH)
    return line if is_whole else line[:LENGTH] + CUT


def expression(kind: str) -> str | None:
    """Return the regular expression of exactly the errors of a kind; None if the text is no kind."""
    parts = kind.removesuffix(CUT).split("#")
    if len(parts) > MOST_PARTS or len(kind) > LENGTH + len(CUT):
        return None
    return f"^{_VARYING.join(map(re.escape, parts))}" + ("" if kind.endswith(CUT) else "(\n|$)")
