"""What the log says: one line for each event, at a level that fits, and never the arguments of a job."""

from __future__ import annotations

import logging

import pytest
from django.core import mail
from django.db import InterfaceError, OperationalError, connections
from django.utils.log import AdminEmailHandler

import djqueue
from djqueue import call
from djqueue.core.log import SafeLogger
from djqueue.lifecycle import unknown_tasks
from djqueue.models import Job
from djqueue.worker.options import Options
from djqueue.worker.outages import Outages
from tests.app.tasks import log_in
from tests.factories import JobFactory
from tests.tools import eventually, live, rows
from tests.worker import tasks
from tests.worker.process.test_worker import PLAIN, burst, reap_now, running

pytestmark = pytest.mark.databases(*PLAIN)


@pytest.fixture
def log(caplog):
    """Return a function for the records of an event, whose first word or words it takes."""
    caplog.set_level(logging.DEBUG, logger="djqueue")

    def records(event: str) -> list[logging.LogRecord]:
        return [one for one in caplog.records if one.name == "djqueue" and one.getMessage().startswith(f"{event} ")]

    return records


def test_a_failure_that_is_retried_is_a_warning_and_a_death_is_an_error(database, log):
    handle = tasks.fail_until.using(max_attempts=2, queue="q").enqueue(9)
    burst()
    details = f"job={handle.id} task=tests.worker.tasks.fail_until queue=q"
    [failed], [dead] = log("failed"), log("dead")
    assert failed.levelno == logging.WARNING
    assert failed.getMessage().startswith(f"failed {details} attempt=1/2 seconds=")
    assert failed.getMessage().endswith(" retry_in=0.0s exception=builtins.ValueError error='not yet 1'")
    assert dead.levelno == logging.ERROR
    assert dead.getMessage().startswith(f"dead {details} attempt=2/2 seconds=")
    assert dead.getMessage().endswith(" exception=builtins.ValueError error='not yet 2'")


DEATHS = {
    "an exception": (lambda: tasks.refuse.enqueue("argument-x"), LookupError, "refuse"),
    "of a coroutine": (lambda: tasks.arefuse.enqueue("argument-x"), LookupError, "arefuse"),
    "a permanent failure": (lambda: tasks.raise_it.enqueue("permanent"), djqueue.PermanentFailure, "raise_it"),
    "a retry beyond the attempts": (lambda: tasks.raise_it.enqueue("retry"), djqueue.Retry, "raise_it"),
    "an exit": (lambda: tasks.raise_it.enqueue("exit"), SystemExit, "raise_it"),
    "a timeout": (lambda: tasks.spin.using(timeout=0.1).enqueue(), djqueue.TaskTimeout, "spin"),
    "of a coroutine in time": (lambda: tasks.asleep.using(timeout=0.5).enqueue(60), djqueue.TaskTimeout, "asleep"),
    "a snooze into the past": (lambda: tasks.raise_it.enqueue("snooze into the past"), djqueue.InvalidOption, ""),
    "arguments that do not fit": (
        lambda: JobFactory(task="tests.worker.tasks.double", args=[], max_attempts=1),
        TypeError,
        "",
    ),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_death_is_logged_with_the_exception_itself(database, configure, log, caplog, death):
    """So that a handler can report it with its traceback."""
    configure(MAX_ATTEMPTS=1)
    enqueue, kind, function = DEATHS[death]
    enqueue()
    burst()
    [dead] = log("dead")
    assert dead.levelno == logging.ERROR
    assert isinstance(dead.exc_info[1], kind)
    assert dead.exc_info[2] is not None
    assert f"exception={kind.__module__}.{kind.__name__} error=" in dead.getMessage()
    shown = logging.Formatter().format(dead)
    assert "Traceback (most recent call last)" in shown
    assert function in shown
    assert "argument-x" not in caplog.text


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"
)  # of Django's mail settings
def test_django_mails_a_death_to_the_admins_with_its_traceback(database, log, settings):
    settings.ADMINS = [("Ada", "ada@example.com")]
    handler = AdminEmailHandler()
    handler.setLevel(logging.ERROR)
    plain = logging.getLogger("djqueue")
    plain.addHandler(handler)
    try:
        handle = tasks.refuse.using(max_attempts=2).enqueue("argument-x")
        burst()
    finally:
        plain.removeHandler(handler)
    [message] = mail.outbox
    assert f"ERROR: dead job={handle.id}" in message.subject
    assert "in refuse" in message.body
    assert "LookupError" in message.body
    assert "argument-x" not in message.subject + message.body


