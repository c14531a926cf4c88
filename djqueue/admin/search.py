"""Search by id, task or queue name, argument and error. An invalid term results in a hint instead of an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast, Lower
from django.utils.formats import number_format
from django.utils.text import smart_split, unescape_string_literal
from django.utils.translation import gettext as _

from djqueue.core import masking, registry
from djqueue.core.payload import storable
from djqueue.core.tags import ModelReference
from djqueue.fields import read_typed
from djqueue.models import DeadJob

from .display import as_text
from .filters import queues_of

WINDOW = 50_000  # number of newest jobs whose arguments or errors are searched
STEP = 5_000  # rows per query
MOST = 500  # maximum number of jobs found by argument or error
TEXTS = ("args_text", "kwargs_text")
ERROR = "error"  # error:text searches in the last error, and in an argument of this name
TERM = ""  # a term without a name: a text in the last error, or the whole name of a task

Wanted = tuple[str, str]  # the name of an argument, ERROR or TERM, and a value


@dataclass
class Search:
    """The parsed search text."""

    ids: list[UUID] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of tasks or queues
    arguments: list[Wanted] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)


def parse(text: str) -> Search:
    found = Search()
    for term in terms(text):
        name, colon, value = term.partition(":")
        if (job_id := as_uuid(term)) is not None:
            found.ids.append(job_id)
        elif not storable(term):
            found.hints.append(_("“%(term)s” contains characters that cannot be stored.") % {"term": term})
        elif not colon or is_text(name) or any(term in task.name for task in registry.all_tasks()):
            found.names.append(term)
        elif name and value:
            found.arguments.append((name, value))
        else:
            found.hints.append(
                _("“%(term)s” is incomplete. Search for an argument as name:value, such as order_id:42.")
                % {"term": term}
            )
    return found


def is_text(name: str) -> bool:
    """Return whether this cannot be the name of an argument, such as the beginning of "order 42: no answer"."""
    return " " in name or name[:1].isdigit()


def run(queryset: QuerySet[Any], search: Search) -> tuple[QuerySet[Any], list[str]]:
    """Return the jobs that match all terms, and notes for the user."""
    notes = list(search.hints)
    if search.hints:
        return queryset.none(), notes
    for job_id in search.ids:
        queryset = queryset.filter(pk=job_id)
    unknown = []
    queues = list(queues_of(queryset.model)) if search.names else []
    for term in search.names:
        named = by_name(term, queues)
        if named is None:
            unknown.append(term)
        else:
            queryset = queryset.filter(named)
    for term in unknown:
        notes.append(
            _(
                "No registered task or queue has “%(term)s” in its name. Showing jobs whose last error contains it, or "
                "whose task has exactly this name."
            )
            % {"term": term}
        )
    if wanted := [*((TERM, term) for term in unknown), *search.arguments]:
        found = Q(pk__in=by_content(queryset, wanted))
        if len(wanted) == len(unknown) == 1:  # all jobs of a task that is not registered, not only the newest
            found |= Q(task=unknown[0])
        queryset = queryset.filter(found)
        notes.append(
            _("Arguments and errors were searched in the newest %(window)s matching jobs; at most %(most)s are shown.")
            % {"window": number_format(WINDOW, force_grouping=True), "most": MOST}
        )
    return queryset, notes


def by_name(term: str, queues: list[str]) -> Q | None:
    """Return the condition for the jobs of tasks and queues whose names contain the term; None if there are none."""
    found = {
        "task__in": [task.name for task in registry.all_tasks() if term.lower() in task.name.lower()],
        "queue__in": [queue for queue in queues if term.lower() in queue.lower()],
    }
    conditions = [Q(**{lookup: names}) for lookup, names in found.items() if names]
    return Q(*conditions, _connector=Q.OR) if conditions else None


def by_content(queryset: QuerySet[Any], wanted: list[Wanted]) -> list[Any]:
    """Return the ids of the newest jobs with these arguments or errors, reading at most `WINDOW` rows in steps."""
    column = "failed_at" if queryset.model is DeadJob else "pk"
    newest = queryset.order_by(f"-{column}")  # however the list is sorted
    keys = list(newest.values_list(column, flat=True)[:WINDOW])
    texts: dict[str, Any] = {text: Cast(text.removesuffix("_text"), TextField()) for text in TEXTS}
    matching = newest.annotate(**texts).alias(lower_error=Lower("last_error")).filter(contained(wanted))
    found: dict[Any, None] = {}  # in order
    for start in range(0, len(keys), STEP):
        step = keys[start : start + STEP]
        rows = matching.filter(**{f"{column}__range": (step[-1], step[0])})
        for pk, task, args, kwargs, error in rows.values_list("pk", "task", *TEXTS, "last_error"):
            if fits(task, args, kwargs, error, wanted):
                found[pk] = None
            if len(found) >= MOST:
                return list(found)
    return list(found)


def contained(wanted: list[Wanted]) -> Q:
    """Return the condition for rows whose texts contain the values, somewhere."""
    everywhere = Q()
    for name, value in wanted:
        places = Q()
        if name in (ERROR, TERM):  # in PostgreSQL's collation "C", only ASCII letters have a lower case
            places |= Q(lower_error__contains=value.lower())
            places |= Q() if value.isascii() else Q(last_error__contains=value)
        if name == TERM:
            places |= Q(task=value)
        else:
            fragment = json.dumps(value, ensure_ascii=False)[1:-1]
            places |= Q(args_text__contains=fragment) | Q(kwargs_text__contains=fragment)
        everywhere &= places
    return everywhere


def fits(task: str, args: str, kwargs: str, error: str, wanted: list[Wanted]) -> bool:
    """Return whether a job has these arguments or errors. Sensitive values never match: a search would reveal them."""
    values = read_typed(args), read_typed(kwargs)
    named = masking.visible(task, *values)
    text = masking.hide(error, masking.secrets(task, *values)).lower()
    return all(
        (name in (ERROR, TERM) and value.lower() in text)
        or (name == TERM and value == task)
        or (name in named and value in spellings(named[name]))
        for name, value in wanted
    )


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
