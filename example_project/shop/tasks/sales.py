"""A job of which one at a time is enough."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Sum

import djqueue
from example_project.shop import pretend
from example_project.shop.models import Order, Product


@djqueue.task(dedup_until="done")
def recount_sales() -> None:
    products = list(Product.objects.all())
    for number, product in enumerate(products, 1):
        pretend.work(0.6)
        paid = Order.objects.filter(product=product, status=Order.Status.PAID)
        # Safe to repeat: the number is counted anew, not increased.
        sold = paid.aggregate(sold=Sum("quantity", default=0))["sold"]
        Product.objects.filter(pk=product.pk).update(sold=sold)
        djqueue.current_job().progress(number, len(products), product.name)


djqueue.schedule("recount-sales", task=recount_sales, every=timedelta(seconds=30), overlap="skip")
