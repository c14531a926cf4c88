"""A producer: enqueue jobs of all kinds at a rate, and note which of them were acknowledged.

    python -m benchmarks.soak.producers SEED RATE

Each job has an id of its producer, so that it can be looked up if the enqueue raised an error.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import django
from django.db import close_old_connections, transaction

import djqueue

from .ledger import Ledger

QUEUES = ["a", "b", "c"]
KEYS = 5  # of `tasks.limited`
BATCH = 10
PAUSE = 0.2  # after an error
# How often each kind is chosen. Slow ones are few: after a crash, each job that ran is run alone.
WEIGHTS = {
    "quick": 45,
    "deduplicated": 12,
    "delayed": 10,
    "limited": 10,
    "coroutine": 10,
    "flaky": 6,
    "dying": 2,
    "slow": 2,
    "patient": 1,
    "batch": 2,
}


def choose(rng: random.Random, kind: str) -> djqueue.Call:
    """Return a job of a kind."""
    from . import tasks

    def below(most: float) -> float:
        return round(rng.uniform(0, most), 3)

    calls: dict[str, Callable[[], Any]] = {
        "quick": tasks.quick.call,
        "deduplicated": lambda: tasks.quick.using(
            dedup_key=f"key {rng.randrange(5)}", dedup_until=rng.choice(["claimed", "done"]), delay=below(0.5)
        ).call(),
        "delayed": lambda: tasks.quick.using(delay=below(3)).call(),
        "limited": lambda: tasks.limited.call(rng.randrange(KEYS), below(0.1)),
        "coroutine": lambda: tasks.coroutine.call(below(0.5)),
        "flaky": lambda: tasks.flaky.call(rng.choice([1, 2])),
        "dying": tasks.dying.call,
        "slow": lambda: tasks.slow.call(0.5 + below(2.5)),
        "patient": lambda: tasks.patient.call(2),
    }
    options: dict[str, Any] = {"id": UUID(int=rng.getrandbits(128), version=4), "queue": rng.choice(QUEUES)}
    call: djqueue.Call = calls[kind]()
    return call.using(**options)


def enqueue(calls: list[djqueue.Call]) -> list[djqueue.JobHandle]:
    """Enqueue one job in autocommit mode, or several in a transaction."""
    if len(calls) > 1:
        with transaction.atomic():
            return djqueue.enqueue_many(calls)
    return [djqueue.enqueue(str(call.task), call.args, call.kwargs, **call.options.given()) for call in calls]


class Producer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ledger = Ledger("producer")

    def enqueue_some(self) -> int:
        """Enqueue one job, or a batch; return how many were acknowledged."""
        [kind] = self.rng.choices([*WEIGHTS], [*WEIGHTS.values()])
        calls = [choose(self.rng, kind if kind != "batch" else "quick") for _ in range(BATCH if kind == "batch" else 1)]
        return self.send(kind, calls)

    def send(self, kind: str, calls: list[djqueue.Call]) -> int:
        close_old_connections()  # as at the start of a request
        try:
            stored = self.enqueue(calls)
        except Exception as error:
            asked = [str(call.options.id) for call in calls]
            self.ledger.write("raised", kind, asked, type(error).__name__, str(error)[:200])
            time.sleep(PAUSE)
            return 0
        for job, created in stored:
            self.ledger.write("acknowledged", kind, job, created)
        return len(stored)

    def enqueue(self, calls: list[djqueue.Call]) -> list[tuple[UUID, bool]]:
        """Return the id of each job, and whether it is new."""
        return [(handle.id, handle.created) for handle in enqueue(calls)]


def main(seed: str, rate: str, kind: type[Producer] = Producer) -> None:
    django.setup()
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    producer = kind(int(seed))
    due = time.monotonic()
    while not stopping:
        due += max(1, producer.enqueue_some()) / float(rate)
        due = max(due, time.monotonic() - 1)  # what an outage has delayed is not caught up with
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(*sys.argv[1:])
