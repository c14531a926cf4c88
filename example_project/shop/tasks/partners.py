"""A request to a server that is not always up, and that answers two requests at a time."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

from django.conf import settings

import djqueue
from example_project.shop import pretend


@djqueue.task(
    queue="partners",
    max_attempts=6,
    retry=djqueue.Exponential(base=1, max=60),
    limit=djqueue.Limit("partner", concurrency=2),  # of all workers together
)
def notify_partner(order_id: int) -> str:
    pretend.work(0.5)
    request = Request(
        settings.PARTNER_URL,
        data=json.dumps({"order": order_id}).encode(),
        # Safe to repeat: the key is that of the job, so the partner can tell a repeated request from a new one.
        headers={"Content-Type": "application/json", "Idempotency-Key": str(djqueue.current_job().id)},
    )
    with urlopen(request, timeout=5) as answer:  # raises HTTPError for 503, and the attempt has failed
        return f"{answer.status}: {answer.read().decode()}"
