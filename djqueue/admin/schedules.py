"""Schedules: add, change, enable, disable, run now and delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue import schedules
from djqueue.core import masking
from djqueue.models import Job, Schedule
from djqueue.sql import statements

from . import display, schedule_page
from .actions import FROM_PAGE, Act, Tally
from .editing import EditingAdmin
from .schedule_actions import BY, DELETE, DISABLE, ENABLE, REFUSALS, RUN_NOW
from .schedule_form import ScheduleForm

FROM_CODE = _(
    "This schedule is declared in code. Its rule can only be changed in code. Here, it can be enabled or disabled."
)
MOST_REASONS = 10  # shown after one action

Sections = list[tuple[Any, dict[str, Any]]]
WHEN = ("cron", "every", "timezone", "starts_at", "ends_at", "jitter")
LATE = ("misfire", "misfire_cap", "overlap")
RULE: Sections = [
    (_("When"), {"fields": WHEN}),
    (_("Job"), {"fields": ("args", "kwargs", "queue", "priority")}),
    (_("Missed slots and overlap"), {"fields": LATE}),
]
SHOWN_RULE: Sections = [
    (_("When"), {"fields": ("rule", "timezone", "starts_time", "ends_time", "jitter")}),
    (_("Job"), {"fields": ("task", "arguments", "queue", "priority")}),
    (_("Missed slots and overlap"), {"fields": LATE}),
]
STATE = ("origin", "created_time", "updated_time")


class ScheduleAdmin(EditingAdmin):
    form = ScheduleForm
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
    unread_columns = ("args", "kwargs")
    actions = ("enable", "disable", "run_now", "delete")
    act_fields = ("name", "enabled", "problem", "next_at")
    action_batch = 50  # each row is a transaction of its own
    starts_time = display.time_of("starts_at", _("starts at"))
    ends_time = display.time_of("ends_at", _("ends at"))
    created_time = display.time_of("created_at", _("created at"))
    updated_time = display.time_of("updated_at", _("updated at"))

    def has_run_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "run")

    # The page of one schedule

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Sections:  # type: ignore[override]
        if obj is None:
            return [(None, {"fields": ("name", "task", "enabled")}), *RULE]
        state = (_("State"), {"fields": STATE})
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ("name", "enabled")}), *SHOWN_RULE, state]
        if is_from_code(obj):
            return [(None, {"fields": ("name", "enabled", "seen"), "description": FROM_CODE}), *SHOWN_RULE, state]
        return [(None, {"fields": ("name", "task", "enabled", "seen")}), *RULE, state]

    def get_readonly_fields(self, request: HttpRequest, obj: Schedule | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        if not is_from_code(obj) and self.has_change_permission(request, obj):
            return ("name", *STATE)
        shown = [name for _title, section in SHOWN_RULE for name in section["fields"]]
        # args and kwargs are shown masked, so the form must not have them.
        return ("name", *shown, *STATE, "args", "kwargs")

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        """Save through the API, which locks the row (workers write it too) and computes the next slot."""
        if change:
            statements().own_transaction(lambda: apply(form, request.user.get_username()))
        else:
            obj.pk = schedules.create(**form.definition, enabled=form.cleaned_data["enabled"]).pk

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        row = kwargs.get("obj")
        if row is not None:
            context |= {
                "row": row,
                "facts": schedule_page.facts(row, row.last_job_id and self.url("change", row.last_job_id, model=Job)),
                "switched_off": schedule_page.switched_off(row),
                "acts": self.acts_on_page(request, row),
                "acts_url": self.url("changelist"),
                "history_url": self.url("history", row.pk),
                "checkbox": helpers.ACTION_CHECKBOX_NAME,
                "from_page": FROM_PAGE,
            }
        return super().render_change_form(request, context, *args, **kwargs)

    def acts_on_page(self, request: HttpRequest, row: Schedule) -> list[Act]:
        allowed = self.get_actions(request)
        switch = DISABLE if row.enabled else ENABLE
        acts = [RUN_NOW, switch] if is_from_code(row) else [RUN_NOW, switch, DELETE]
        return [act for act in acts if act.name in allowed]

    def return_url(self, request: HttpRequest) -> str:
        """Return to the list after a deletion from the page."""
        page = request.POST.get(FROM_PAGE)
        if page and self.get_object(request, page) is None:
            return self.url("changelist")
        return super().return_url(request)

    # Actions

    def carry_out(self, request: HttpRequest, queryset: QuerySet[Any], act: Act, options: Mapping[str, Any]) -> Tally:
        refusals: list[str] = []
        given = {**options, REFUSALS: refusals, BY: request.user.get_username()}
        tally = super().carry_out(request, queryset, act, given)
        for reason in refusals[:MOST_REASONS]:
            self.message_user(request, reason, messages.WARNING)
        return tally

    @admin.action(permissions=["change"], description=_("Enable selected %(verbose_name_plural)s"))
    def enable(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> HttpResponse:
        return self.ask(request, queryset, ENABLE)

    @admin.action(permissions=["change"], description=_("Disable selected %(verbose_name_plural)s"))
    def disable(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> HttpResponse:
        return self.ask(request, queryset, DISABLE)

    @admin.action(permissions=["run"], description=_("Run selected %(verbose_name_plural)s now"))
    def run_now(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> HttpResponse:
        return self.ask(request, queryset, RUN_NOW)

    @admin.action(permissions=["discard"], description=_("Delete selected %(verbose_name_plural)s"))
    def delete(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> HttpResponse:
        return self.ask(request, queryset, DELETE)

    # The list

    @admin.display(description=_("name"))
    def name_column(self, obj: Schedule) -> str:
        return str(obj.name)

    @admin.display(description=_("task"))
    def task_column(self, obj: Schedule) -> str:
        return display.dotted(obj.task)

    @admin.display(description=_("rule"))
    def rule(self, obj: Schedule) -> str:
        return schedule_page.rule(obj)

    @admin.display(description=_("arguments"))
    def arguments(self, obj: Schedule) -> str:
        args, kwargs = masking.masked(obj.task, obj.args, obj.kwargs)
        return format_html('<span class="djq-mono">{}</span>', display.short_arguments(args, kwargs, 1000))

    @admin.display(description=_("declared in code"))
    def origin(self, obj: Schedule) -> str:
        return gettext("no longer") if obj.removed_from_code else display.yes_or_no(obj.from_code)

    @admin.display(description=_("enabled"))
    def enabled_column(self, obj: Schedule) -> str:
        return gettext("yes") if obj.enabled else schedule_page.switched_off(obj)

    @admin.display(description=_("next run"))
    def next_column(self, obj: Schedule) -> str:
        return display.ago(obj.next_at)

    @admin.display(description=_("last run"))
    def last_column(self, obj: Schedule) -> str:
        return display.ago(obj.last_at)

    @admin.display(description=_("problem"))
    def problem_column(self, obj: Schedule) -> str:
        return obj.problem or display.NOTHING


def is_from_code(row: Schedule) -> bool:
    return row.from_code and not row.removed_from_code


def apply(form: ScheduleForm, by: str) -> None:
    """Save the changed fields. An update may re-enable a schedule that disabled itself; the form's value wins."""
    name, enabled, wanted = form.instance.name, form.initial["enabled"], form.cleaned_data["enabled"]
    if form.changes:
        enabled = schedules.update(name, **form.changes).enabled
    if enabled != wanted:
        schedules.enable(name) if wanted else schedules.disable(name, by)
