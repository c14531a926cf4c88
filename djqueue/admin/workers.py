"""Workers: their state and last heartbeat."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue.models import Worker
from djqueue.operations.values import worker_queues
from djqueue.sql import statements, workers

from . import display
from .base import QueueModelAdmin

LOST_AFTER = timedelta(seconds=workers.LOST_AFTER)


class WorkerAdmin(QueueModelAdmin):
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
    fields = (
        *("identity", "name", "supervisor", *list_display[1:7], "draining_word"),
        *("started_time", "heartbeat_time", "stopped_time", "version"),
    )
    started_time = display.time_of("started_at", _("started at"))
    heartbeat_time = display.time_of("heartbeat_at", _("heartbeat at"))
    stopped_time = display.time_of("stopped_at", _("stopped at"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add the database's clock, by which heartbeats are written."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(now=workers.clock(statements()))
        return rows

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return self.fields

    @admin.display(description=_("worker"))
    def identity_column(self, obj: Worker) -> str:
        return obj.name or obj.identity

    @admin.display(description=_("state"))
    def state_column(self, obj: Any) -> str:
        if obj.stopped_at is not None:
            return display.badge("stopped", gettext("stopped"))
        if is_lost(obj):
            return display.badge("lost", gettext("lost"))
        if obj.draining:
            return display.badge("draining", gettext("draining"))
        return display.badge("alive", gettext("alive"))

    @admin.display(description=_("host and process"))
    def host_column(self, obj: Worker) -> str:
        return f"{obj.host}:{obj.pid}"

    @admin.display(description=_("queues"))
    def queues_column(self, obj: Any) -> str:
        return worker_queues(obj.short_queues if hasattr(obj, "short_queues") else obj.queues)

    @admin.display(description=_("running"))
    def running_column(self, obj: Any) -> str:
        if obj.stopped_at is not None or is_lost(obj):
            return display.NOTHING
        return f"{obj.running}/{obj.threads}"

    @admin.display(description=_("finished"))
    def finished_column(self, obj: Worker) -> int:
        return obj.finished

    @admin.display(description=_("memory"))
    def memory_column(self, obj: Worker) -> str:
        return filesizeformat(obj.memory) if obj.memory else display.NOTHING

    @admin.display(description=_("draining"))
    def draining_word(self, obj: Worker) -> str:
        return display.yes_or_no(obj.draining)

    @admin.display(description=_("heartbeat"))
    def heartbeat_column(self, obj: Any) -> str:
        return display.ago(obj.heartbeat_at, obj.now)

    @admin.display(description=_("started"))
    def started_column(self, obj: Any) -> str:
        return display.ago(obj.started_at, obj.now)


def is_lost(worker: Any) -> bool:
    lost: bool = worker.now - worker.heartbeat_at > LOST_AFTER
    return lost
