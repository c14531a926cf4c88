"""Workers: their states, what each process runs and has finished, and requests to quiet and drain them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from djqueue.models import Worker
from djqueue.operations.summary import worker_state
from djqueue.operations.values import worker_queues
from djqueue.sql import statements, workers

from . import display, worker_page
from .actions import FROM_PAGE, Act, ActingAdmin
from .paginator import CAP
from .worker_actions import ACTS, DRAIN, LIVE, OFFERED, QUIET, RESUME


class WorkerAdmin(ActingAdmin):
    ordering = ("-heartbeat_at",)
    list_display = (
        "identity_column",
        "state_column",
        "host_column",
        "queues_column",
        "running_column",
        "finished_column",
        "memory_column",
        "heartbeat_column",
        "started_column",
    )
    json_columns = ("queues",)
    unread_columns = ("samples", "loops")
    actions = ("quiet", "resume", "drain")
    act_fields = ("identity", "name", "supervisor", "host", "pid", "quiet", "draining", "heartbeat_at", "stopped_at")
    acts: Mapping[str, Act] = {act.name: act for act in ACTS}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add the database's clock, by which heartbeats are written."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(now=workers.clock(statements()))
        return rows

    # Requests

    def has_control_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "control")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Refuse an action without the permission; Django would only ignore it."""
        if request.POST.get("action") in self.acts and not self.has_control_permission(request):
            raise PermissionDenied
        return super().changelist_view(request, extra_context)

    @admin.action(permissions=["control"], description=_("Quiet selected %(verbose_name_plural)s"))
    def quiet(self, request: HttpRequest, queryset: QuerySet[Worker]) -> HttpResponse:
        return self.ask(request, queryset, QUIET)

    @admin.action(permissions=["control"], description=_("Resume selected %(verbose_name_plural)s"))
    def resume(self, request: HttpRequest, queryset: QuerySet[Worker]) -> HttpResponse:
        return self.ask(request, queryset, RESUME)

    @admin.action(permissions=["control"], description=_("Drain selected %(verbose_name_plural)s"))
    def drain(self, request: HttpRequest, queryset: QuerySet[Worker]) -> HttpResponse:
        return self.ask(request, queryset, DRAIN)

    def describe(self, row: Any) -> str:
        return format_html('{} ({}:{}) <span class="djq-id">{}</span>', title(row), row.host, row.pid, row.identity)

    def notes_before(self, queryset: QuerySet[Any], act: Act) -> list[str]:
        """Say that a request is for all processes of a worker, and which rows cannot be asked."""
        chosen = dict(queryset.values_list("identity", "supervisor")[:CAP])
        supervisors = {supervisor for supervisor in chosen.values() if supervisor}
        live = dict(workers.live(statements()).values_list("identity", "supervisor")[:CAP])
        more = sum(supervisor in supervisors for identity, supervisor in live.items() if identity not in chosen)
        dead = sum(identity not in live for identity in chosen)
        notes = []
        if more:
            text = ngettext(
                "A request is for a whole worker: %(count)s other process under the same supervisor obeys too.",
                "A request is for a whole worker: %(count)s other processes under the same supervisors obey too.",
                more,
            )
            notes.append(text % {"count": more})
        if dead:
            text = ngettext(
                "%(count)s has stopped or is lost, and cannot be asked.",
                "%(count)s have stopped or are lost, and cannot be asked.",
                dead,
            )
            notes.append(text % {"count": dead})
        return notes

    # The list

    @admin.display(description=_("worker"))
    def identity_column(self, obj: Worker) -> str:
        return title(obj)

    @admin.display(description=_("state"))
    def state_column(self, obj: Any) -> str:
        state = worker_state(obj)
        return display.badge(state.value, str(state.label))

    @admin.display(description=_("host and process"))
    def host_column(self, obj: Worker) -> str:
        return f"{obj.host}:{obj.pid}"

    @admin.display(description=_("queues"))
    def queues_column(self, obj: Any) -> str:
        return worker_queues(obj.short_queues if hasattr(obj, "short_queues") else obj.queues)

    @admin.display(description=_("running"))
    def running_column(self, obj: Any) -> str:
        return f"{obj.running}/{obj.threads}" if worker_state(obj) in LIVE else display.NOTHING

    @admin.display(description=_("finished"))
    def finished_column(self, obj: Worker) -> int:
        return obj.finished

    @admin.display(description=_("memory"))
    def memory_column(self, obj: Worker) -> str:
        return filesizeformat(obj.memory) if obj.memory else display.NOTHING

    @admin.display(description=_("heartbeat"))
    def heartbeat_column(self, obj: Any) -> str:
        return display.ago(obj.heartbeat_at, obj.now)

    @admin.display(description=_("started"))
    def started_column(self, obj: Any) -> str:
        return display.ago(obj.started_at, obj.now)

    # The page of one process

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        row = self.get_object(request, unquote(object_id))
        if row is None:
            gone = gettext("Worker %(id)s does not exist, or is no longer kept.") % {"id": unquote(object_id)}
            self.message_user(request, gone, messages.WARNING)
            return HttpResponseRedirect(self.url("changelist"))
        request.current_app = self.admin_site.name
        context = {**self.page_context(request, row), **(extra_context or {})}
        return TemplateResponse(request, "admin/djqueue/worker.html", context)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        others = worker_page.other_processes(row)
        held = worker_page.held_jobs(row.pk)
        may_act = self.has_control_permission(request)
        return {
            **self.admin_site.each_context(request),
            "title": title(row),
            "heading": title(row),
            "subtitle": None,
            "original": row,
            "opts": self.opts,
            "has_view_permission": True,
            "media": self.media,
            "worker": row,
            "state": self.state_column(row),
            "requested": worker_page.pending_request(row, others),
            "acts": OFFERED.get(worker_state(row), ()) if may_act else (),
            "facts": [(label, value) for label, value in self.facts(row) if value not in (None, "")],
            "loops": worker_page.loops(row),
            "memory": worker_page.memory(row),
            "held": [self.held_job(job, row.now) for job in held[: worker_page.MOST_HELD]],
            "held_more": len(held) > worker_page.MOST_HELD,
            "finished": [self.finished_job(job, row.now) for job in worker_page.finished_jobs(row.pk)],
            "searched": number_format(worker_page.SEARCHED, force_grouping=True),
            "others": [(self.link(Worker, one.pk, title(one)), self.state_column(one), one) for one in others],
            "acts_url": self.url("changelist"),
            "history_url": self.url("history", quote(row.pk)),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "from_page": FROM_PAGE,
        }

    def facts(self, row: Any) -> list[tuple[Any, Any]]:
        return [
            (_("Identity"), format_html("<code>{}</code>", row.identity)),
            (_("Name"), row.name),
            (_("Supervisor"), row.supervisor and format_html("<code>{}</code>", row.supervisor)),
            (_("Host and process"), self.host_column(row)),
            (_("Queues"), worker_queues(row.queues)),
            (_("Running"), self.running_column(row)),
            (_("Finished"), number_format(row.finished, force_grouping=True)),
            (_("Memory"), self.memory_column(row)),
            (_("Started"), display.instant(row.started_at)),
            (_("Heartbeat"), display.ago(row.heartbeat_at, row.now)),
            (_("Stopped"), row.stopped_at and display.instant(row.stopped_at)),
            (_("Version"), row.version),
        ]

    def held_job(self, job: Any, now: Any) -> dict[str, Any]:
        return {
            "job": job,
            "link": self.link(type(job), job.pk, display.dotted(job.task)),
            "status": display.status(job),
            "since": display.ago(job.claimed_at, now),
        }

    def finished_job(self, job: Any, now: Any) -> dict[str, Any]:
        ended = worker_page.ended_at(job)
        return {
            "job": job,
            "link": self.link(type(job), job.pk, display.dotted(job.task)),
            "status": display.status(job),
            "ended": display.ago(ended, now),
            "took": display.between(job.claimed_at, ended),
        }

    def link(self, model: Any, pk: Any, text: str) -> str:
        url = self.url("change", quote(pk), model=model)
        return format_html('<a href="{}">{}</a>', url, text) if url else text


def title(row: Worker) -> str:
    return row.name or row.identity
