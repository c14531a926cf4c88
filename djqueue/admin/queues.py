"""Queues: how many jobs wait in each, and pause and resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue import counters
from djqueue.exceptions import InvalidOption
from djqueue.lifecycle import pause as pausing
from djqueue.models import DeadJob, Job, QueueState
from djqueue.records import QueueStats

from . import display
from .actions import CONFIRMED, Act, ActingAdmin, Fate, Tally


def pause(queues: Sequence[QueueState], options: Mapping[str, Any]) -> dict[str, str]:
    return _switch(queues, paused=True)


def resume(queues: Sequence[QueueState], options: Mapping[str, Any]) -> dict[str, str]:
    return _switch(queues, paused=False)


def _switch(queues: Sequence[QueueState], *, paused: bool) -> dict[str, str]:
    switched = {}
    for state in queues:
        if pausing.is_paused(state.queue) != paused:
            (pausing.pause if paused else pausing.resume)(state.queue)
            switched[state.queue] = "switched"
    return switched


PAUSE = Act(
    name="pause",
    title=_("Pause a queue"),
    question=_("Pause this queue? Its jobs wait; those that run go on."),
    button=_("Pause"),
    perform=pause,
    fates={"switched": Fate(_("%(count)s paused"), _("Paused."))},
)
RESUME = Act(
    name="resume",
    title=_("Resume a queue"),
    question=_("Resume this queue? Workers begin to take its jobs at once."),
    button=_("Resume"),
    perform=resume,
    fates={"switched": Fate(_("%(count)s resumed"), _("Resumed."))},
)


class QueueAdmin(ActingAdmin):
    """A row exists only of a queue that was paused once, so the list is our own: every queue that there is."""

    acts = {act.name: act for act in (PAUSE, RESUME)}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self.steer(request)
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request, "admin/djqueue/queues.html", {**self.list_context(request), **(extra_context or {})}
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The log links here; all there is to see of a queue is in the list."""
        return HttpResponseRedirect(self.url("changelist"))

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        states = {state.queue: state for state in self.get_queryset(request)}
        stats = counters.overview()
        names = sorted(stats.keys() | states.keys())
        return {
            **self.admin_site.each_context(request),
            "title": gettext("Queues"),
            "cl": {"opts": self.opts},
            "opts": self.opts,
            "media": self.media,
            "actions_on_top": True,  # without it the parent template has an inline style
            "queues": [self.row(request, name, states.get(name), stats.get(name, QueueStats())) for name in names],
        }

    def row(self, request: HttpRequest, name: str, state: QueueState | None, stats: QueueStats) -> dict[str, Any]:
        paused = state is not None and state.paused
        act = RESUME if paused else PAUSE
        jobs, dead = self.url("changelist", model=Job), self.url("changelist", model=DeadJob)
        return {
            "name": name,
            "state": display.badge(*(("paused", gettext("paused")) if paused else ("running", gettext("running")))),
            "since": display.ago(state.paused_at) if paused and state is not None else "",
            "counts": [
                (count, url and f"{url}?{urlencode({'queue': name, **more})}")
                for count, url, more in (
                    (stats.pending, jobs, {"status": "pending"}),
                    (stats.scheduled, jobs, {"status": "scheduled"}),
                    (stats.claimed, jobs, {"status": "claimed"}),
                    (stats.done, "", {}),
                    (stats.dead, dead, {}),
                )
            ],
            "act": act if self.has_own_permission(request, act.name) else None,
        }

    def steer(self, request: HttpRequest) -> HttpResponse:
        act = self.acts.get(request.POST.get("act", ""))
        if act is None:
            raise BadRequest("pause or resume")
        if not self.has_own_permission(request, act.name):
            raise PermissionDenied
        state = QueueState(queue=request.POST.get("queue", ""))
        if CONFIRMED not in request.POST:
            return self.confirmation_page(
                request,
                act,
                forms.Form(),
                hidden=[("act", act.name), ("queue", state.queue), (CONFIRMED, "yes")],
                count=1,
                sample=[state],
                back=request.path,
            )
        try:
            became = act.perform([state], {})
        except InvalidOption as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(request.path)
        self.log(request, act, [state], became)
        tally = Tally()
        tally.add([state], became)
        self.tell(request, act, tally)
        return HttpResponseRedirect(request.path)
