"""The producer of the soak test, which repeats an enqueue that was not answered until it is.

    python -m benchmarks.cluster.producers SEED RATE

The remedy of docs/howto/failover.md: the job has an id of its own, so DuplicateJob says that it is stored already.
Half of the batches are in a transaction of the producer, which djqueue cannot repeat after a conflict.
"""

from __future__ import annotations

import sys
from uuid import UUID

import djqueue
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.producers import Producer, main

IN_TRANSACTION, ALONE = "batch", "batch without a transaction"


class RepeatingProducer(Producer):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.repeats = Ledger("repeats")
        self.repeating = self.alone = False

    def send(self, kind: str, calls: list[djqueue.Call]) -> int:
        self.repeating = False
        self.alone = kind == IN_TRANSACTION and self.rng.random() < 0.5
        if self.alone:
            kind = ALONE
        while not (count := super().send(kind, calls)):
            self.repeating = True
        return count

    def enqueue(self, calls: list[djqueue.Call]) -> list[tuple[UUID, bool]]:
        own = {call.options.id for call in calls}
        try:
            stored = self.enqueue_alone(calls) if self.alone else super().enqueue(calls)
        except djqueue.DuplicateJob as error:
            if not self.repeating:
                raise
            self.repeats.write("was stored", error.id)
            return [(call.options.id, True) for call in calls if call.options.id]
        # The holder of a dedup key may be the job itself.
        return [(job, created or (self.repeating and job in own)) for job, created in stored]

    def enqueue_alone(self, calls: list[djqueue.Call]) -> list[tuple[UUID, bool]]:
        return [(handle.id, handle.created) for handle in djqueue.enqueue_many(calls)]


if __name__ == "__main__":
    main(*sys.argv[1:], kind=RepeatingProducer)
