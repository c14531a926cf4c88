"""Create an order, run its jobs in a worker, control them, and print a line for every event."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

import djqueue
from example_project.shop import events
from example_project.shop.models import Order
from example_project.shop.tasks import charge, import_feed, send_newsletter, send_welcome


class Command(BaseCommand):
    help = "Enqueue a few jobs, run them in a worker, and print every event."

    def handle(self, *args: Any, **options: Any) -> None:
        events.show(self.write)
        self.heading("Create an order; its jobs are committed with it")
        jobs = self.create_order()
        self.heading("Enqueue a reminder twice with one dedup key, and a newsletter to three customers")
        self.enqueue_reminder_twice()
        jobs += send_newsletter.enqueue_many([djqueue.call(name) for name in ("ada", "grace", "edsger")])
        self.heading("Start manage.py runworker")
        with self.worker():
            self.wait_for(jobs)
            self.heading("Requeue the dead job with another address")
            dead = djqueue.Queue("default").dead_jobs()
            for job in dead:
                djqueue.requeue(job.id, args=["https://example.com/feed.xml"])
            self.wait_for(dead)
            self.heading("Stop the worker with SIGTERM; it drains")
        self.heading("Result")
        for name in djqueue.queues():
            self.write(f"  {name}: {djqueue.stats(name)}")
        self.write(f"  kv orders/last: {djqueue.kv.get('orders/last')}")

    def create_order(self) -> list[djqueue.JobHandle]:
        with transaction.atomic():
            order = Order.objects.create(email="ada@example.com", total="9.90")
            return [
                send_welcome.enqueue(order.email),
                charge.using(kv={"orders/last": order.pk}).enqueue(order.pk),
                import_feed.enqueue("https://example.com/no-such-feed"),
            ]

    def enqueue_reminder_twice(self) -> None:
        reminder = send_welcome.using(delay=3600, dedup_key="remind:ada").enqueue("ada@example.com")
        again = send_welcome.using(delay=3600, dedup_key="remind:ada").enqueue("ada@example.com")
        self.write(f"  enqueued twice, result: {'the same job' if again.id == reminder.id else 'two jobs'}")
        self.write(f"  cancel the reminder: {reminder.cancel()}")

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Run a real worker in its own processes; its output is mixed with that of the demo."""
        worker = subprocess.Popen(
            [sys.executable, "manage.py", "runworker", "--threads", "2"],
            env=os.environ | {"SHOP_SHOWS_EVENTS": "1"},
        )
        try:
            yield
        finally:
            worker.terminate()
            code = worker.wait()
        self.write(f"  the worker exited with code {code}")

    def wait_for(self, jobs: list[Any]) -> None:
        for job in jobs:
            if djqueue.wait(job.id, timeout=60).timed_out:
                raise CommandError(f"Job {job.id} did not finish within 60 seconds.")

    def heading(self, text: str) -> None:
        self.write(self.style.MIGRATE_HEADING(text))

    def write(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
