"""What people do to rows: asked first, worked in small batches, counted, and logged once it is done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import quote
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from .base import QueueModelAdmin
from .paginator import CAP

CONFIRMED = "confirmed"
FROM_PAGE = "from_page"
EVERYTHING = "all"
SAMPLE = 10


@dataclass(frozen=True, slots=True)
class Fate:
    """What can become of a row, in words: `counted` has %(count)s, `logged` goes into its log entry."""

    counted: Any
    logged: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act on rows: `perform` gives the fate of each that it acted on, by primary key; the others were skipped."""

    name: str  # of the admin action
    title: Any
    question: Any
    button: Any
    perform: Callable[[Sequence[Any], Mapping[str, Any]], Mapping[Any, str]]
    fates: Mapping[str, Fate]
    form: type[forms.Form] = forms.Form
    flag: int = CHANGE
    danger: bool = False


@dataclass
class Tally:
    """What an act came to."""

    fates: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    unfinished: bool = False

    @property
    def skipped(self) -> int:
        return self.seen - self.fates.total()

    def add(self, rows: Sequence[Any], became: Mapping[Any, str]) -> None:
        self.fates.update(became.values())
        self.seen += len(rows)


class ActingAdmin(QueueModelAdmin):
    """Carries acts out."""

    action_batch = 500  # rows per transaction
    action_seconds = 20.0  # a request ends; what is left is told
    act_fields: ClassVar[tuple[str, ...]] = ()  # what `perform` and the log need of a row

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        try:
            return super().response_action(request, queryset, *args, **kwargs)
        except ValidationError:  # what was chosen cannot be a primary key
            self.message_user(request, _("There is no such row."), messages.WARNING)
            return None

    def ask(self, request: HttpRequest, queryset: QuerySet[Any], act: Act) -> HttpResponse:
        """Show what is about to happen; after a yes, do it and go back."""
        form = self.act_form(request, queryset, act)
        if CONFIRMED in request.POST and form.is_valid():
            tally = self.carry_out(request, queryset, act, form.cleaned_data)
            if not is_for_all(request) and not tally.unfinished:
                tally.seen = max(tally.seen, len(selected_in(request)))  # what is gone meanwhile was skipped too
            self.tell(request, act, tally)
            return HttpResponseRedirect(self.way_back(request))
        return self.confirmation(request, queryset, act, form)

    def act_form(self, request: HttpRequest, queryset: QuerySet[Any], act: Act) -> forms.Form:
        return act.form(request.POST if CONFIRMED in request.POST else None)

    def carry_out(self, request: HttpRequest, queryset: QuerySet[Any], act: Act, options: Mapping[str, Any]) -> Tally:
        """Batch by batch, each a short transaction with its log entries behind it."""
        tally = Tally()
        end = time.monotonic() + self.action_seconds
        for rows in batches(queryset.only(*self.act_fields), self.action_batch):
            if tally.seen and time.monotonic() >= end:
                tally.unfinished = True
                break
            became = act.perform(rows, options)
            self.log(request, act, rows, became)
            tally.add(rows, became)
        return tally

    def log(self, request: HttpRequest, act: Act, rows: Sequence[Any], became: Mapping[Any, str]) -> None:
        """An entry for each row that was acted on, in the admin's own database."""
        for name, fate in act.fates.items():
            acted_on = [row for row in rows if became.get(row.pk) == name]
            if acted_on:
                LogEntry.objects.log_actions(cast(int, request.user.pk), acted_on, act.flag, str(fate.logged))

    def tell(self, request: HttpRequest, act: Act, tally: Tally) -> None:
        parts = [str(fate.counted) % {"count": tally.fates[name]} for name, fate in act.fates.items()]
        text = ", ".join([*parts, _("%(count)s skipped") % {"count": tally.skipped}]) + "."
        if tally.unfinished:
            text += " " + _("The time of one request was over before the end: do it again for the rest.")
        done = bool(tally.fates) and not tally.unfinished
        self.message_user(request, text, messages.SUCCESS if done else messages.WARNING)

    def way_back(self, request: HttpRequest) -> str:
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
            sample=list(queryset.only(*self.act_fields)[:SAMPLE]),
            back=self.way_back(request),
        )

    def confirmation_page(self, request: HttpRequest, act: Act, form: forms.Form, **context: Any) -> HttpResponse:
        request.current_app = self.admin_site.name
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
                **context,
            },
        )


def is_for_all(request: HttpRequest) -> bool:
    return request.POST.get("select_across") == "1"


def selected_in(request: HttpRequest) -> list[str]:
    return list(dict.fromkeys(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)))


def batches(queryset: QuerySet[Any], size: int) -> Iterator[list[Any]]:
    """Along the primary key: what an act does to its rows cannot make the next batch skip any."""
    rows = queryset.order_by("pk")
    page = rows
    while batch := list(page[:size]):
        yield batch
        if len(batch) < size:
            return
        page = rows.filter(pk__gt=batch[-1].pk)
