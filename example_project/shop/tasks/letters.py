"""One newsletter is one job for each customer."""

from __future__ import annotations

from django.core.mail import send_mail

import djqueue
from example_project.shop import pretend
from example_project.shop.models import Customer, Delivery, Newsletter


@djqueue.task(queue="mail", priority=djqueue.LOW)
def send_letter(newsletter_id: int, customer_id: int) -> str:
    newsletter = Newsletter.objects.get(pk=newsletter_id)
    customer = Customer.objects.get(pk=customer_id)
    # Safe to repeat: a customer who has the letter is left alone.
    if Delivery.objects.filter(newsletter=newsletter, customer=customer).exists():
        return "already sent"
    pretend.work(0.2)
    send_mail(newsletter.subject, f"Dear {customer.name},\n\nwe have new tea.", None, [customer.email])
    Delivery.objects.create(newsletter=newsletter, customer=customer)
    return f"sent to {customer.email}"
