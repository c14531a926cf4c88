"""The backend in the tests of a project: inside the transaction of a TestCase, and with eager jobs."""

from __future__ import annotations

import unittest

import django
import pytest
from django.core.management import call_command
from django.test import TestCase

import djqueue
from djqueue import testing
from djqueue.contrib.django_tasks import DjqueueBackend
from djqueue.contrib.django_tasks.compat import task_enqueued, task_finished, task_started
from djqueue.models import Job
from tests.contrib.django_tasks import tasks
from tests.contrib.django_tasks.tools import received
from tests.tools import rows
from tests.worker.process.test_worker import PLAIN

LOGGER = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
pytestmark = pytest.mark.databases(*PLAIN)


def burst(**options):
    call_command("runworker", burst=True, verbosity=0, **options)


def pending():
    testing.run_pending(raise_errors=False)


class InATestCase(TestCase):
    """Run by the test below, on every database; pytest does not collect it."""

    __test__ = False

    def test_signals_of_a_burst(self):
        self.check_signals(burst)

    def test_signals_of_run_pending(self):
        self.check_signals(pending)

    def check_signals(self, run):
        with received(task_started) as started, received(task_finished) as finished:
            results = [tasks.meaning_of_life.enqueue(), tasks.meaning_of_life_async.enqueue()]
            results += [tasks.value_error.enqueue(), tasks.value_error_async.enqueue()]
            run()
        assert [(sender, found.id, found.status) for sender, found in started] == [
            (DjqueueBackend, result.id, "RUNNING") for result in results
        ]
        for result in results:
            result.refresh()
        assert [result.status for result in results] == ["SUCCESSFUL"] * 2 + ["FAILED"] * 2
        assert finished == [(DjqueueBackend, result) for result in results]

    def test_the_log_has_the_error_of_the_task(self):
        with self.assertLogs(LOGGER, "INFO") as logged:
            result = tasks.value_error.enqueue()
            burst()
        assert [record.getMessage().split()[-1] for record in logged.records] == ["state=RUNNING", "state=FAILED"]
        assert all(result.id in line for line in logged.output)
        assert logged.records[-1].exc_info[0] is ValueError

    def test_max_jobs(self):
        results = [tasks.noop.enqueue() for _ in range(5)]
        burst(max_jobs=2)
        for result in results:
            result.refresh()
        assert [result.status for result in results] == ["SUCCESSFUL"] * 2 + ["READY"] * 3
        burst(max_jobs=3)
        assert rows(Job).count() == 0

    def test_eager(self):
        check_eager()

    def test_attempts(self):
        result = tasks.third_time.enqueue()
        burst()
        result.refresh()
        assert (result.return_value, result.attempts, len(result.worker_ids)) == (3, 3, 3)


def check_eager():
    order = []
    with received(task_enqueued) as enqueued, received(task_started) as started, received(task_finished) as finished:
        receivers = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
        notes = [lambda name=name, **kwargs: order.append(name) for name in receivers]
        for signal, note in zip(receivers.values(), notes, strict=True):
            signal.connect(note)
        try:
            with testing.eager():
                result = tasks.meaning_of_life.enqueue()
        finally:
            for signal, note in zip(receivers.values(), notes, strict=True):
                signal.disconnect(note)
    assert order == ["enqueued", "started", "finished"]
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 42, 1)
    assert [found.id for _, found in enqueued + started] == [result.id] * 2
    assert finished == [(DjqueueBackend, result)]


def test_in_a_test_case(database):
    class Case(InATestCase):
        databases = {database}

    outcome = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(outcome)
    assert [text for _, text in outcome.failures + outcome.errors] == []
    assert outcome.testsRun == 6


def test_eager_jobs(database):
    check_eager()


def test_the_setting_eager(configure):
    configure(EAGER=True)
    result = tasks.meaning_of_life.enqueue()
    assert (result.status, result.return_value) == ("SUCCESSFUL", 42)
    with received(task_finished) as finished, pytest.raises(ValueError, match="This task failed"):
        tasks.value_error.enqueue()
    assert [found.status for _, found in finished] == ["FAILED"]
    assert djqueue.get_job(finished[0][1].id).status == "dead"
