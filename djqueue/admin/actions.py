"""Admin actions: confirmed, run in small batches, counted and logged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext_lazy

from djqueue.operations.search import batches

from .base import QueueModelAdmin
from .overview.snapshot import forget
from .paginator import CAP

CONFIRMED = "confirmed"
FROM_PAGE = "from_page"
EVERYTHING = "all"
SAMPLE = 10
KEEP = ngettext_lazy("Keep it", "Keep them", "count")
GO_BACK = _lazy("Go back")


@dataclass(frozen=True, slots=True)
class RowResult:
    """A possible result for one row: `counted` is the message with %(count)s, `logged` the text of the log entry."""

    counted: Any
    logged: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An action on rows. `perform` returns the result of each changed row by primary key; the rest were skipped."""

    name: str  # of the admin action
    title: Any
    question: Any
    button: Any  # on a list or page, before the confirmation
    confirm: Any  # the button of the confirmation page; may contain %(rows)s
    decline: Any = GO_BACK  # the link that leaves without doing anything
    perform: Callable[[Sequence[Any], Mapping[str, Any]], Mapping[Any, str]]
    results: Mapping[str, RowResult]
    form: type[forms.Form] = forms.Form
    flag: int = CHANGE
    danger: bool = False
    enqueues: bool = False  # the jobs are due afterwards, unless their queue is paused


@dataclass
class Tally:
    """The result of an action: counts of rows."""

    results: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    unfinished: bool = False
    queues: Counter[str] = field(default_factory=Counter)  # of the changed jobs
    entries: dict[str, LogEntry] = field(default_factory=dict)  # by result: the log entry of an action on many jobs

    @property
    def skipped(self) -> int:
        return self.seen - self.results.total()

    def add(self, rows: Sequence[Any], changed: Mapping[Any, str]) -> None:
        self.results.update(changed.values())
        self.seen += len(rows)


