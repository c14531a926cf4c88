"""djqueue, with the default settings and as many processes and threads as are asked for."""

from __future__ import annotations

import os
import sys

from benchmarks.compare.systems.protocol import TEXT, System, main, queue_name, text_of

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.compare.systems.djqueue_project.settings"


class Djqueue(System):
    def __init__(self) -> None:
        if sys.argv[1:2] != ["worker"]:
            import django

            django.setup()

    def prepare(self) -> None:
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def clear(self) -> None:
        from django.apps import apps
        from django.db import connection

        tables = [
            connection.ops.quote_name(model._meta.db_table) for model in apps.get_app_config("djqueue").get_models()
        ]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"TRUNCATE {', '.join(tables)}")
            else:
                for table in tables:
                    cursor.execute(f"DELETE FROM {table}")

    def enqueue(self, number: int, task: str = "nothing") -> None:
        from . import tasks

        getattr(tasks, task).enqueue(number, TEXT)

    def enqueue_one_by_one(self, first: int, count: int) -> None:
        from .tasks import nothing

        for number in range(first, first + count):
            nothing.enqueue(number, TEXT)

    def enqueue_bulk(
        self, first: int, count: int, task: str = "nothing", queues: int = 1, delay: float = 0, size: int = 0
    ) -> None:
        import djqueue

        from . import tasks

        text = text_of(size)
        for place in range(queues):
            bound = getattr(tasks, task).using(queue=queue_name(place, queues), **({"delay": delay} if delay else {}))
            bound.enqueue_many([djqueue.call(number, text) for number in range(first + place, first + count, queues)])

    def unsettled(self) -> int:
        from djqueue.models import Job
        from djqueue.states import Status

        return Job.objects.filter(status__in=[Status.PENDING, Status.CLAIMED]).count()

    def work(self, processes: int = 1, threads: int = 4, queues: int = 1) -> None:
        from django.core.management import execute_from_command_line

        options = ["--processes", str(processes), "--threads", str(threads), "--verbosity", "0"]
        execute_from_command_line(["manage.py", "runworker", *options])


if __name__ == "__main__":
    main(Djqueue)
