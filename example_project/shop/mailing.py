"""Send a newsletter."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

import djqueue

from .models import Customer, Newsletter
from .tasks import send_letter


def send_newsletter(subject: str, customers: Collection[Customer]) -> list[djqueue.JobHandle]:
    """Write the newsletter and one job for each customer, in one transaction."""
    with transaction.atomic():
        newsletter = Newsletter.objects.create(subject=subject, recipients=len(customers))
        return send_letter.enqueue_many(djqueue.call(newsletter.pk, customer.pk) for customer in customers)
