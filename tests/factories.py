"""Rows in every state, created directly, as another release or a manual change may have left them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import factory
from django.db import models

from djqueue.conf import config
from djqueue.core.uuid7 import uuid7
from djqueue.models import KV, DeadJob, DoneJob, Job, LimitKey, QueueState, Schedule, Throughput, Worker


def now() -> datetime:
    return datetime.now(UTC)


def ago(seconds: float) -> datetime:
    return now() - timedelta(seconds=seconds)


class InQueueDatabase(factory.django.DjangoModelFactory):
    class Meta:
        abstract = True

    @classmethod
    def _create(cls, model_class: type[models.Model], *args: Any, **kwargs: Any) -> models.Model:
        return model_class._base_manager.using(config().database).create(*args, **kwargs)


class JobFieldsFactory(InQueueDatabase):
    class Meta:
        abstract = True

    id = factory.LazyFunction(uuid7)
    task = "tests.app.tasks.add"
    queue = "default"
    priority = 1000
    args = factory.LazyFunction(lambda: [1])
    kwargs = factory.LazyFunction(dict)
    max_attempts = 3
    run_at = factory.LazyFunction(now)
    enqueued_at = factory.LazyFunction(now)


class JobFactory(JobFieldsFactory):
    class Meta:
        model = Job

    status = "pending"

    class Params:
        scheduled = factory.Trait(status="scheduled", run_at=factory.LazyFunction(lambda: ago(-3600)))
        claimed = factory.Trait(
            status="claimed",
            attempts=1,
            token=factory.LazyFunction(uuid4),
            worker="somebody",
            worker_ids=factory.LazyFunction(lambda: ["somebody"]),
            claimed_at=factory.LazyFunction(now),
            started_at=factory.LazyFunction(now),
            lease_expires_at=factory.LazyFunction(lambda: ago(-30)),
            started=True,
        )
        expired = factory.Trait(
            claimed=True,
            claimed_at=factory.LazyFunction(lambda: ago(60)),
            lease_expires_at=factory.LazyFunction(lambda: ago(30)),
        )


class DoneJobFactory(JobFieldsFactory):
    class Meta:
        model = DoneJob

    status = "done"
    attempts = 1
    completed_at = factory.LazyFunction(now)

    class Params:
        cancelled = factory.Trait(status="cancelled", attempts=0)


class DeadJobFactory(JobFieldsFactory):
    class Meta:
        model = DeadJob

    attempts = 3
    failed_at = factory.LazyFunction(now)
    last_error = "boom"
    errors = factory.LazyFunction(lambda: [{"attempt": 3, "message": "boom"}])


class KVFactory(InQueueDatabase):
    class Meta:
        model = KV

    key = factory.Sequence(lambda n: f"key/{n}")
    value = factory.LazyFunction(dict)
    updated_at = factory.LazyFunction(now)


class ScheduleFactory(InQueueDatabase):
    class Meta:
        model = Schedule

    name = factory.Sequence(lambda n: f"schedule-{n}")
    task = "tests.app.tasks.add"
    cron = "* * * * *"

    @classmethod
    def _create(cls, *args: Any, **kwargs: Any) -> models.Model:
        row = super()._create(*args, **kwargs)
        row.refresh_from_db(using=config().database)  # SQLite's RETURNING gives 0 for 0.0
        return row


class WorkerFactory(InQueueDatabase):
    class Meta:
        model = Worker

    identity = factory.Sequence(lambda n: f"host:{n}:abc")
    host = "host"
    pid = 1
    started_at = factory.LazyFunction(now)
    heartbeat_at = factory.LazyFunction(now)


class QueueStateFactory(InQueueDatabase):
    class Meta:
        model = QueueState

    queue = factory.Sequence(lambda n: f"queue-{n}")


class LimitKeyFactory(InQueueDatabase):
    class Meta:
        model = LimitKey

    key = factory.Sequence(lambda n: f"tenant:{n}")
    admitted_at = factory.LazyFunction(now)


class ThroughputFactory(InQueueDatabase):
    class Meta:
        model = Throughput

    minute = factory.LazyFunction(lambda: ago(600).replace(second=0, microsecond=0))
    queue = "default"
    task = "tests.app.tasks.add"
    wait_bucket = 0
    run_bucket = 0
    done = 1
