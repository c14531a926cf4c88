"""Dead jobs: error groups, requeue (also with other arguments, or spread over time), delete."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import DELETION
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from djqueue import jobs
from djqueue.core.records import Requeue
from djqueue.exceptions import NotDead
from djqueue.lifecycle.requeue import requeue_many
from djqueue.lifecycle.sweep import delete_dead
from djqueue.models import DeadJob
from djqueue.sql import statements

from . import display
from .actions import KEEP, Act, RowResult
from .error_groups import groups
from .filters import DiedFilter, ErrorFilter, GroupFilter, QueueFilter, TaskFilter
from .forms import ArgumentsForm, SpreadForm
from .job_base import JobFieldsAdmin


def requeue(dead: Sequence[DeadJob], options: Mapping[str, Any]) -> dict[UUID, str]:
    span = 60 * (options.get("spread") or 0)
    now = statements().now() if span else None

    def when() -> Any:
        return None if now is None else now + timedelta(seconds=random.uniform(0, span))

    records = requeue_many([Requeue(id=job.pk, run_at=when()) for job in dead])
    return {record.id: "requeued" for record in records}


def requeue_edited(dead: Sequence[DeadJob], options: Mapping[str, Any]) -> dict[UUID, str]:
    [job] = dead
    try:
        jobs.requeue(job.pk, args=options["args"], kwargs=options["kwargs"])
    except NotDead:
        return {}
    return {job.pk: "requeued"}


def delete(dead: Sequence[DeadJob], options: Mapping[str, Any]) -> dict[UUID, str]:
    return dict.fromkeys(delete_dead([job.pk for job in dead]), "deleted")


REQUEUE = Act(
    name="requeue",
    title=_("Requeue dead jobs"),
    question=_(
        "Are you sure you want to requeue these jobs? Each keeps its id and its error history, and starts again with "
        "all its attempts."
    ),
    button=_("Requeue"),
    confirm=ngettext_lazy("Requeue %(rows)s job", "Requeue %(rows)s jobs", "count"),
    perform=requeue,
    results={"requeued": RowResult(_("%(count)s requeued"), _("Requeued."))},
    form=SpreadForm,
    enqueues=True,
)
REQUEUE_EDITED = Act(
    name="requeue_edited",
    title=_("Requeue with other arguments"),
    question=_("Edit the arguments of this job before it is requeued. Masked values that are left unchanged are kept."),
    button=_("Requeue with other arguments"),
    confirm=_("Requeue with these arguments"),
    perform=requeue_edited,
    results={"requeued": RowResult(_("%(count)s requeued"), _("Requeued with other arguments."))},
    enqueues=True,
)
DELETE = Act(
    name="delete",
    title=_("Delete dead jobs"),
    question=_("Are you sure you want to delete these jobs? This cannot be undone."),
    button=_("Delete"),
    confirm=ngettext_lazy("Delete %(rows)s job", "Delete %(rows)s jobs", "count"),
    decline=KEEP,
    perform=delete,
    results={"deleted": RowResult(_("%(count)s deleted"), _("Deleted."))},
    flag=DELETION,
    danger=True,
)


class DeadJobAdmin(JobFieldsAdmin):
    ordering = ("-failed_at",)
    list_display = (
        "task_column",
        "error_column",
        "failed_column",
        "attempts_column",
        "queue_column",
        "arguments_column",
    )
    list_filter = (DiedFilter, QueueFilter, TaskFilter, ErrorFilter, GroupFilter)
    sortable_by = ("failed_column",)
    actions = ("requeue", "requeue_edited", "delete")
    acts = (REQUEUE, REQUEUE_EDITED, DELETE)

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "requeue")

    def has_change_arguments_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "change_arguments")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Check Django's delete permission. Django's delete views stay disabled: they bypass djqueue's API."""
        return self.has_own_permission(request, "delete")

    @admin.action(permissions=["requeue"], description=_("Requeue selected %(verbose_name_plural)s"))
    def requeue(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> HttpResponse:
        return self.ask(request, queryset, REQUEUE)

    @admin.action(permissions=["change_arguments"], description=_("Requeue one dead job with other arguments"))
    def requeue_edited(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> HttpResponse:
        if len(queryset.values_list("pk", flat=True)[:2]) != 1:
            self.message_user(
                request, gettext("Select exactly one job to requeue it with other arguments."), messages.WARNING
            )
            return HttpResponseRedirect(self.return_url(request))
        return self.ask(request, queryset, REQUEUE_EDITED)

    @admin.action(permissions=["discard"], description=_("Delete selected %(verbose_name_plural)s"))
    def delete(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> HttpResponse:
        return self.ask(request, queryset, DELETE)

    def act_form(self, request: HttpRequest, queryset: QuerySet[Any], act: Act) -> forms.Form:
        if act is not REQUEUE_EDITED:
            return super().act_form(request, queryset, act)
        data = request.POST if "args" in request.POST else None
        return ArgumentsForm(data, queryset.defer(None).get())

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None)
        if context is not None and "cl" in context:
            allowed = self.get_actions(request)
            context["acts_on_all"] = [act for act in (REQUEUE, DELETE) if act.name in allowed]
            if not {"error", "group", "q"} & {*request.GET}:  # otherwise there is at most one group
                context.update(self.groups_context(context["cl"]))
        return response

    def groups_context(self, changelist: Any) -> dict[str, Any]:
        found, grouped = groups(changelist.queryset)
        rows = [
            {
                "group": group,
                "task": display.dotted(group.task),
                "exception": group.exception.rpartition(".")[2],
                "first": display.ago(group.first),
                "last": display.ago(group.last),
                "link": changelist.get_query_string({"task": group.task, "group": group.error}, ["p"]),
            }
            for group in found
        ]
        return {"groups": rows, "grouped": grouped}

    @admin.display(description=_("died"), ordering="failed_at")
    def failed_column(self, obj: DeadJob) -> str:
        return display.ago(obj.failed_at)
