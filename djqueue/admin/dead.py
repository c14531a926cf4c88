"""Dead jobs: groups, requeue (also with other arguments, or spread over time), delete."""

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
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue import jobs
from djqueue.exceptions import NotDead
from djqueue.lifecycle.requeue import requeue_many
from djqueue.lifecycle.sweep import delete_dead
from djqueue.models import DeadJob
from djqueue.records import Requeue
from djqueue.sql import statements

from . import display
from .actions import Act, Fate
from .filters import ErrorFilter, QueueFilter, TaskFilter
from .forms import ArgumentsForm, SpreadForm
from .groups import groups
from .pages import JobFieldsAdmin


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
    question=_("Put these jobs back? Each begins anew under its id; the history of its errors stays."),
    button=_("Requeue"),
    perform=requeue,
    fates={"requeued": Fate(_("%(count)s requeued"), _("Requeued."))},
    form=SpreadForm,
)
REQUEUE_EDITED = Act(
    name="requeue_edited",
    title=_("Requeue with other arguments"),
    question=_("Put this job back with these arguments? A masked value that is left as it is stays what it was."),
    button=_("Requeue with other arguments"),
    perform=requeue_edited,
    fates={"requeued": Fate(_("%(count)s requeued"), _("Requeued with other arguments."))},
)
DELETE = Act(
    name="delete",
    title=_("Delete dead jobs"),
    question=_("Delete these jobs? Nothing of them is kept."),
    button=_("Delete"),
    perform=delete,
    fates={"deleted": Fate(_("%(count)s deleted"), _("Deleted."))},
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
        "id_column",
    )
    list_filter = (QueueFilter, TaskFilter, ErrorFilter)
    actions = ("requeue", "requeue_edited", "delete")
    acts = (REQUEUE, REQUEUE_EDITED, DELETE)

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "requeue")

    def has_change_arguments_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "change_arguments")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Django's own permission; its own delete views stay closed, because they know nothing of the queue."""
        return self.has_own_permission(request, "delete")

    @admin.action(permissions=["requeue"], description=_("Requeue selected %(verbose_name_plural)s"))
    def requeue(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> HttpResponse:
        return self.ask(request, queryset, REQUEUE)

    @admin.action(permissions=["change_arguments"], description=_("Requeue one with other arguments"))
    def requeue_edited(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> HttpResponse:
        if len(queryset.values_list("pk", flat=True)[:2]) != 1:
            self.message_user(request, gettext("Choose one job to give other arguments to."), messages.WARNING)
            return HttpResponseRedirect(self.way_back(request))
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
            if "error" not in request.GET and "q" not in request.GET:  # else there is one group, or none to speak of
                context.update(self.groups_context(context["cl"]))
        return response

    def groups_context(self, changelist: Any) -> dict[str, Any]:
        found, looked_at = groups(changelist.queryset)
        rows = [
            (group, changelist.get_query_string({"task": group.task, "error": group.error}, ["p"])) for group in found
        ]
        return {"groups": rows, "looked_at": looked_at}

    @admin.display(description=_("died"))
    def failed_column(self, obj: DeadJob) -> str:
        return display.ago(obj.failed_at)
