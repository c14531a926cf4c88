"""List filters with cheap choices: from index skips and the task registry, never DISTINCT over a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Case, Q, QuerySet, When
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from djqueue.core import registry
from djqueue.core.payload import storable
from djqueue.models import DeadJob, DoneJob
from djqueue.operations.search import RUNNING, pattern
from djqueue.operations.search import queues_of as queues_of
from djqueue.sql import statements
from djqueue.states import LIVE, WAITING, Status

from .display import dotted
from .error_groups import CUT, expression

MOST_CHOICES = 100


class ValueFilter(admin.SimpleListFilter):
    """Filter one column by one value. A value in use is listed even if it is not among the choices."""

    field = ""

    def values(self) -> Iterable[str]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        self.model = model_admin.model
        names = sorted(set(self.values()))[:MOST_CHOICES]
        chosen = self.value()
        return [(name, dotted(name)) for name in (names if chosen is None or chosen in names else [*names, chosen])]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if value is None:
            return None
        # The database would raise an error for a value that cannot be stored.
        return queryset.filter(**{self.field: value}) if storable(value) else queryset.none()


class StatusFilter(ValueFilter):
    title = _("state")
    parameter_name = field = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(value), str(label)) for value, label in model_admin.opts.get_field("status").choices]


class LiveStatusFilter(StatusFilter):
    """With the state that the list shows for a claimed job that has started."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        labels = dict(super().lookups(request, model_admin)) | {Status.CLAIMED.value: str(_("claimed or running"))}
        return [*labels.items(), (RUNNING, str(_("running")))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if self.value() == RUNNING:
            return queryset.filter(status=Status.CLAIMED.value, started=True)
        return super().queryset(request, queryset)


class QueueFilter(ValueFilter):
    title = _("queue")
    parameter_name = field = "queue"

    def values(self) -> Iterable[str]:
        return queues_of(self.model)


class TaskFilter(ValueFilter):
    title = _("task")
    parameter_name = field = "task"

    def values(self) -> Iterable[str]:
        if self.model is DeadJob:  # including tasks that were removed from the code
            return statements().distinct("task", "djqueue_deadjob")
        return [task.name for task in registry.all_tasks()]


class ErrorsFilter(admin.SimpleListFilter):
    title = _("errors")
    parameter_name = "errors"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("with failed attempts")), ("no", _("without failed attempts"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        match self.value():
            case "yes":
                return queryset.exclude(errors="")
            case "no":
                return queryset.filter(errors="")
        return None


class SpanFilter(admin.SimpleListFilter):
    """Compare a time with that of the database, minus a span."""

    spans: ClassVar[dict[str, tuple[timedelta, Any]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, label) for name, (_, label) in self.spans.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        span = self.spans.get(self.value() or "")
        return None if span is None else self.compared(queryset, statements().now() - span[0])

    def compared(self, queryset: QuerySet[Any], time: datetime) -> QuerySet[Any]:
        raise NotImplementedError


class LateFilter(SpanFilter):
    """Jobs that are due but have not been claimed for a while."""

    title = _("delay")
    parameter_name = "late"
    spans = {
        "minute": (timedelta(minutes=1), _("overdue by 1 minute or more")),
        "hour": (timedelta(hours=1), _("overdue by 1 hour or more")),
        "day": (timedelta(days=1), _("overdue by 1 day or more")),
    }

    def compared(self, queryset: QuerySet[Any], time: datetime) -> QuerySet[Any]:
        waiting = Q(*(Q(status=status.value) for status in WAITING), _connector=Q.OR)
        return queryset.filter(waiting, run_at__lte=time)


class SinceFilter(SpanFilter):
    """Jobs that ended in the last hour, day or week."""

    parameter_name = "since"
    spans = {
        "hour": (timedelta(hours=1), _("in the last hour")),
        "day": (timedelta(days=1), _("in the last day")),
        "week": (timedelta(weeks=1), _("in the last week")),
    }


class DiedFilter(SinceFilter):
    title = _("time of death")

    def compared(self, queryset: QuerySet[Any], time: datetime) -> QuerySet[Any]:
        return queryset.filter(failed_at__gte=time)


class FailedFilter(SinceFilter):
    title = _("last failure")

    def compared(self, queryset: QuerySet[Any], time: datetime) -> QuerySet[Any]:
        return queryset.filter(failed_at__gte=time)


class FinishedFilter(SinceFilter):
    title = _("end")

    def compared(self, queryset: QuerySet[Any], time: datetime) -> QuerySet[Any]:
        """Name the queues, because the index begins with them."""
        return queryset.filter(completed_at__gte=time, queue__in=queues_of(DoneJob))


class ErrorFilter(ValueFilter):
    """Jobs whose last error matches this pattern, in which # matches anything."""

    title = _("error")
    parameter_name = "error"

    def values(self) -> Iterator[str]:
        return iter(())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if value is None:
            return None
        return queryset.filter(last_error__like=pattern(value)) if storable(value) else queryset.none()


class LimitKeyFilter(ValueFilter):
    """Live jobs of one limit key. The page of the limit links to it: there may be too many keys to list them."""

    title = _("limit key")
    parameter_name = "limit_key__exact"

    def values(self) -> Iterator[str]:
        return iter(())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if value is None:
            return None
        # All states, because on MariaDB the index begins with the status.
        live = queryset.filter(limit_key=value, status__in=[status.value for status in LIVE])
        return live if storable(value) else queryset.none()


class GroupFilter(ErrorFilter):
    """Jobs whose last error is of this kind, and no others. The error groups link to it."""

    title = _("error group")
    parameter_name = "group"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        if value is None:
            return None
        exact = expression(value)
        if exact is None or not storable(value):
            return queryset.none()
        begins = pattern(value.removesuffix(CUT))
        like = Q(last_error__like=begins)
        if not value.endswith(CUT):
            like = Q(last_error__like=begins[:-1]) | Q(last_error__like=f"{begins[:-1]}\n%")
        # CASE, because PostgreSQL would evaluate the regular expression first, for every row.
        is_of_kind = Case(When(last_error__regex=exact, then=True), default=False)
        in_group = Case(When(like, then=is_of_kind), default=False)
        found: QuerySet[Any] = queryset.alias(in_group=in_group).filter(in_group=True)
        return found