class ActingAdmin(QueueModelAdmin):
    """Asks for confirmation, runs the action, logs it and reports the result."""

    action_batch = 500  # rows per transaction
    action_seconds = 20.0  # time limit of one request; the message says if rows remain
    act_fields: ClassVar[tuple[str, ...]] = ()  # columns that `perform` and the log read

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Refuse an action that the user may not run: Django would ignore it, and show the list."""
        if request.method == "POST":
            known = {str(getattr(action, "__name__", action)) for action in self.actions or ()}
            if known.intersection(request.POST.getlist("action")).difference(self.get_actions(request)):
                raise PermissionDenied
        return super().changelist_view(request, extra_context)

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        if not is_for_all(request) and not all(map(self.is_possible_pk, selected_in(request))):
            self.message_user(request, _("The selection contains an invalid id."), messages.WARNING)
            return None
        return super().response_action(request, queryset, *args, **kwargs)

    def ask(self, request: HttpRequest, queryset: QuerySet[Any], act: Act) -> HttpResponse:
        """Show the confirmation page; if it was confirmed, run the action and redirect back."""
        form = self.act_form(request, queryset, act)
        if CONFIRMED in request.POST and form.is_valid():
            tally = self.carry_out(request, queryset, act, form.cleaned_data)
            if not is_for_all(request) and not tally.unfinished:
                tally.seen = max(tally.seen, len(selected_in(request)))  # rows deleted in the meantime count as skipped
            self.report(request, act, tally)
            return HttpResponseRedirect(self.return_url(request))
        return self.confirmation(request, queryset, act, form)

    def act_form(self, request: HttpRequest, queryset: QuerySet[Any], act: Act) -> forms.Form:
        return act.form(request.POST if CONFIRMED in request.POST else None)

    def carry_out(self, request: HttpRequest, queryset: QuerySet[Any], act: Act, options: Mapping[str, Any]) -> Tally:
        """Run the action batch by batch: each is a short transaction, followed by its log entries."""
        tally = Tally()
        end = time.monotonic() + self.action_seconds
        for rows in batches(queryset.only(*self.act_fields), self.action_batch):
            if tally.seen and time.monotonic() >= end:
                tally.unfinished = True
                break
            changed = act.perform(rows, options)
            tally.add(rows, changed)
            self.after_batch(request, act, rows, changed, tally)
        return tally

    def after_batch(
        self, request: HttpRequest, act: Act, rows: Sequence[Any], changed: Mapping[Any, str], tally: Tally
    ) -> None:
        self.log(request, act, rows, changed)

    def log(self, request: HttpRequest, act: Act, rows: Sequence[Any], changed: Mapping[Any, str]) -> None:
        """Write a log entry for each changed row, in the admin's own database."""
        for name, result in act.results.items():
            acted_on = [row for row in rows if changed.get(row.pk) == name]
            if acted_on:
                LogEntry.objects.log_actions(cast(int, request.user.pk), acted_on, act.flag, str(result.logged))

    def report(self, request: HttpRequest, act: Act, tally: Tally) -> None:
        """Show how many rows were changed and how many were skipped; the overview shows it, too."""
        forget()
        parts = [str(result.counted) % {"count": tally.results[name]} for name, result in act.results.items()]
        text = ", ".join([*parts, _("%(count)s skipped") % {"count": tally.skipped}]) + "."
        if tally.unfinished:
            text += " " + _("The time limit was reached. Run the action again for the remaining rows.")
        done = bool(tally.results) and not tally.unfinished
        self.message_user(request, text, messages.SUCCESS if done else messages.WARNING)

    def return_url(self, request: HttpRequest) -> str:
        page = request.POST.get(FROM_PAGE)
        return self.url("change", quote(page)) if page else request.get_full_path()

    def confirmation(self, request: HttpRequest, queryset: QuerySet[Any], act: Act, form: forms.Form) -> HttpResponse:
        everything = is_for_all(request)
        selected = [EVERYTHING] if everything else selected_in(request)
        count = len(queryset.values_list("pk", flat=True)[: CAP + 1])
        hidden = [("action", act.name), ("select_across", "1" if everything else "0"), (CONFIRMED, "yes")]
        hidden += [(helpers.ACTION_CHECKBOX_NAME, pk) for pk in selected]
        hidden += [(FROM_PAGE, page) for page in request.POST.getlist(FROM_PAGE) if page]
        return self.confirmation_page(
            request,
            act,
            form,
            hidden=hidden,
            count=min(count, CAP),
            capped=count > CAP,
            sample=[self.describe(row) for row in self.sampled(queryset)[:SAMPLE]],
            notes=self.notes_before(queryset, act),
            back=self.return_url(request),
        )

    def sampled(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.only(*self.act_fields)

    def describe(self, row: Any) -> str:
        """Return what the confirmation shows of a row."""
        return str(row)

    def notes_before(self, queryset: QuerySet[Any], act: Act) -> list[str]:
        """Return what the user should know before the confirmation."""
        return []

    def confirmation_page(
        self, request: HttpRequest, act: Act, form: forms.Form, *, count: int, capped: bool = False, **context: Any
    ) -> HttpResponse:
        request.current_app = self.admin_site.name
        shown = number_format(count, force_grouping=True) + ("+" if capped else "")
        numbers = {"count": count, "rows": shown}
        return TemplateResponse(
            request,
            "admin/djqueue/confirm.html",
            {
                **self.admin_site.each_context(request),
                "title": act.title,
                "original": act.title,  # the last of the breadcrumbs
                "opts": self.opts,
                "has_view_permission": True,
                "media": self.media + form.media,
                "act": act,
                "form": form,
                "errors": form.errors,
                "confirm": act.confirm % numbers,
                "decline": act.decline % numbers,
                "rows": f"{shown} {self.opts.verbose_name if count == 1 else self.opts.verbose_name_plural}",
                "count": count,
                **context,
            },
        )


def is_for_all(request: HttpRequest) -> bool:
    return request.POST.get("select_across") == "1"


def selected_in(request: HttpRequest) -> list[str]:
    return list(dict.fromkeys(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)))
