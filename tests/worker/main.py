"""`manage.py runworker` on a test database: `python -m tests.worker.main ALIAS NAME [arguments …]`.

DJQUEUE_TEST_OPTIONS is more of DJQUEUE, as JSON; DJQUEUE_TEST_EVENTS a file that gets a line for every signal,
job_completed after DJQUEUE_TEST_SLOW seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time

import django
from django.conf import settings
from django.core.management import execute_from_command_line

EVENTS = ["queued", "started", "completed", "failed", "retrying", "dead_letter", "cancelled"]


def write_events(path: str) -> None:
    from djqueue import signals

    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def receiver(event: str):
        def receive(id, attempt, **kwargs):  # noqa: A002
            if "DJQUEUE_TEST_SLOW" in os.environ and event == "completed":
                time.sleep(float(os.environ["DJQUEUE_TEST_SLOW"]))
            os.write(file, f"{event} {id} {attempt} {os.getpid()}\n".encode())

        return receive

    for event in EVENTS:
        getattr(signals, f"job_{event}").connect(receiver(event), weak=False)


if __name__ == "__main__":
    alias, name, *arguments = sys.argv[1:]
    settings.DJQUEUE = {"DATABASE": alias, "SHUTDOWN_GRACE": 20} | json.loads(
        os.environ.get("DJQUEUE_TEST_OPTIONS", "{}")
    )
    settings.DATABASES[alias]["NAME"] = name
    settings.USE_TZ = "DJQUEUE_TEST_WITHOUT_TZ" not in os.environ
    if "DJQUEUE_TEST_WITHOUT_TASKS" in os.environ:
        settings.INSTALLED_APPS.remove("tests.app")
    else:
        settings.INSTALLED_APPS += ["tests.worker", *os.environ.get("DJQUEUE_TEST_APP", "").split()]
    settings.DEBUG = "DJQUEUE_TEST_DEBUG" in os.environ
    django.setup()
    if "DJQUEUE_TEST_IMPORT_WITHIN" in os.environ:
        from djqueue.worker.supervisor import supervisor

        supervisor.IMPORT_WITHIN = float(os.environ["DJQUEUE_TEST_IMPORT_WITHIN"])
    if "DJQUEUE_TEST_EVENTS" in os.environ:
        write_events(os.environ["DJQUEUE_TEST_EVENTS"])
    if "DJQUEUE_TEST_REMIND_AFTER" in os.environ:
        from djqueue.management.commands import runworker

        runworker.REMIND_AFTER = float(os.environ["DJQUEUE_TEST_REMIND_AFTER"])
    execute_from_command_line(["manage.py", "runworker", *arguments])
