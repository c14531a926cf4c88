"""The admin classes of djqueue. Each can be subclassed and registered on another site."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model

from djqueue.models import KV, DeadJob, DoneJob, Job, LimitKey, QueueState, Schedule, Worker

from .dead import DeadJobAdmin
from .done import DoneJobAdmin
from .jobs import JobAdmin
from .kv import KVAdmin
from .limits import LimitAdmin
from .overview.page import Overview, OverviewAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

CLASSES: dict[type[Model], type[admin.ModelAdmin[Any]]] = {
    Overview: OverviewAdmin,
    Job: JobAdmin,
    DeadJob: DeadJobAdmin,
    DoneJob: DoneJobAdmin,
    QueueState: QueueAdmin,
    LimitKey: LimitAdmin,
    Worker: WorkerAdmin,
    Schedule: ScheduleAdmin,
    KV: KVAdmin,
}

__all__ = [
    "CLASSES",
    "DeadJobAdmin",
    "DoneJobAdmin",
    "JobAdmin",
    "KVAdmin",
    "LimitAdmin",
    "Overview",
    "OverviewAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "WorkerAdmin",
    "register",
]


def register(site: admin.AdminSite) -> None:
    """Register all models on a site, except those that are already registered."""
    for model, cls in CLASSES.items():
        if not site.is_registered(model):
            site.register(model, cls)


register(admin.site)
