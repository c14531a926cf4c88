"""django-tasks-db, dj-queue and django-ox: backends of django.tasks, each with its own worker command."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

from benchmarks.compare.systems.protocol import TEXT, System, main, queue_name

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.compare.systems.django_tasks_project.settings"
NAME = os.environ["COMPARE_SYSTEM"]
CHUNK = 5_000
COMMANDS = {
    "django-tasks-db": ["db_worker", "--queue-name", "*", "--no-startup-delay", "--no-reload"],
    "dj-queue": ["dj_queue"],
    "django-ox": ["ox_worker", "--concurrency", "{threads}"],
}


class DjangoTasks(System):
    def __init__(self) -> None:
        if sys.argv[1:2] != ["worker"]:
            import django

            django.setup()

    def prepare(self) -> None:
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def clear(self) -> None:
        from django.apps import apps
        from django.conf import settings
        from django.db import connection

        models = [model for model in apps.get_models() if model._meta.app_config.name in settings.APPS]
        tables = [connection.ops.quote_name(model._meta.db_table) for model in models if model._meta.managed]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
            else:
                for table in tables:
                    cursor.execute(f"DELETE FROM {table}")

    def enqueue(self, number: int, task: str = "nothing") -> None:
        from . import tasks

        getattr(tasks, task).enqueue(number, TEXT)

    def enqueue_bulk(self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0) -> None:
        from django.db import transaction
        from django.utils import timezone

        from . import tasks

        later: dict[str, Any] = {"run_after": timezone.now() + timedelta(seconds=delay)} if delay else {}
        for place in range(queues):
            bound = getattr(tasks, task).using(queue_name=queue_name(place, queues), **later)
            numbers = range(first + place, first + count, queues)
            for start in range(0, len(numbers), CHUNK):
                with transaction.atomic():
                    enqueue_chunk(bound, numbers[start : start + CHUNK])

    def unsettled(self) -> int:
        from django.db.models import Q
        from django.utils import timezone

        if NAME == "dj-queue":
            from dj_queue.models import ClaimedExecution, ReadyExecution

            return ReadyExecution.objects.count() + ClaimedExecution.objects.count()
        if NAME == "django-ox":
            from django_ox.models import OxTask

            due = Q(run_after=None) | Q(run_after__lte=timezone.now())
            return OxTask.objects.filter(Q(status="RUNNING") | Q(status="READY") & due).count()
        from django_tasks_db.models import DBTaskResult

        return DBTaskResult.objects.ready().count() + DBTaskResult.objects.running().count()

    def work(self, processes: int = 1, threads: int | None = None, queues: int = 1) -> None:
        from django.core.management import execute_from_command_line

        if threads:
            os.environ["COMPARE_THREADS"] = str(threads)
        execute_from_command_line(["manage.py", *(part.format(threads=threads or 1) for part in COMMANDS[NAME])])


def enqueue_chunk(task: Any, numbers: range) -> None:
    """Enqueue in one call if the backend has one; otherwise one by one, in the transaction of the caller."""
    backend = task.get_backend()
    calls = [([number, TEXT], {}) for number in numbers]
    if NAME == "dj-queue":
        backend.enqueue_all([(task, args, kwargs) for args, kwargs in calls])
    elif NAME == "django-ox":
        backend.enqueue_many(task, calls)
    else:
        for args, kwargs in calls:
            task.enqueue(*args, **kwargs)


if __name__ == "__main__":
    main(DjangoTasks)
