"""Workers: their state and last heartbeat."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue.models import Worker

from . import display
from .base import QueueModelAdmin

STALE_AFTER = timedelta(seconds=60)


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
        *(
            "identity",
            "name",
            "supervisor",
            "host",
            "pid",
            "version",
            "queues_on_page",
            "threads",
            "running",
            "finished",
        ),
        *("memory_column", "draining_word", "started_time", "heartbeat_time", "stopped_time"),
    )
    started_time = display.time_of("started_at", _("started at"))
    heartbeat_time = display.time_of("heartbeat_at", _("heartbeat at"))
    stopped_time = display.time_of("stopped_at", _("stopped at"))

    @admin.display(description=_("worker"))
    def identity_column(self, obj: Worker) -> str:
        return obj.name or obj.identity

    @admin.display(description=_("state"))
    def state_column(self, obj: Worker) -> str:
        if obj.stopped_at is not None:
            return display.badge("stopped", gettext("stopped"))
        if timezone.now() - obj.heartbeat_at > STALE_AFTER:
            return display.badge("stale", gettext("no heartbeat"))
        if obj.draining:
            return display.badge("draining", gettext("draining"))
        return display.badge("alive", gettext("alive"))

    @admin.display(description=_("host and process"))
    def host_column(self, obj: Worker) -> str:
        return f"{obj.host}:{obj.pid}"

    @admin.display(description=_("queues"))
    def queues_column(self, obj: Any) -> str:
        return queue_names(obj.short_queues)

    @admin.display(description=_("queues"))
    def queues_on_page(self, obj: Worker) -> str:
        return queue_names(obj.queues)

    @admin.display(description=_("running"))
    def running_column(self, obj: Worker) -> str:
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
    def heartbeat_column(self, obj: Worker) -> str:
        return display.ago(obj.heartbeat_at)

    @admin.display(description=_("started"))
    def started_column(self, obj: Worker) -> str:
        return display.ago(obj.started_at)


def queue_names(queues: Any) -> str:
    if queues == []:
        return gettext("all")
    return ", ".join(map(str, queues)) if isinstance(queues, list) else display.short_json(queues)
