"""Customers who order, and staff who press buttons, so that there is something to see."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand

import djqueue
from example_project.shop.checkout import place_order
from example_project.shop.mailing import send_newsletter
from example_project.shop.models import Card, Customer, Order, Product
from example_project.shop.tasks import (
    compare_prices,
    export_orders,
    import_prices,
    notify_partner,
    recount_sales,
)
from example_project.shop.tasks.suppliers import import_newest

AT_ONCE = 12  # orders at the start, so that there is something to see soon


class Command(BaseCommand):
    help = "Place orders and start other jobs, again and again."

    def handle(self, *args: Any, **options: Any) -> None:
        for _ in range(AT_ONCE):
            self.stdout.write(order())
        while True:
            [act] = random.choices(list(ACTS), list(ACTS.values()))
            self.stdout.write(act())
            self.stdout.flush()
            time.sleep(random.uniform(0.5, 2.5))


def order() -> str:
    product, customer = random.choice(Product.objects.all()), random.choice(Customer.objects.all())
    [card] = random.choices([Card.GOOD, Card.SLOW, Card.EXPIRED], [79, 17, 4])
    placed = place_order(product, random.randint(1, 3), customer.email, card)
    return f"{customer} orders {placed.quantity} {product}" + ("" if card == Card.GOOD else f" ({card.label})")


def tell_partner() -> str:
    placed = list(Order.objects.order_by("-pk")[: random.choice([1, 1, 6])])
    notify_partner.enqueue_many(djqueue.call(order.pk) for order in placed)
    return f"The partner is told of {len(placed)} order{'' if len(placed) == 1 else 's'}"


def advertise() -> str:
    customers = random.sample(list(Customer.objects.all()), 12)
    jobs = send_newsletter(f"New: {random.choice(Product.objects.all())}", customers)
    return f"A newsletter is sent to {len(jobs)} customers"


def recount() -> str:
    handles = [recount_sales.using(dedup_key="recount").enqueue() for _ in range(3)]
    created = sum(bool(handle.created) for handle in handles)
    return f"Someone presses “Recount” three times: {created} job{'' if created == 1 else 's'} created"


def import_list() -> str:
    name = random.choice(["autumn.csv", "winter.csv"])
    handle = import_newest(name)
    return f"A price list arrives: {name}" + ("" if handle.created else ", and replaces the one that waits")


def requeue_dead() -> str:
    dead = [job for job in djqueue.Queue("suppliers").dead_jobs() if job.task == import_prices.name]
    if not dead:
        return import_list()
    djqueue.requeue(random.choice(dead).id, args=["autumn.csv"])
    return "A dead import is requeued with another file"


def export() -> str:
    export_orders.enqueue()
    return "Someone starts an export"


def compare() -> str:
    product = random.choice(Product.objects.all())
    compare_prices.enqueue(product.pk)
    return f"The price of {product} is compared"


ACTS: dict[Callable[[], str], int] = {
    order: 60,
    tell_partner: 8,
    recount: 6,
    import_list: 5,
    advertise: 4,
    compare: 4,
    requeue_dead: 3,
    export: 2,
}