def test_a_sensitive_argument_is_in_no_line_and_in_no_record(database, log, caplog):
    """The exception itself is left out, because its message and the variables of its frames show it."""
    log_in.using(max_attempts=2, retry=djqueue.Fixed(0)).enqueue("ada", "hunter2")
    burst()
    [failed], [dead] = log("failed"), log("dead")
    assert (failed.exc_info, dead.exc_info) == (None, None)
    assert dead.getMessage().endswith("exception=builtins.ValueError error=\"ada may not come in with '********'\"")
    shown = logging.Formatter().format(dead)
    assert "in log_in" in shown, "the stored traceback"
    assert "hunter2" not in caplog.text + shown


def test_start_and_end_of_a_job(database, log):
    handle = tasks.double.enqueue(1)
    snoozed = tasks.raise_it.enqueue("snooze")
    cancelled = tasks.raise_it.enqueue("cancelled")
    burst()
    details = f"job={handle.id} task=tests.worker.tasks.double queue=default attempt=1/3"
    [started] = [one for one in log("started") if str(handle.id) in one.getMessage()]
    [done] = log("done")
    assert (started.levelno, started.getMessage()) == (logging.DEBUG, f"started {details}")
    assert done.levelno == logging.INFO
    assert done.getMessage().startswith(f"done {details} seconds=0.")
    for event, other in (("snoozed", snoozed), ("cancelled", cancelled)):
        [record] = log(event)
        assert record.levelno == logging.INFO
        assert f"job={other.id}" in record.getMessage()


def test_jobs_that_are_reaped(database, log):
    retried, dies, returned = (
        JobFactory(expired=True),
        JobFactory(expired=True, max_attempts=1),
        JobFactory(expired=True, started=False),
    )
    assert djqueue.maintenance.reap() == 3
    for event, row, level in (
        ("failed", retried, logging.WARNING),
        ("dead", dies, logging.ERROR),
        ("released", returned, logging.INFO),
    ):
        [record] = log(event)
        assert record.levelno == level
        assert f"job={row.pk} task={row.task} queue=default attempt=1/" in record.getMessage()
        assert "error='lease expired'" in record.getMessage()


def test_a_lost_lease(database, log):
    with running(Options(threads=1)):
        handle = tasks.work_until_lost.enqueue()
        eventually(lambda: live(handle.id).started)
        eventually(lambda: reap_now(handle.id))
        assert handle.wait(60).completed
    [lost], [discarded] = log(f"lease lost job={handle.id}"), log(f"lease lost, outcome discarded job={handle.id}")
    assert (lost.levelno, discarded.levelno) == (logging.WARNING, logging.WARNING)
    assert "exception=djqueue.exceptions.LeaseLost" in discarded.getMessage()


def test_an_unknown_task_is_reported_once_with_likely_causes(database, log, monkeypatch):
    monkeypatch.setattr(unknown_tasks, "_warned", {})
    for _ in range(30):
        djqueue.enqueue("tests.worker.tasks.duoble")
    djqueue.enqueue("shop.double")
    burst()
    found = {record.getMessage().split()[6]: record for record in log("no task registered under this name")}
    assert set(found) == {"task=tests.worker.tasks.duoble", "task=shop.double"}
    assert len(log("no task registered under this name")) == 2
    for record in found.values():
        assert record.levelno == logging.WARNING
        assert "similar=tests.worker.tasks.double," in record.getMessage()
        assert "tests.worker.tasks.sleep" not in record.getMessage()  # has but the module in common
        for cause in ("INSTALLED_APPS", "not imported", "renamed"):
            assert cause in record.getMessage()
    unknown_tasks._warned["shop.double"] -= 60  # a minute later
    rows(Job).update(status="pending")
    burst()
    assert len(log("no task registered under this name")) == 3


def test_an_unknown_task_whose_grace_is_over_is_an_error(database, configure, log):
    configure(UNKNOWN_TASK_GRACE=0)
    djqueue.enqueue("not.registered")
    burst()
    [dead] = log("dead")
    assert (dead.levelno, dead.exc_info) == (logging.ERROR, None)
    assert "error='no task registered: not.registered'" in dead.getMessage()


def test_a_suspect_of_a_crash(database, log):
    handle = tasks.double.enqueue(1)
    rows(Job).update(crashes=1)
    burst()
    [record] = log("quarantined, runs alone")
    assert record.levelno == logging.WARNING
    assert f"job={handle.id} task=tests.worker.tasks.double queue=default attempt=1/3 crashes=1" in record.getMessage()


