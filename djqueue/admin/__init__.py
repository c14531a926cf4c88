"""The admin classes of djqueue. Each can be subclassed and registered on another site."""

from __future__ import annotations

from django.contrib import admin

from djqueue.models import KV, DeadJob, DoneJob, Job, QueueState, Schedule, Worker

from .dead import DeadJobAdmin
from .done import DoneJobAdmin
from .jobs import JobAdmin
from .kv import KVAdmin
from .queues import QueueAdmin
from .schedules import ScheduleAdmin
from .workers import WorkerAdmin

CLASSES = {
    Job: JobAdmin,
    DeadJob: DeadJobAdmin,
    DoneJob: DoneJobAdmin,
    QueueState: QueueAdmin,
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
