"""The command called by code that goes on afterwards, such as a test of a project."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from tests.tools import eventually, in_thread, live
from tests.worker import tasks
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(*arguments: str) -> None:
    call_command("runworker", "--processes", "0", *arguments)


def surroundings(alias: str) -> dict[str, object]:
    """What the command may have changed."""
    logger = logging.getLogger("djqueue")
    return {
        "signals": [signal.getsignal(number) for number in SIGNALS],
        "level": logger.level,
        "handlers": list(logger.handlers),
        "filters": list(logger.filters),
        "connection": connections[alias].connection,
        "settings": {name: repr(connections[name].settings_dict) for name in connections},
        "directory": os.getcwd(),
    }


def test_a_burst_returns_and_leaves_everything_as_it_was(database):
    handle = tasks.double.enqueue(4)
    before = surroundings(database)
    assert before["connection"] is not None
    assert run("--burst") is None
    assert handle.job().result == 8
    assert surroundings(database) == before
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("djqueue-claimer")])


def test_a_failure_is_a_command_error(database, caplog):
    """Also then, everything is left as it was."""
    handle = tasks.sleep.enqueue(5)
    before = surroundings(database)

    def stop_at_once() -> None:
        eventually(lambda: live(handle.id).started)
        os.kill(os.getpid(), signal.SIGTERM)
        eventually(lambda: "draining" in caplog.text)
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as beside:
        stopped = beside.submit(in_thread, stop_at_once)
        with pytest.raises(CommandError, match="The worker exited with code 1") as raised:
            run()
        stopped.result()
    assert raised.value.returncode == 1
    assert surroundings(database) == before
    assert (handle.status(), handle.job().attempts) == ("pending", 0)


def test_it_can_be_called_in_another_thread(database):
    handle = tasks.double.enqueue(4)
    in_thread(run, "--burst")
    assert handle.job().result == 8


def test_in_a_transaction_it_is_refused(database):
    """A worker has connections of its own, which do not see the jobs of an open transaction."""
    with transaction.atomic(using=database):
        handle = tasks.double.enqueue(4)
        before = surroundings(database)
        with pytest.raises(CommandError, match="runworker was called in a transaction on the database") as raised:
            run("--burst")
        assert raised.value.returncode == 1
        assert "TransactionTestCase" in str(raised.value)
        assert surroundings(database) == before
        assert handle.status() == "pending"
    run("--burst")
    assert handle.status() == "done"


PROJECT = {
    "settings.py": """
        SECRET_KEY = "x"
        USE_TZ = True
        INSTALLED_APPS = ["django.contrib.contenttypes", "djqueue", "shop"]
        DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
        DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
    """,
    "shop/__init__.py": "",
    "shop/tasks.py": """
        import djqueue

        @djqueue.task
        def double(n):
            return 2 * n

        @djqueue.task
        async def adouble(n):
            return 2 * n
    """,
    "shop/tests.py": """
        from django.core.management import CommandError, call_command
        from django.db import connection
        from django.test import TestCase, TransactionTestCase

        import djqueue
        from shop.tasks import adouble, double

        def burst(**options):
            return call_command("runworker", burst=True, processes=0, **options)

        class Committed(TransactionTestCase):
            def test_jobs_run(self):
                for _ in range(3):
                    handles = double.enqueue_many([djqueue.call(n) for n in range(50)])
                    handles += adouble.enqueue_many([djqueue.call(n) for n in range(50)])
                    before = connection.connection
                    self.assertIsNone(burst())
                    self.assertIs(connection.connection, before)
                    self.assertEqual([handle.job().result for handle in handles], [2 * n for n in range(50)] * 2)

            def test_processes_are_refused(self):
                with self.assertRaisesMessage(CommandError, "which is in memory. Use --processes 0."):
                    call_command("runworker", burst=True)

        class InATransaction(TestCase):
            def test_it_is_refused(self):
                handle = double.enqueue(1)
                with self.assertRaisesMessage(CommandError, "use TransactionTestCase"):
                    burst()
                self.assertEqual(handle.status(), "pending")
    """,
}


def test_in_the_tests_of_a_project_with_its_database_in_memory(tmp_path):
    """As `manage.py test` runs them in a new project."""
    for name, source in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in source.splitlines()))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "test"],
        cwd=tmp_path,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 3 tests" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
