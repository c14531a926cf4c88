"""Takes an order, and runs its jobs in a plain claim loop."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

import djqueue
from djqueue import registry
from example_project.shop.models import Order
from example_project.shop.tasks import charge, import_feed, send_welcome


class Command(BaseCommand):
    help = "Enqueue and run a few jobs."

    def handle(self, *args: Any, **options: Any) -> None:
        handles = self.take_order()
        self.stdout.write(f"enqueued {len(handles)} jobs with their order, in one transaction")
        while any(handle.status() in ("pending", "scheduled") for handle in handles):
            djqueue.maintenance.promote()
            ran = [self.run(job) for name in djqueue.queues() for job in djqueue.Queue(name).claim(10)]
            if not ran:
                time.sleep(0.05)
        for name in djqueue.queues():
            self.stdout.write(f"{name}: {djqueue.stats(name)}")

    def take_order(self) -> list[djqueue.JobHandle]:
        with transaction.atomic():
            order = Order.objects.create(email="ada@example.com", total="9.90")
            return [
                send_welcome.enqueue(order.email),
                charge.enqueue(order.pk),
                import_feed.using(delay=0.2).enqueue("https://example.com/feed"),
            ]

    def run(self, job: djqueue.ClaimedJob) -> None:
        task = registry.find(job.task)
        assert task is not None
        try:
            extra = {"attempt": job.attempt} if job.task.endswith("charge") else {}
            result = task.func(*job.args, **job.kwargs, **extra)
        except Exception as error:
            job.nack(error)
        else:
            job.ack(result)
        record = djqueue.get_job(job.id)
        outcome = (
            "gone"
            if record is None
            else f"{record.status} {record.result if record.status == 'done' else record.last_error}"
        )
        self.stdout.write(f"job={job.id} task={job.task} attempt={job.attempt} {outcome}")
