"""The tasks of the example shop."""

import djqueue

from .models import Order


@djqueue.task(queue="email")
def send_welcome(email):
    return f"welcomed {email}"


@djqueue.task(priority=djqueue.HIGH, retry=djqueue.Exponential(base=0.1, max=1))
def charge(order_id, attempt=1):
    """The card company answers at the second try."""
    if attempt < 2:
        raise ConnectionError("the card company does not answer")
    Order.objects.filter(pk=order_id).update(paid=True)


@djqueue.task(retry=djqueue.NoRetry())
def import_feed(url):
    raise ValueError(f"no feed at {url}")
