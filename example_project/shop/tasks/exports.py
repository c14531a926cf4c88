"""A long job that shows its progress and can be cancelled."""

from __future__ import annotations

import csv
from io import StringIO

import djqueue
from example_project.shop import pretend
from example_project.shop.models import Export, Order

MOST_ROWS = 200


@djqueue.task(queue="documents", timeout=300)
def export_orders() -> str:
    job = djqueue.current_job()
    orders = list(Order.objects.select_related("product")[:MOST_ROWS])
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(["order", "placed at", "product", "quantity", "total"])
    for number, order in enumerate(orders, 1):
        job.raise_if_cancelled()  # ends the task here if a cancel was requested
        writer.writerow([order.pk, order.placed_at, order.product, order.quantity, order.total])
        pretend.work(0.15)
        job.progress(number, len(orders), f"{number} of {len(orders)} orders")
    # Safe to repeat: another attempt of the same job replaces its export.
    Export.objects.update_or_create(job=job.id, defaults={"csv": text.getvalue(), "rows": len(orders)})
    return f"{len(orders)} orders"
