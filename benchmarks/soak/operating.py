"""An operator: cancel, requeue and reschedule random jobs, pause and resume queues, and note what was asked.

python -m benchmarks.soak.operating SEED
"""

from __future__ import annotations

import random
import signal
import sys
import time
from datetime import timedelta
from uuid import UUID

import django
from django.db import DatabaseError, InterfaceError, close_old_connections
from django.utils import timezone

import djqueue

from .ledger import Ledger
from .producers import PAUSE, QUEUES

PACE = 0.3  # seconds between two acts
PAUSED = 1.0
AMONG = 200  # the jobs from which one is chosen


class Operator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ledger = Ledger("operator")
        self.acts = {
            self.cancel_waiting: 4,
            self.cancel_running: 4,
            self.requeue: 4,
            self.reschedule: 3,
            self.pause: 1,
        }

    def act(self) -> None:
        [act] = self.rng.choices([*self.acts], [*self.acts.values()])
        close_old_connections()
        try:
            act()
        except Exception as error:
            self.ledger.write("raised", act.__name__, [], type(error).__name__, str(error)[:200])
            time.sleep(PAUSE)

    def cancel_waiting(self) -> None:
        self.cancel("pending", "scheduled", "blocked")

    def cancel_running(self) -> None:
        self.cancel("claimed")

    def cancel(self, *statuses: str) -> None:
        from djqueue.models import Job

        for job in self.some(Job.objects.filter(status__in=statuses)):
            self.ledger.write("cancel", job)
            self.ledger.write("cancelled", job, djqueue.cancel(job))

    def requeue(self) -> None:
        from djqueue.models import DeadJob

        for job in self.some(DeadJob.objects):
            self.ledger.write("requeue", job)
            try:
                djqueue.requeue(job)
            except djqueue.NotDead:
                self.ledger.write("not dead", job)
            else:
                self.ledger.write("requeued", job)

    def reschedule(self) -> None:
        from djqueue.models import Job

        for job in self.some(Job.objects.exclude(status="claimed")):
            if self.rng.random() < 0.5:
                djqueue.reschedule(job, run_at=timezone.now() + timedelta(seconds=self.rng.uniform(0, 3)))
            else:
                djqueue.reschedule(job, priority=self.rng.choice([1, 1000, 5000]))

    def pause(self) -> None:
        queue = djqueue.Queue(self.rng.choice(QUEUES))
        queue.pause()
        time.sleep(self.rng.uniform(0, PAUSED))
        queue.resume()

    def some(self, rows: object) -> list[UUID]:
        """Return one job, if there are any."""
        found = list(rows.values_list("id", flat=True)[:AMONG])  # type: ignore[attr-defined]
        return [self.rng.choice(found)] if found else []

    def resume_all(self) -> None:
        """Leave no queue paused, although a pause may have failed half-way."""
        for queue in QUEUES:
            while True:
                try:
                    djqueue.Queue(queue).resume()
                    break
                except (DatabaseError, InterfaceError):
                    close_old_connections()
                    time.sleep(PAUSE)


def main(seed: str) -> None:
    django.setup()
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    operator = Operator(int(seed))
    while not stopping:
        operator.act()
        time.sleep(PACE)
    operator.resume_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
