"""Filters whose choices cost little: index hops and the registry, never DISTINCT over a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Lookup, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from djqueue import registry
from djqueue.conf import config
from djqueue.fields import ExactTextField
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.payload import safe_text
from djqueue.sql import statements
from djqueue.states import Status

MOST_CHOICES = 100
LOOKED_AT = 1_000


class ValueFilter(admin.SimpleListFilter):
    """One column, one value; a value that is not among the choices is shown as one while it is used."""

    field = ""

    def values(self) -> Iterable[str]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        self.model = model_admin.model
        names = sorted(set(self.values()))[:MOST_CHOICES]
        chosen = self.value()
        return [(name, name) for name in (names if chosen is None or chosen in names else [*names, chosen])]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if value is None:
            return None
        # What no row can hold would be an error of the database.
        return queryset.filter(**{self.field: value}) if storable(value) else queryset.none()


class StatusFilter(ValueFilter):
    title = _("state")
    parameter_name = field = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(value), str(label)) for value, label in model_admin.opts.get_field("status").choices]


class QueueFilter(ValueFilter):
    title = _("queue")
    parameter_name = field = "queue"

    def values(self) -> Iterable[str]:
        if self.model is DeadJob or self.model is DoneJob:
            return statements().queues_in(self.model._meta.db_table)
        return live_queues()


class TaskFilter(ValueFilter):
    title = _("task")
    parameter_name = field = "task"

    def values(self) -> Iterable[str]:
        if self.model is DeadJob:  # also those that are no longer in the code, which is what some die of
            return statements().distinct("task", "djqueue_deadjob")
        return [task.name for task in registry.all_tasks()]


class ErrorsFilter(admin.SimpleListFilter):
    title = _("errors")
    parameter_name = "errors"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("has failed before")), ("no", _("has not failed"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        match self.value():
            case "yes":
                return queryset.exclude(errors="")
            case "no":
                return queryset.filter(errors="")
        return None


class LateFilter(admin.SimpleListFilter):
    """Due for long, and nobody has taken it."""

    title = _("lateness")
    parameter_name = "late"
    spans: ClassVar[dict[str, tuple[timedelta, Any]]] = {
        "minute": (timedelta(minutes=1), _("due for a minute or more")),
        "hour": (timedelta(hours=1), _("due for an hour or more")),
        "day": (timedelta(days=1), _("due for a day or more")),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, label) for name, (_, label) in self.spans.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        span = self.spans.get(self.value() or "")
        if span is None:
            return None
        waiting = Q(status=Status.PENDING.value) | Q(status=Status.SCHEDULED.value)
        return queryset.filter(waiting, run_at__lte=statements().now() - span[0])


class ErrorFilter(ValueFilter):
    """Jobs whose last error reads like this; each # stands for whatever is there. Links of the groups use it."""

    title = _("error")
    parameter_name = "error"

    def values(self) -> Iterator[str]:
        return iter(())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if value is None:
            return None
        return queryset.filter(last_error__like=pattern(value)) if storable(value) else queryset.none()


@ExactTextField.register_lookup
class Like(Lookup):
    lookup_name = "like"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return f"{left} LIKE {right} ESCAPE '!'", (*left_params, *right_params)


def pattern(text: str) -> str:
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return text.replace("#", "%") + "%"


def storable(text: str) -> bool:
    return safe_text(text, len(text)) == text


def live_queues() -> set[str]:
    """The queues that a live job may be in, without a look at all of them: those that wait by an index hop, and of
    the scheduled and the claimed the first thousand."""
    live = Job.objects.using(config().database)
    found = set(statements().queues_in("djqueue_job", "status = 'pending'"))
    scheduled = live.filter(status=Status.SCHEDULED.value).order_by("run_at", "id")
    claimed = live.filter(status=Status.CLAIMED.value).order_by("id")
    for rows in (scheduled, claimed):
        found.update(rows.values_list("queue", flat=True)[:LOOKED_AT])
    return found | set(config().queues)
