"""Queues: job counts, pause and resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue.core.options import check_queue
from djqueue.core.records import QueueStats
from djqueue.exceptions import InvalidOption
from djqueue.lifecycle import pause as pausing
from djqueue.models import DeadJob, Job, QueueState
from djqueue.sql import counts, statements, workers

from . import display
from .actions import CONFIRMED, Act, ActingAdmin, RowResult, Tally

FROM_OVERVIEW = "from_overview"  # field: return to the overview afterwards


def pause(queues: Sequence[QueueState], options: Mapping[str, Any]) -> dict[str, str]:
    return _switch(queues, paused=True)


def resume(queues: Sequence[QueueState], options: Mapping[str, Any]) -> dict[str, str]:
    return _switch(queues, paused=False)


def _switch(queues: Sequence[QueueState], *, paused: bool) -> dict[str, str]:
    switched = {}
    for state in queues:
        check_queue(state.queue)  # the database might reject a query with an invalid name
        if pausing.is_paused(state.queue) != paused:
            (pausing.pause if paused else pausing.resume)(state.queue)
            switched[state.queue] = "switched"
    return switched


PAUSE = Act(
    name="pause",
    title=_("Pause a queue"),
    question=_("Are you sure you want to pause this queue? Its jobs are no longer claimed. Running jobs continue."),
    button=_("Pause"),
    confirm=_("Pause the queue"),
    perform=pause,
    results={"switched": RowResult(_("%(count)s paused"), _("Paused."))},
)
RESUME = Act(
    name="resume",
    title=_("Resume a queue"),
    question=_("Are you sure you want to resume this queue? Workers start to claim its jobs immediately."),
    button=_("Resume"),
    confirm=_("Resume the queue"),
    perform=resume,
    results={"switched": RowResult(_("%(count)s resumed"), _("Resumed."))},
)


class QueueAdmin(ActingAdmin):
    """List every known queue; the table itself has rows only for queues that were paused once."""

    acts = {act.name: act for act in (PAUSE, RESUME)}
    list_per_page = 100

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self.pause_or_resume(request)
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request, "admin/djqueue/queues.html", {**self.list_context(request), **(extra_context or {})}
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the list: log entries link here, but a queue has no page of its own."""
        return HttpResponseRedirect(self.url("changelist"))

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        states = {state.queue: state for state in self.get_queryset(request)}
        stats = counts.overview(statements())
        consumers = list(workers.claiming(statements()).values_list("queues", flat=True))
        search = request.GET.get("q", "").strip()
        names = sorted(name for name in stats.keys() | states.keys() if search.lower() in name.lower())
        page = Paginator(names, self.list_per_page).get_page(request.GET.get("p"))
        return {
            **self.admin_site.each_context(request),
            "title": gettext("Queues"),
            "cl": {"opts": self.opts},
            "opts": self.opts,
            "media": self.media,
            "actions_on_top": True,  # otherwise the parent template has an inline style
            "queues": [
                self.row(
                    request,
                    name,
                    states.get(name),
                    stats.get(name, QueueStats()),
                    any(workers.claims_from(stored, name) for stored in consumers),
                )
                for name in page
            ],
            "page": page,
            "page_links": [
                (number, f"?{urlencode({'q': search, 'p': number} if search else {'p': number})}")
                for number in page.paginator.get_elided_page_range(page.number)
            ],
            "search": search,
        }

    def row(
        self, request: HttpRequest, name: str, state: QueueState | None, stats: QueueStats, consumed: bool
    ) -> dict[str, Any]:
        paused = state is not None and state.paused
        act = RESUME if paused else PAUSE
        jobs, dead = self.url("changelist", model=Job), self.url("changelist", model=DeadJob)
        return {
            "name": name,
            "state": queue_state(paused, consumed),
            "since": display.ago(state.paused_at) if paused and state is not None else "",
            "counts": [
                (count, url and f"{url}?{urlencode({'queue': name, **more})}")
                for count, url, more in (
                    (stats.pending, jobs, {"status": "pending"}),
                    (stats.scheduled, jobs, {"status": "scheduled"}),
                    (stats.blocked, jobs, {"status": "blocked"}),
                    (stats.claimed, jobs, {"status": "claimed"}),
                    (stats.done, "", {}),
                    (stats.dead, dead, {}),
                )
            ],
            "act": act if self.has_own_permission(request, act.name) else None,
        }

    def pause_or_resume(self, request: HttpRequest) -> HttpResponse:
        act, queue = self.requested(request)
        if not self.has_own_permission(request, act.name):
            raise PermissionDenied
        state = QueueState(queue=queue)
        back = self.back_url(request)
        if CONFIRMED not in request.POST:
            return self.confirmation_page(
                request,
                act,
                forms.Form(),
                hidden=[
                    *(("act", act.name), ("queue", state.queue), (CONFIRMED, "yes")),
                    *((name, "1") for name in (FROM_OVERVIEW,) if name in request.POST),
                ],
                count=1,
                sample=[state],
                back=back,
            )
        try:
            changed = act.perform([state], {})
        except InvalidOption as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(back)
        self.log(request, act, [state], changed)
        tally = Tally()
        tally.add([state], changed)
        self.report(request, act, tally)
        return HttpResponseRedirect(back)

    def requested(self, request: HttpRequest) -> tuple[Act, str]:
        """Return the act and the queue. The buttons of the overview share a form, so each names both in one field."""
        for act in self.acts.values():
            if act.name in request.POST:
                return act, request.POST[act.name]
        if (act_named := self.acts.get(request.POST.get("act", ""))) is None:
            raise BadRequest("act must be 'pause' or 'resume'.")
        return act_named, request.POST.get("queue", "")

    def back_url(self, request: HttpRequest) -> str:
        overview = self.site_url("djqueue_overview_changelist") if FROM_OVERVIEW in request.POST else ""
        return overview or request.get_full_path()


def queue_state(paused: bool, consumed: bool) -> str:
    """Return the state of a queue; `consumed` if a live worker claims its jobs."""
    if paused:
        return display.badge("paused", gettext("paused"))
    return (
        display.badge("running", gettext("running")) if consumed else display.badge("no-worker", gettext("no worker"))
    )
