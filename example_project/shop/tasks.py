"""The tasks of the example shop."""

from datetime import timedelta

import djqueue

from .models import Order


@djqueue.task(queue="email")
def send_welcome(email):
    return f"welcomed {email}"


@djqueue.task(queue="email", priority=djqueue.LOW)
def send_newsletter(name):
    return f"wrote to {name}"


@djqueue.task(priority=djqueue.HIGH, retry=djqueue.Exponential(base=0.1, max=1))
def charge(order_id):
    """Fail the first attempt and succeed in the second."""
    if djqueue.kv.compare_and_set(f"charge/{order_id}", None, "tried"):
        raise ConnectionError("payment service not available")
    Order.objects.filter(pk=order_id).update(paid=True)
    return "paid"


@djqueue.task(retry=djqueue.NoRetry())
def import_feed(url):
    if not url.endswith(".xml"):
        raise ValueError(f"no feed at {url}")
    return "imported"


@djqueue.task(cron="*/15 * * * *")
def count_unpaid():
    return Order.objects.filter(paid=False).count()


# At 00:15 in Berlin, also on days with a daylight saving change.
djqueue.schedule(
    "morning-newsletter", task=send_newsletter, cron="15 0 * * *", timezone="Europe/Berlin", args=["all customers"]
)
djqueue.schedule("feed", task=import_feed, every=timedelta(hours=1), args=["orders.xml"], overlap="skip", jitter=60)
