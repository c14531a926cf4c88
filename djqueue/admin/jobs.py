"""Live jobs: run now, cancel, change priority or time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from djqueue.lifecycle.cancel import cancel_many
from djqueue.lifecycle.requeue import reschedule_many
from djqueue.models import Job, Worker
from djqueue.sql import statements
from djqueue.states import CancelOutcome, Status

from . import display
from .actions import KEEP, Act, RowResult
from .filters import (
    ErrorsFilter,
    FailedFilter,
    GroupFilter,
    LateFilter,
    LimitKeyFilter,
    LiveStatusFilter,
    QueueFilter,
    TaskFilter,
)
from .forms import RescheduleForm
from .job_base import JobFieldsAdmin


def run_now(jobs: Sequence[Job], options: Mapping[str, Any]) -> dict[UUID, str]:
    scheduled = [job.pk for job in jobs if job.status == Status.SCHEDULED.value]
    return dict.fromkeys(reschedule_many(scheduled, run_at=statements().now()), "due")


def cancel(jobs: Sequence[Job], options: Mapping[str, Any]) -> dict[UUID, str]:
    asked = {job.pk for job in jobs if job.cancel_requested}
    return {
        done.id: done.outcome.value
        for done in cancel_many([job.pk for job in jobs])
        if done.outcome == CancelOutcome.REMOVED or done.id not in asked  # asking again changes nothing
    }


def reschedule(jobs: Sequence[Job], options: Mapping[str, Any]) -> dict[UUID, str]:
    changed = reschedule_many([job.pk for job in jobs], run_at=options.get("run_at"), priority=options.get("priority"))
    return dict.fromkeys(changed, "changed")


RUN_NOW = Act(
    name="run_now",
    title=_("Run jobs now"),
    question=_(
        "Are you sure you want to run these scheduled jobs now? Jobs that are blocked, pending or held by a worker are "
        "skipped."
    ),
    button=_("Run now"),
    confirm=ngettext_lazy("Run %(rows)s job now", "Run %(rows)s jobs now", "count"),
    perform=run_now,
    results={"due": RowResult(_("%(count)s set to run now"), _("Set to run now."))},
    enqueues=True,
)
CANCEL = Act(
    name="cancel",
    title=_("Cancel jobs"),
    question=_(
        "Are you sure you want to cancel these jobs? Waiting jobs are cancelled immediately. Jobs held by a worker are "
        "asked to stop, unless they were asked already."
    ),
    button=_("Cancel"),
    confirm=ngettext_lazy("Cancel %(rows)s job", "Cancel %(rows)s jobs", "count"),
    decline=KEEP,
    perform=cancel,
    results={
        CancelOutcome.REMOVED.value: RowResult(_("%(count)s cancelled"), _("Cancelled.")),
        CancelOutcome.REQUESTED.value: RowResult(_("%(count)s asked to stop"), _("Asked to stop.")),
    },
    danger=True,
)
RESCHEDULE = Act(
    name="reschedule",
    title=_("Change priority or time"),
    question=_("Change the priority or the time of these jobs. Jobs held by a worker are skipped."),
    button=_("Change priority or time"),
    confirm=ngettext_lazy("Change %(rows)s job", "Change %(rows)s jobs", "count"),
    perform=reschedule,
    results={"changed": RowResult(_("%(count)s changed"), _("Changed priority or time."))},
    form=RescheduleForm,
)


class JobAdmin(JobFieldsAdmin):
    ordering = ("-id",)  # newest first: generated ids are ordered by time
    list_display = (
        "task_column",
        "status_column",
        "queue_column",
        "arguments_column",
        "attempts_column",
        "due_column",
        "run_column",
        "worker_column",
    )
    list_filter = (
        LiveStatusFilter,
        QueueFilter,
        TaskFilter,
        LimitKeyFilter,
        ErrorsFilter,
        FailedFilter,
        GroupFilter,
        LateFilter,
    )
    actions = ("run_now", "cancel", "reschedule")
    acts = (RUN_NOW, CANCEL, RESCHEDULE)
    act_fields = ("id", "task", "queue", "status", "cancel_requested")
    on_page = {
        "cancel": lambda job: job.status != Status.CLAIMED.value or not job.cancel_requested,
        "run_now": lambda job: job.status == Status.SCHEDULED.value,
        "reschedule": lambda job: job.status != Status.CLAIMED.value,
    }

    def has_run_now_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "run_now")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "cancel")

    def has_reschedule_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "reschedule")

    @admin.action(permissions=["run_now"], description=_("Run selected %(verbose_name_plural)s now"))
    def run_now(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return self.ask(request, queryset, RUN_NOW)

    @admin.action(permissions=["cancel"], description=_("Cancel selected %(verbose_name_plural)s"))
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return self.ask(request, queryset, CANCEL)

    @admin.action(
        permissions=["reschedule"], description=_("Change priority or time of selected %(verbose_name_plural)s")
    )
    def reschedule(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return self.ask(request, queryset, RESCHEDULE)

    @admin.display(description=_("state"))
    def status_column(self, obj: Job) -> str:
        shown = display.status(obj)
        return format_html("{} {}", shown, gettext("cancel requested")) if obj.cancel_requested else shown

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        """Offer to sort by the due time where an index serves it."""
        return ("due_column",) if request.GET.get("status") == Status.SCHEDULED.value else ()

    @admin.display(description=_("due"), ordering="run_at")
    def due_column(self, obj: Job) -> str:
        return display.ago(max(obj.run_at, obj.enqueued_at))

    @admin.display(description=_("run time"))
    def run_column(self, obj: Job) -> str:
        return display.between(obj.claimed_at if obj.started else None, timezone.now())

    @admin.display(description=_("worker"))
    def worker_column(self, obj: Job) -> str:
        url = obj.worker and self.url("change", quote(obj.worker), model=Worker)
        return format_html('<a href="{}">{}</a>', url, obj.worker) if url else obj.worker or display.NOTHING
