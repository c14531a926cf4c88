"""What happens after a customer has signed up."""

from __future__ import annotations

from django.core.mail import send_mail
from django.utils import timezone

import djqueue
from example_project.shop.models import Customer, Product


@djqueue.task(queue="mail")
def send_welcome(customer_id: int) -> str:
    customer = Customer.objects.get(pk=customer_id)
    # Safe to repeat: a customer who was welcomed is left alone.
    if customer.welcomed_at:
        return "already welcomed"
    send_mail("Welcome", f"Dear {customer.name},\n\nwelcome to the tea shop.", None, [customer.email])
    Customer.objects.filter(pk=customer_id).update(welcomed_at=timezone.now())
    return f"welcomed {customer.email}"


@djqueue.task
def suggest_tea(customer_id: int) -> None:
    # Safe to repeat: the suggestion is replaced.
    Customer.objects.filter(pk=customer_id).update(suggestion=Product.objects.order_by("-sold").first())
