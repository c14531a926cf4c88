"""Find jobs by queue, task, state, error and time, and read many of them in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, F, Lookup, Q, QuerySet, When
from django.db.models.functions import Length, Lower

from djqueue.conf import config
from djqueue.core.payload import storable
from djqueue.fields import ExactTextField
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.sql import counts, statements
from djqueue.states import Status

RUNNING = "running"  # a claimed job that has started
STATES = (*Status.values, RUNNING)
LONGEST_SHOWN = 2_000  # characters of a JSON value that a list reads

# The table of each state, the column by which `since` compares, and the order of a list.
TABLES: dict[Any, tuple[tuple[str, ...], str, str]] = {
    Job: (("scheduled", "blocked", "pending", "claimed", RUNNING), "enqueued_at", "-id"),
    DoneJob: (("done", "cancelled"), "completed_at", "-id"),
    DeadJob: (("dead",), "failed_at", "-failed_at"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which jobs to find; an empty filter matches all."""

    queues: Sequence[str] = ()
    tasks: Sequence[str] = ()
    states: Sequence[str] = ()
    error: str = ""  # text of the last error, in which # matches anything
    since: datetime | None = None  # live jobs by their enqueue, others by their end

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def tables(self) -> list[Any]:
        """Return the models that may contain the jobs."""
        return [model for model, (states, *_) in TABLES.items() if not self.states or set(states) & set(self.states)]


def find(model: Any, filters: Filters) -> QuerySet[Any]:
    """Return the jobs of one table that match all filters."""
    states, time, _order = TABLES[model]
    rows = model._base_manager.using(config().database)
    if not all(map(storable, (*filters.queues, *filters.tasks, filters.error))):
        return rows.none()  # type: ignore[no-any-return]  # the database would raise an error
    if filters.queues:
        rows = rows.filter(queue__in=filters.queues)
    if filters.tasks:
        rows = rows.filter(task__in=filters.tasks)
    if filters.error:
        rows = rows.alias(lower_error=Lower("last_error")).filter(
            lower_error__like="%" + pattern(filters.error.lower())
        )
    if filters.since is not None:
        rows = rows.filter(**{f"{time}__gte": filters.since})
        if model is DoneJob and not filters.queues:
            rows = rows.filter(queue__in=queues_of(DoneJob))  # the index begins with the queue
    wanted = [state for state in states if state in filters.states]
    if model is not DeadJob and wanted:
        rows = rows.filter(_in_states(wanted))
    return rows  # type: ignore[no-any-return]


def _in_states(states: Iterable[str]) -> Q:
    conditions = [Q(status=Status.CLAIMED.value, started=True) if s == RUNNING else Q(status=s) for s in states]
    return Q(*conditions, _connector=Q.OR)


def newest(filters: Filters, limit: int) -> list[Any]:
    """Return the newest matching jobs of all tables, without large columns."""
    tables = filters.tables()
    found: list[Any] = []
    for model in tables:
        order = TABLES[model][2] if len(tables) == 1 else "-id"
        unread = ("headers", "errors", "progress", "retry", *(["result"] if model is DoneJob else []))
        rows = find(model, filters).order_by(order, "-id")
        found += for_list(rows, ("args", "kwargs"), unread)[:limit]
    if len(tables) > 1:
        found.sort(key=lambda job: job.pk, reverse=True)
    return found[:limit]


def for_list(rows: QuerySet[Any], json_columns: Sequence[str], unread_columns: Sequence[str]) -> QuerySet[Any]:
    """Defer the large columns of rows: `short_args` is None where `args` is long."""
    shown = {f"short_{name}": if_short(name, rows.model._meta.get_field(name)) for name in json_columns}
    sizes = {f"{name}_size": Length(name) for name in json_columns}
    light: QuerySet[Any] = rows.defer(*json_columns, *unread_columns).alias(**sizes).annotate(**shown)
    return light


def if_short(name: str, field: Any) -> Case:
    return Case(When(**{f"{name}_size__lte": LONGEST_SHOWN}, then=F(name)), output_field=type(field)())


def batches(queryset: QuerySet[Any], size: int) -> Iterator[list[Any]]:
    """Split rows into batches by primary key, so that changes to one batch do not shift the next."""
    rows = queryset.order_by("pk")
    page = rows
    while batch := list(page[:size]):
        yield batch
        if len(batch) < size:
            return
        page = rows.filter(pk__gt=batch[-1].pk)


@ExactTextField.register_lookup
class Like(Lookup):
    lookup_name = "like"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return f"{left} LIKE {right} ESCAPE '!'", (*left_params, *right_params)


def pattern(text: str) -> str:
    """Return the pattern of LIKE for texts that begin with this one, in which # matches anything."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return text.replace("#", "%") + "%"


def queues_of(model: Any) -> Iterable[str]:
    """Return the queues of a table."""
    if model is DeadJob or model is DoneJob:
        return statements().queues_in(model._meta.db_table)
    return counts.live_names(statements()) | set(config().queues)
