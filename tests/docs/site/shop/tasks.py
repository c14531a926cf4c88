from __future__ import annotations

from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.db.models import Sum

import djqueue

from .models import Order


@djqueue.task(queue="email")
def send_welcome(user_id: int) -> str:
    user = User.objects.get(pk=user_id)
    send_mail("Welcome", f"Hello, {user.username}!", None, [user.email])
    return "sent"


@djqueue.task(max_attempts=5)
def charge(order_id: int) -> str:
    Order.objects.filter(pk=order_id).update(status="paid")
    return "paid"


@djqueue.task(queue="email")
def send_invoice(order_id: int) -> None:
    order = Order.objects.select_related("customer").get(pk=order_id)
    send_mail(f"Invoice {order.pk}", f"{order.total}", None, [order.customer.email])


@djqueue.task
def write_report(name: str = "sales") -> str:
    return f"{name}: {Order.objects.aggregate(Sum('total'))['total__sum']}"
