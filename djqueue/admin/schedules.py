"""Schedules: to look at, and to switch on and off."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue import masking
from djqueue.conf import config
from djqueue.models import Schedule

from . import display
from .base import QueueModelAdmin

SHOWN = (
    "name task rule timezone arguments queue priority misfire misfire_cap overlap jitter starts_at ends_at from_code "
    "removed_from_code problem next_at last_at last_job_id created_at updated_at"
).split()


class ScheduleAdmin(QueueModelAdmin):
    ordering = ("name",)
    list_display = (
        "name_column",
        "task_column",
        "rule",
        "enabled_column",
        "next_column",
        "last_column",
        "problem_column",
    )
    fields = ("enabled", *SHOWN)
    readonly_fields = SHOWN
    unread_columns = ("args", "kwargs")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_own_permission(request, "change")

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        """The switch alone: workers write the rest of the row."""
        rows = Schedule.objects.using(config().database).filter(pk=obj.pk)
        rows.update(enabled=obj.enabled, updated_at=timezone.now())

    @admin.display(description=_("name"))
    def name_column(self, obj: Schedule) -> str:
        return str(obj.name)

    @admin.display(description=_("task"))
    def task_column(self, obj: Schedule) -> str:
        return str(obj.task)

    @admin.display(description=_("rule"))
    def rule(self, obj: Schedule) -> str:
        if obj.cron:
            return format_html('<span class="djq-mono">{}</span> {}', obj.cron, obj.timezone)
        return gettext("every %(time)s") % {"time": display.duration(obj.every)}

    @admin.display(description=_("arguments"))
    def arguments(self, obj: Schedule) -> str:
        args, kwargs = masking.masked(obj.task, obj.args, obj.kwargs)
        return format_html('<span class="djq-mono">{}</span>', display.short_arguments(args, kwargs, 1000))

    @admin.display(description=_("enabled"), boolean=True)
    def enabled_column(self, obj: Schedule) -> bool:
        return obj.enabled

    @admin.display(description=_("next"))
    def next_column(self, obj: Schedule) -> str:
        return display.ago(obj.next_at)

    @admin.display(description=_("last"))
    def last_column(self, obj: Schedule) -> str:
        return display.ago(obj.last_at)

    @admin.display(description=_("problem"))
    def problem_column(self, obj: Schedule) -> str:
        return obj.problem or display.NOTHING
