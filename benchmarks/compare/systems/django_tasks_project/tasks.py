from __future__ import annotations

import time

from benchmarks.compare.systems.ledger import record

try:
    from django.tasks import task
except ImportError:  # Django 5.2
    from django_tasks import task


@task
def nothing(number: int, text: str) -> None:
    record(number)


@task
def nap(number: int, text: str) -> None:
    record(number)
    time.sleep(0.01)
