"""Takes an order, runs its jobs in a worker and steers them, a line for every event."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

import djqueue
from djqueue import signals
from djqueue.worker.options import Options
from djqueue.worker.single import SingleProcess
from example_project.shop.models import Order
from example_project.shop.tasks import charge, import_feed, send_newsletter, send_welcome

EVENTS = ["queued", "started", "completed", "failed", "retrying", "dead_letter", "cancelled"]


class Command(BaseCommand):
    help = "Enqueue and run a few jobs, and show every event of their lives."

    def handle(self, *args: Any, **options: Any) -> None:
        receivers = {event: self.receiver(event) for event in EVENTS}
        for event, receiver in receivers.items():
            getattr(signals, f"job_{event}").connect(receiver)
        self.say("an order is taken; its jobs commit with it")
        self.take_order()
        self.say("one reminder only, however often it is asked for; and a newsletter to three")
        self.ask_twice()
        send_newsletter.enqueue_many([djqueue.call(name) for name in ("ada", "grace", "edsger")])
        self.say("the worker's turn")
        self.work()
        self.say("a person looks at the dead letters and puts one back, with another address")
        for job in djqueue.Queue("default").dead_jobs():
            djqueue.requeue(job.id, args=["https://example.com/feed.xml"])
        self.work()
        self.say("in the end")
        for name in djqueue.queues():
            self.stdout.write(f"  {name}: {djqueue.stats(name)}")
        self.stdout.write(f"  kv orders/last: {djqueue.kv.get('orders/last')}")

    def take_order(self) -> None:
        with transaction.atomic():
            order = Order.objects.create(email="ada@example.com", total="9.90")
            send_welcome.enqueue(order.email)
            charge.using(kv={"orders/last": order.pk}).enqueue(order.pk)
            import_feed.enqueue("https://example.com/no-such-feed")

    def ask_twice(self) -> None:
        reminder = send_welcome.using(delay=3600, dedup_key="remind:ada").enqueue("ada@example.com")
        again = send_welcome.using(delay=3600, dedup_key="remind:ada").enqueue("ada@example.com")
        self.stdout.write(f"  asked twice, got {'the same job' if again.id == reminder.id else 'two jobs'}")
        self.stdout.write(f"  and it is cancelled: {reminder.cancel()}")

    def work(self) -> None:
        """What `manage.py runworker --burst` does, and once more when the retries are due."""
        while any(djqueue.stats(name).pending or djqueue.stats(name).scheduled for name in djqueue.queues()):
            SingleProcess(Options(burst=True)).run()
            time.sleep(0.05)

    def say(self, text: str) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(text))

    def receiver(self, event: str) -> Any:
        def receive(name: str, id: object, attempt: int, **kwargs: Any) -> None:  # noqa: A002
            more = "".join(f" {key}={kwargs[key]!r:.60}" for key in ("error", "delay", "result") if kwargs.get(key))
            self.stdout.write(f"  {event:<11} task={name.rpartition('.')[2]} job={id} attempt={attempt}{more}")

        return receive
