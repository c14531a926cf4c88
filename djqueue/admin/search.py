"""Search by id, task name and argument. An invalid term results in a hint instead of an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Case, Q, QuerySet, TextField, When
from django.db.models.functions import Cast
from django.utils.formats import number_format
from django.utils.text import smart_split, unescape_string_literal
from django.utils.translation import gettext as _

from djqueue.core import masking, registry
from djqueue.core.payload import storable
from djqueue.core.tags import ModelReference
from djqueue.fields import read_typed

from .display import as_text

WINDOW = 50_000  # number of newest jobs whose arguments are searched
STEP = 5_000  # rows per query
MOST = 500  # maximum number of jobs found by argument


@dataclass
class Search:
    """The parsed search text."""

    ids: list[UUID] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    arguments: list[tuple[str, str]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)


def parse(text: str) -> Search:
    found = Search()
    for term in terms(text):
        name, colon, value = term.partition(":")
        if (job_id := as_uuid(term)) is not None:
            found.ids.append(job_id)
        elif not storable(term):
            found.hints.append(_("“%(term)s” contains characters that cannot be stored.") % {"term": term})
        elif not colon or any(term in task.name for task in registry.all_tasks()):
            found.tasks.append(term)
        elif name and value:
            found.arguments.append((name, value))
        else:
            found.hints.append(
                _("“%(term)s” is incomplete. Search for an argument as name:value, such as order_id:42.")
                % {"term": term}
            )
    return found


def run(queryset: QuerySet[Any], search: Search) -> tuple[QuerySet[Any], list[str]]:
    """Return the jobs that match all terms, and notes for the user."""
    notes = list(search.hints)
    if search.hints:
        return queryset.none(), notes
    for job_id in search.ids:
        queryset = queryset.filter(pk=job_id)
    for term in search.tasks:
        names = [task.name for task in registry.all_tasks() if term.lower() in task.name.lower()]
        queryset = queryset.filter(task__in=names or [term])
        if not names:
            notes.append(
                _("No registered task contains “%(term)s” in its name. Showing jobs with exactly this task name.")
                % {"term": term}
            )
    if search.arguments:
        ids = by_arguments(queryset, search.arguments)
        queryset = queryset.filter(pk__in=ids)
        notes.append(
            _("Arguments were searched in the newest %(window)s matching jobs; at most %(most)s results are shown.")
            % {"window": number_format(WINDOW, force_grouping=True), "most": MOST}
        )
    return queryset, notes


def by_arguments(queryset: QuerySet[Any], arguments: list[tuple[str, str]]) -> list[Any]:
    """Return the ids of the newest jobs with these arguments, reading at most `WINDOW` rows in steps."""
    found: list[Any] = []
    for start in range(0, WINDOW, STEP):
        rows = candidates(queryset, arguments)[start : start + STEP]
        seen = 0
        for pk, task, args, kwargs in rows:
            seen += 1
            if args is not None and fits(task, args, kwargs, arguments):
                found.append(pk)
        if seen < STEP or len(found) >= MOST:
            break
    return found[:MOST]


def candidates(queryset: QuerySet[Any], arguments: list[tuple[str, str]]) -> QuerySet[Any]:
    """Select all rows, but read the arguments only of rows whose text contains the values."""
    contained = Q()
    for _name, value in arguments:
        fragment = json.dumps(value, ensure_ascii=False)[1:-1]
        contained &= Q(args_text__contains=fragment) | Q(kwargs_text__contains=fragment)
    texts = {f"{name}_text": Cast(name, TextField()) for name in ("args", "kwargs")}
    shown = {f"found_{name}": Case(When(contained, then=f"{name}_text")) for name in ("args", "kwargs")}
    rows: QuerySet[Any] = queryset.alias(**texts).annotate(**shown)
    return rows.values_list("pk", "task", "found_args", "found_kwargs")


def fits(task: str, args: str, kwargs: str, arguments: list[tuple[str, str]]) -> bool:
    """Return whether a job has these arguments. Sensitive ones never match, as a search would reveal them."""
    named = masking.visible(task, read_typed(args), read_typed(kwargs))
    return all(name in named and value in spellings(named[name]) for name, value in arguments)


def spellings(value: Any) -> tuple[str, ...]:
    """Return the ways to type a value in a search: the string "42" also as 42, and shop.Order 42 by its key."""
    if isinstance(value, ModelReference):
        return (str(value.pk),)
    text = as_text(value)
    return (text, value) if isinstance(value, str) else (text, str(value))


def terms(text: str) -> Iterator[str]:
    for bit in smart_split(text):
        if bit[0] in "\"'" and bit[0] == bit[-1] and len(bit) > 1:
            bit = unescape_string_literal(bit)
        name, colon, value = bit.partition(":")
        if colon and len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]:
            bit = f"{name}:{unescape_string_literal(value)}"
        if bit:
            yield bit


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
