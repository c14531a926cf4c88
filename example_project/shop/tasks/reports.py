"""A report that is written every night."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Count, Sum
from django.utils import timezone

import djqueue
from example_project.shop.models import Order, Report


@djqueue.task(queue="documents")
def write_report() -> str:
    # The slot is the time for which the schedule has fired. A job that runs late still reports the right day.
    slot = djqueue.current_job().slot or timezone.now()
    day = slot.date() - timedelta(days=1)
    orders = Order.objects.filter(placed_at__date=day, status=Order.Status.PAID)
    numbers = orders.aggregate(orders=Count("pk"), revenue=Sum("total", default=0))
    # Safe to repeat: there is one report for each day, and a second run writes the same numbers.
    Report.objects.update_or_create(day=day, defaults=numbers)
    return f"{day}: {numbers['orders']} orders, {numbers['revenue']} €"


djqueue.schedule("nightly-report", task=write_report, cron="0 2 * * *", timezone="Europe/Berlin")