def test_an_outage_of_the_database_is_one_line_and_its_end_another(database, log):
    outages = Outages(pytest.fail)
    for what in ("claiming", "claiming", "renewing 3 leases"):
        outages.failed(what, InterfaceError("connection refused\nFailing row contains (argument-x)"))
    with outages.watching("claiming"):
        pass  # it has sent nothing
    assert not log("database available again")
    with outages.watching("claiming"):
        connections[database].cursor().execute("SELECT 1")
    [begin], [end] = log("database unavailable, trying again until it responds"), log("database available again")
    assert (begin.levelno, end.levelno) == (logging.WARNING, logging.INFO)
    assert begin.getMessage().endswith("what='claiming' error=connection refused")
    with outages.watching("claiming"):
        connections[database].cursor().execute("SELECT 1")
    assert len(log("database available again")) == 1


def test_a_single_connection_that_breaks_is_no_outage(database, log):
    """As that of a thread which has slept through an outage."""
    outages = Outages(pytest.fail)
    for _ in range(2):
        outages.failed("claiming", InterfaceError("connection already closed"))
        with outages.watching("claiming"):
            connections[database].cursor().execute("SELECT 1")
    assert not log("database unavailable,")
    assert [record.levelno for record in log("claiming failed, trying again")] == [logging.INFO] * 2


def test_an_error_of_one_statement_is_no_outage(database, log):
    Outages(pytest.fail).failed("settling 3 jobs", OperationalError("database is locked"))
    [record] = log("settling 3 jobs failed, trying again")
    assert record.levelno == logging.WARNING


@pytest.fixture
def apart():
    """A logger of its own, with a handler that keeps the records."""
    found: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    plain = logging.getLogger("tests.apart")
    plain.propagate = False
    plain.addHandler(handler := Keep())
    yield SafeLogger(plain), found
    plain.removeHandler(handler)
    plain.filters.clear()


def test_an_exception_reaches_handlers_in_the_background_too(apart):
    safe, found = apart
    safe.write_in_background()
    error = ValueError("here")
    safe.failure("dead job=%s", 1, error=error, text="stored")
    assert safe.flush(10)
    [record] = found
    assert record.exc_info[1] is error
    assert (record.getMessage(), record.exc_text, record.filename) == ("dead job=1", "stored", "test_log.py")


def test_a_handler_that_raises_does_not_disturb_the_report_of_a_death(apart, capsys):
    safe, _ = apart
    safe.logger.handlers[0].emit = lambda record: 1 / 0
    safe.failure("dead", error=None, text="")
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("processes", ["0", "1"])
def test_verbosity_0_shows_failures_and_deaths_and_nothing_else(database, site, processes):
    handle = tasks.fail_until.using(max_attempts=2).enqueue(9)
    tasks.double.enqueue_many([call(n) for n in range(3)])
    worker = site.start("--burst", "-v", "0", "--processes", processes)
    assert worker.process.wait(60) == 0
    assert f"WARNING failed job={handle.id}" in worker.log()
    assert f"ERROR dead job={handle.id}" in worker.log()
    assert "ValueError: not yet 2" in worker.log(), "the traceback"
    assert "done job=" not in worker.log()
    assert "started job=" not in worker.log()


@pytest.mark.databases("postgresql")
def test_a_job_that_kills_its_processes(database, site):
    handle = tasks.always.using(max_attempts=2).enqueue("kill")
    worker = site.start("--threads", "1", "-v", "0", BACKOFF_BASE=0.1)
    handle.wait(60)
    details = f"job={handle.id} task=tests.worker.tasks.always queue=default attempt"
    reason = "error='worker process killed by signal 9'"
    worker.wait_for_log(f"ERROR dead {details}=2/2")
    lines = worker.log().splitlines()
    assert sum("ERROR worker process killed by signal 9 pid=" in line for line in lines) == 2
    assert sum("hint='out of memory, or killed by an operator'" in line for line in lines) == 2
    for begin in (f"WARNING failed {details}=1/2", f"ERROR dead {details}=2/2"):
        [line] = [line for line in lines if begin in line]
        assert line.endswith(reason)
    [line] = [line for line in lines if "WARNING quarantined, runs alone" in line]
    assert line.endswith(f"{details}=2/2 crashes=1")
