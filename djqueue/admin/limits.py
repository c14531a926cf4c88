"""Limits: the numbers of each key, the jobs that hold its permits and wait for them, hold and other numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue.core.names import check_name
from djqueue.core.payload import storable
from djqueue.exceptions import InvalidOption
from djqueue.models import Job, LimitKey
from djqueue.operations import limits
from djqueue.operations.limits import MOST_COUNTED, LimitSummary, count_text, numbers_text
from djqueue.sql import statements
from djqueue.states import Status

from . import display, job_page
from .actions import CONFIRMED, Act, ActingAdmin, Tally
from .limit_actions import ACTS, CLEAR, HOLD, NEEDS, RELEASE, SET, initial_numbers
from .paginator import CappedChangeList

MOST_JOBS = 20  # that hold a permit, and that wait for one, on the page of a key
MOST_LINKS = 20  # keys without a row


class LimitFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("held", _("held")), ("set", _("with numbers set here"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        match self.value():
            case "held":
                return queryset.filter(held_until__gt=statements().now())
            case "set":
                return queryset.exclude(Q(concurrency=None, rate=None, burst=None))
        return None


class LimitChangeList(CappedChangeList):
    """Reads what the jobs of all keys of a page hold and wait for with one statement."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        for row, found in zip(rows, limits.summaries([row.pk for row in rows], MOST_COUNTED), strict=True):
            row.summary = found
        self.result_list = rows


