"""Place an order."""

from __future__ import annotations

from django.db import transaction

from .models import Order, Product
from .tasks import charge


def place_order(product: Product, quantity: int, email: str, card: str) -> Order:
    """Create the order and the job that charges it, in one transaction: both or none."""
    with transaction.atomic():
        order = Order.objects.create(
            product=product, quantity=quantity, email=email, card=card, total=product.price * quantity
        )
        order.payment_job = charge.enqueue(order.pk).id
        order.save(update_fields=["payment_job"])
    return order
