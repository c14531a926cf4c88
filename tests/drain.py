"""Claims and settles jobs until there are none: `python -m tests.drain ALIAS`, run by test_concurrency."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from djqueue.lifecycle import claim as claiming
from djqueue.lifecycle import settle
from djqueue.states import Outcome


def drain(seed: int) -> dict[str, Any]:
    """Settle what can be claimed, some jobs after a failure; gives what was acked and what was lost."""
    random.seed(seed)
    acked: list[str] = []
    lost = 0
    empty = 0
    while empty < 20:
        jobs = claiming.claim({"default": random.randint(1, 40)})
        empty = 0 if jobs else empty + 1
        items = [
            settle.ack(job) if job.attempt > 1 or random.random() < 0.9 else settle.nack(job, "boom", delay=0)
            for job in jobs
        ]
        while items:  # a claimer that looks at a row just now has it locked for a moment
            answers = list(zip(items, settle.settle_many(items), strict=True))
            for item, settled in answers:
                assert not isinstance(settled, Exception), settled
                lost += settled.outcome == Outcome.LOST
                if settled.outcome == Outcome.DONE:
                    acked.append(str(item.id))
            items = [item for item, settled in answers if settled.outcome == Outcome.LOCKED]
    return {"acked": acked, "lost": lost}


if __name__ == "__main__":
    import django
    from django.conf import settings

    alias, name, seed = sys.argv[1:]
    settings.DJQUEUE = {"DATABASE": alias}
    settings.DATABASES[alias]["NAME"] = name
    django.setup()
    print(json.dumps(drain(int(seed))))