class LimitAdmin(ActingAdmin):
    """List the keys of which something is stored; the page of a key exists also if nothing is."""

    ordering = ("key",)
    list_display = (
        "key_column",
        "state_column",
        "numbers_column",
        "source_column",
        "admitted_column",
        "blocked_column",
        "rate_left_column",
    )
    list_filter = (LimitFilter,)
    search_fields = ("key",)
    search_help_text = _("Search by the beginning of a key.")
    actions = ("hold", "release", "clear")
    act_fields = ("key", "concurrency", "rate", "burst", "held_until")
    acts: Mapping[str, Act] = {act.name: act for act in ACTS}

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row of a key, or a new one that is not saved; None if there can be no such key."""
        row = super().get_object(request, object_id, from_field)
        return LimitKey(key=object_id) if row is None and self.is_possible_pk(object_id) else row

    def is_possible_pk(self, value: str) -> bool:
        try:
            check_name(value, "limit key")
        except InvalidOption:
            return False
        return True

    # Actions

    def has_hold_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "hold")

    def has_set_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "change")

    @admin.action(permissions=["hold"], description=_("Hold selected %(verbose_name_plural)s"))
    def hold(self, request: HttpRequest, queryset: QuerySet[LimitKey]) -> HttpResponse:
        return self.ask(request, queryset, HOLD)

    @admin.action(permissions=["hold"], description=_("Release selected %(verbose_name_plural)s"))
    def release(self, request: HttpRequest, queryset: QuerySet[LimitKey]) -> HttpResponse:
        return self.ask(request, queryset, RELEASE)

    @admin.action(permissions=["set"], description=_("Clear the numbers of selected %(verbose_name_plural)s"))
    def clear(self, request: HttpRequest, queryset: QuerySet[LimitKey]) -> HttpResponse:
        return self.ask(request, queryset, CLEAR)

    def log(self, request: HttpRequest, act: Act, rows: Sequence[Any], changed: Mapping[Any, str]) -> None:
        """Write a log entry for each changed key, with the time or the numbers."""
        acted_on = [row for row in rows if row.pk in changed]
        if acted_on:
            LogEntry.objects.log_actions(cast(int, request.user.pk), acted_on, act.flag, acted_on[0].logged)

    # The list

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CappedChangeList]:
        return LimitChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        notes = self.notes(request) if request.method == "GET" else []
        return super().changelist_view(request, {"notes": notes, **(extra_context or {})})

    def notes(self, request: HttpRequest) -> list[Any]:
        """Return links to keys that the list does not have: no job of them was admitted yet."""
        asked = request.GET.get("q", "").strip()
        if LimitFilter.parameter_name in request.GET or not storable(asked):
            return []
        keys = [key for key in limits.keys_without_row() if key.startswith(asked)][:MOST_LINKS]
        if asked and self.is_possible_pk(asked) and asked not in keys and not limits.stored_keys([asked]):
            keys.insert(0, asked)
        if not keys:
            return []
        linked = format_html_join(", ", '<a href="{}">{}</a>', ((self.url("change", quote(key)), key) for key in keys))
        return [format_html(gettext("Keys of which nothing is stored yet: {}"), linked)]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not storable(search_term):
            return queryset.none(), False
        return (queryset.filter(key__startswith=search_term) if search_term else queryset), False

    @admin.display(description=_("key"))
    def key_column(self, obj: LimitKey) -> str:
        return str(obj.key)

    @admin.display(description=_("state"))
    def state_column(self, obj: Any) -> Any:
        return state(obj.summary)

    @admin.display(description=_("allows"))
    def numbers_column(self, obj: Any) -> str:
        return numbers_text(obj.summary.numbers)

    @admin.display(description=_("numbers of"))
    def source_column(self, obj: Any) -> Any:
        return source(obj.summary)

    @admin.display(description=_("permits in use"))
    def admitted_column(self, obj: Any) -> str:
        return count_text(obj.summary.admitted)

    @admin.display(description=_("blocked"))
    def blocked_column(self, obj: Any) -> Any:
        count = obj.summary.blocked
        return job_page.link(self.jobs_url(obj.key, "blocked") if count else "", count_text(count))

    @admin.display(description=_("rate left"))
    def rate_left_column(self, obj: Any) -> str:
        left = obj.summary.rate_left
        return display.NOTHING if left is None else f"{left:,}"

    # The page of one key

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            wrong = gettext("“%(key)s” cannot be a limit key.") % {"key": unquote(object_id)}
            self.message_user(request, wrong, messages.WARNING)
            return HttpResponseRedirect(self.url("changelist"))
        if request.method == "POST":
            return self.act_on_page(request, row)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        request.current_app = self.admin_site.name
        context = {**self.page_context(request, row), **(extra_context or {})}
        return TemplateResponse(request, "admin/djqueue/limit.html", context)

    def act_on_page(self, request: HttpRequest, row: LimitKey) -> HttpResponse:
        """Show the form of an action, which is its confirmation; if it was confirmed and is valid, act."""
        act = self.acts.get(request.POST.get("act", ""))
        if act is None:
            raise BadRequest(f"act must be one of {', '.join(self.acts)}.")
        if not self.has_own_permission(request, NEEDS[act.name]):
            raise PermissionDenied
        form = self.form_of(request, act, row)
        if CONFIRMED not in request.POST or not form.is_valid():
            return self.confirmation_page(
                request,
                act,
                form,
                hidden=[("act", act.name), (CONFIRMED, "yes")],
                count=1,
                sample=[row],
                back=request.get_full_path(),
            )
        changed = act.perform([row], form.cleaned_data)
        self.log(request, act, [row], changed)
        tally = Tally()
        tally.add([row], changed)
        self.report(request, act, tally)
        return HttpResponseRedirect(request.get_full_path())

    def form_of(self, request: HttpRequest, act: Act, row: LimitKey) -> forms.Form:
        data = request.POST if CONFIRMED in request.POST else None
        return act.form(data, initial=initial_numbers(row) if act is SET else None)

    def page_context(self, request: HttpRequest, row: LimitKey) -> dict[str, Any]:
        found = limits.summary(row.key, MOST_COUNTED)
        return {
            **self.admin_site.each_context(request),
            "title": row.key,
            "heading": row.key,
            "subtitle": None,
            "original": row,
            "opts": self.opts,
            "has_view_permission": True,
            "media": self.media,
            "state": gettext("not held") if found.held_until is None else state(found),
            "acts": self.acts_on_page(request, found),
            "facts": [(label, value) for label, value in self.facts(found) if value not in (None, "")],
            "lists": [
                {
                    "id": "djq-holders",
                    "title": gettext("Jobs that hold a permit"),
                    "none": gettext("No job holds a permit."),
                    "jobs": [self.job(request, job) for job in limits.holders(row.key, MOST_JOBS)],
                    "more": found.admitted > MOST_JOBS,
                },
                {
                    "id": "djq-waiters",
                    "title": gettext("Jobs that wait for a permit, the next one first"),
                    "none": gettext("No job waits for a permit."),
                    "jobs": [self.job(request, job) for job in limits.waiters(row.key, MOST_JOBS)],
                    "more": found.blocked > MOST_JOBS,
                },
            ],
            "most": MOST_JOBS,
            "jobs_url": job_page.viewable(self, request, Job, "changelist") and self.jobs_url(row.key),
            "history_url": self.url("history", quote(row.pk)),
        }

    def acts_on_page(self, request: HttpRequest, found: LimitSummary) -> list[Act]:
        offered = [HOLD, *[RELEASE] * (found.held_until is not None), SET, *[CLEAR] * found.is_set]
        return [act for act in offered if self.has_own_permission(request, NEEDS[act.name])]

    def facts(self, found: LimitSummary) -> list[tuple[Any, Any]]:
        running = gettext("%(admitted)s, of which %(running)s claimed")
        admitted = {"admitted": count_text(found.admitted), "running": count_text(found.claimed)}
        return [
            (_("Allows"), numbers_text(found.numbers)),
            (_("Numbers of"), source(found)),
            (_("Set here"), numbers_text(found.override) if found.is_set else ""),
            (_("Permits in use"), running % admitted),
            (_("Blocked"), count_text(found.blocked)),
            (_("Rate left"), found.rate_left),
            (_("Held until"), found.held_until and display.instant(found.held_until)),
        ]

    def job(self, request: HttpRequest, job: Job) -> dict[str, Any]:
        url = job_page.viewable(self, request, Job, "change", job.pk)
        return {
            "job": job,
            "link": job_page.link(url, display.dotted(job.task)),
            "status": display.status(job),
            "since": display.ago(job.claimed_at if job.status == Status.CLAIMED else job.enqueued_at),
        }

    def jobs_url(self, key: str, status: str = "") -> str:
        """Return the URL of the list of live jobs of a key; an empty string if this site has none."""
        url = self.url("changelist", model=Job)
        query = {"limit_key__exact": key, **({"status": status} if status else {})}
        return url and f"{url}?{urlencode(query)}"


def state(found: LimitSummary) -> Any:
    """Return whether the key is held, and for how long."""
    if found.held_until is None:
        return display.NOTHING
    end = display.ago(found.held_until, found.now)
    return format_html("{} {} {}", display.badge("held", gettext("held")), gettext("released"), end)


def source(found: LimitSummary) -> Any:
    """Return whose numbers these are."""
    if found.is_set:
        return gettext("set here")
    return display.NOTHING if found.task is None else display.dotted(found.task)
