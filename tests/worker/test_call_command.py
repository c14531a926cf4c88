"""The command called by code that goes on afterwards, such as a test of a project."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction

import djqueue
from djqueue.models import DoneJob, Job, Worker
from tests.tools import eventually, in_thread, live, rows
from tests.worker import tasks
from tests.worker.process.test_worker import PLAIN

pytestmark = pytest.mark.databases(*PLAIN)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Undo(Exception):
    """Rolls a transaction back."""


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


def test_in_a_transaction_it_runs_jobs_on_the_connection_of_the_caller(database):
    with suppress(Undo), transaction.atomic(using=database):
        done = [tasks.double.enqueue(4), tasks.adouble.using(queue="other").enqueue(5)]
        retried = tasks.fail_until.enqueue(3)
        refused = tasks.break_a_statement.using(max_attempts=1).enqueue()
        unknown = djqueue.enqueue("nobody.knows")
        before = surroundings(database)
        assert run("--burst") is None
        assert surroundings(database) == before
        assert [handle.job().result for handle in done] == [8, 10]
        assert (retried.status(), retried.job().attempts) == ("done", 3)
        assert (refused.status(), unknown.status()) == ("dead", "scheduled")
        with pytest.raises(CommandError, match="requires --burst"):
            run()
        raise Undo
    assert rows(Job).count() == rows(DoneJob).count() == rows(Worker).count() == 0


def test_in_a_transaction_it_consumes_the_given_queues(database):
    with transaction.atomic(using=database):
        here, elsewhere = tasks.double.using(queue="a").enqueue(1), tasks.double.using(queue="b").enqueue(1)
        run("--burst", "--queue", "a")
        assert (here.status(), elsewhere.status()) == ("done", "pending")
        run("--burst", "--exclude", "b")
        assert elsewhere.status() == "pending"
        run("--burst")
        assert elsewhere.status() == "done"


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
            def test_jobs_run(self):
                handles = [double.enqueue(1), adouble.enqueue(2)]
                self.assertIsNone(burst())
                self.assertEqual([handle.job().result for handle in handles], [2, 4])
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
