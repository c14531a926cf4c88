"""Done and cancelled jobs, read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from . import display
from .filters import QueueFilter, StatusFilter, TaskFilter
from .job_base import JobFieldsAdmin


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
        "id_column",
    )
    list_filter = (StatusFilter, QueueFilter, TaskFilter)
    unread_columns = (*JobFieldsAdmin.unread_columns, "result", "last_error")

    @admin.display(description=_("run time"))
    def run_column(self, obj: Any) -> str:
        return display.between(obj.claimed_at, obj.completed_at)

    @admin.display(description=_("finished"))
    def completed_column(self, obj: Any) -> str:
        return display.ago(obj.completed_at)
