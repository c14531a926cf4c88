"""Done and cancelled jobs: enqueue again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.auth import get_permission_codename
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from djqueue.lifecycle.enqueue_again import enqueue_again_many
from djqueue.models import DoneJob, Job

from . import display
from .actions import Act, RowResult, Tally
from .filters import FinishedFilter, QueueFilter, StatusFilter, TaskFilter
from .job_base import JobFieldsAdmin


def enqueue_again(done: Sequence[DoneJob], options: Mapping[str, Any]) -> dict[UUID, str]:
    copies = {pk: copy.id for pk, copy in enqueue_again_many([job.pk for job in done]).items() if copy.created}
    for job in done:
        job.copy_id = copies.get(job.pk)  # type: ignore[attr-defined]  # for the log
    return dict.fromkeys(copies, "enqueued")


ENQUEUE_AGAIN = Act(
    name="enqueue_again",
    title=_("Enqueue jobs again"),
    question=_(
        "Are you sure you want to enqueue these jobs again? For each, a copy is enqueued, with a new id and the same "
        "task, arguments, queue, priority, headers and options. Jobs whose dedup key is held by a live job are skipped."
    ),
    button=_("Enqueue again"),
    confirm=ngettext_lazy("Enqueue %(rows)s job again", "Enqueue %(rows)s jobs again", "count"),
    perform=enqueue_again,
    results={"enqueued": RowResult(_("%(count)s enqueued again"), _("Enqueued again."))},
    enqueues=True,
)


class DoneJobAdmin(JobFieldsAdmin):
    ordering = ("-id",)
    list_display = (
        "task_column",
        "status_column",
        "queue_column",
        "arguments_column",
        "attempts_column",
        "wait_column",
        "run_column",
        "worker_column",
        "completed_column",
    )
    list_filter = (StatusFilter, FinishedFilter, QueueFilter, TaskFilter)
    unread_columns = (*JobFieldsAdmin.unread_columns, "result", "last_error")
    actions = ("enqueue_again",)
    acts = (ENQUEUE_AGAIN,)

    def has_enqueue_again_permission(self, request: HttpRequest) -> bool:
        """Check Django's permission to add a live job."""
        codename = get_permission_codename("add", Job._meta)
        return bool(request.user.has_perm(f"{Job._meta.app_label}.{codename}"))

    @admin.action(permissions=["enqueue_again"], description=_("Enqueue selected %(verbose_name_plural)s again"))
    def enqueue_again(self, request: HttpRequest, queryset: QuerySet[DoneJob]) -> HttpResponse:
        return self.ask(request, queryset, ENQUEUE_AGAIN)

    def after_batch(
        self, request: HttpRequest, act: Act, rows: Sequence[Any], changed: Mapping[Any, str], tally: Tally
    ) -> None:
        super().after_batch(request, act, rows, changed, tally)
        if len(rows) == 1 and changed and (url := self.url("change", rows[0].copy_id, model=Job)):
            text = gettext('The copy is <a href="{}">job {}</a>.')
            self.message_user(request, format_html(text, url, rows[0].copy_id))

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        """Offer to sort by the end where an index serves it."""
        return ("completed_column",) if "queue" in request.GET else ()

    @admin.display(description=_("run time"))
    def run_column(self, obj: Any) -> str:
        return display.between(obj.claimed_at, obj.completed_at)

    @admin.display(description=_("finished"), ordering="completed_at")
    def completed_column(self, obj: Any) -> str:
        return display.ago(obj.completed_at)
