"""`manage.py runworker` on a test database: `python -m tests.worker.main ALIAS NAME [arguments …]`.

DJQUEUE_TEST_OPTIONS is more of DJQUEUE, as JSON; DJQUEUE_TEST_EVENTS a file that gets a line for every signal,
job_completed when the file DJQUEUE_TEST_GATE exists; DJQUEUE_TEST_CONSTANTS other values for constants of djqueue, as
JSON: {"djqueue.worker.process.budget.STUCK_AFTER": 600}; DJQUEUE_TEST_IMPORT a module that changes the worker.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module

import django
from django.conf import settings
from django.core.management import execute_from_command_line

EVENTS = ["queued", "started", "completed", "failed", "retrying", "dead_letter", "cancelled"]


def write_events(path: str) -> None:
    from djqueue import signals

    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def receiver(event: str):
        def receive(id, attempt, **kwargs):  # noqa: A002
            if "DJQUEUE_TEST_GATE" in os.environ and event == "completed":
                while not os.path.exists(os.environ["DJQUEUE_TEST_GATE"]):
                    time.sleep(0.05)
            os.write(file, f"{event} {id} {attempt} {os.getpid()}\n".encode())

        return receive

    for event in EVENTS:
        getattr(signals, f"job_{event}").connect(receiver(event), weak=False)


def set_constants(values: dict[str, float]) -> None:
    for path, value in values.items():
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path
        setattr(import_module(module), name, value)


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
    set_constants(json.loads(os.environ.get("DJQUEUE_TEST_CONSTANTS", "{}")))
    if "DJQUEUE_TEST_IMPORT" in os.environ:
        import_module(os.environ["DJQUEUE_TEST_IMPORT"])
    if "DJQUEUE_TEST_EVENTS" in os.environ:
        write_events(os.environ["DJQUEUE_TEST_EVENTS"])
    if "DJQUEUE_TEST_REMIND_AFTER" in os.environ:
        from djqueue.management.commands import runworker

        runworker.REMIND_AFTER = float(os.environ["DJQUEUE_TEST_REMIND_AFTER"])
    execute_from_command_line(["manage.py", "runworker", *arguments])
