"""What needs attention: each finding provoked by the rows or sessions that cause it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connections, transaction

import djqueue
from djqueue.conf import config
from djqueue.lifecycle import unknown_tasks
from djqueue.models import Schedule
from djqueue.operations import attention, summary, transactions
from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject
from djqueue.operations.wording import duration
from djqueue.schedules.rows import disable_with
from djqueue.sql import statements
from tests.conftest import PLAIN
from tests.factories import (
    JobFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
)
from tests.tools import database_now, rows, statements_sent


def found(**options: object) -> dict[str, Finding]:
    listed = attention.findings(**options)
    assert len({finding.code for finding in listed}) == len(listed), listed
    return {finding.code: finding for finding in listed}


def minute(ago: int):
    return database_now().replace(second=0, microsecond=0) - timedelta(minutes=ago)


@contextmanager
def open_transaction(sql: str) -> Iterator[int]:
    """Hold a transaction open on a connection of another thread; yield its pid."""
    ready, finish, pids = threading.Event(), threading.Event(), []

    def hold() -> None:
        connection = connections[config().database]
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET application_name = 'nightly report'")
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                pids.append(connection.connection.info.backend_pid)
                cursor.execute(sql)
                ready.set()
                finish.wait(60)
                transaction.set_rollback(True, using=connection.alias)
        finally:
            ready.set()
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert ready.wait(30)
        yield pids[0]
    finally:
        finish.set()
        thread.join(30)


@pytest.mark.databases(*PLAIN)
def test_nothing_needs_attention_while_all_is_well(database):
    JobFactory()
    JobFactory(scheduled=True)
    JobFactory(claimed=True)
    JobFactory(queue="later", scheduled=True)  # nobody consumes it, and nothing is due
    WorkerFactory(queues=["default"], loops={"claimer": 1.5, "sweep_done": 70})
    WorkerFactory(stopped_at=ago(60), heartbeat_at=ago(60))
    WorkerFactory(heartbeat_at=ago(4000))  # lost long ago
    ScheduleFactory()
    ScheduleFactory(enabled=False)  # by an operator
    QueueStateFactory(queue="empty", paused=True, paused_at=ago(60))
    ThroughputFactory(minute=minute(3), done=0, dead=4, failed=4)
    assert attention.findings() == []


@pytest.mark.databases(*PLAIN)
def test_one_finding_says_that_no_worker_is_running(database):
    JobFactory(queue="a")
    JobFactory(queue="b", status="scheduled", run_at=ago(5))
    WorkerFactory(queues=[], draining=True)
    WorkerFactory(queues=False, name="quarantine")
    finding = found()[Code.NO_WORKER]
    assert finding.text == "No worker is running. Due: 2 jobs of 2 queues (a, b)."
    assert finding.remedy == "Start a worker with manage.py runworker."
    assert (finding.severity, finding.subject, finding.key) == (Severity.ERROR, Subject.QUEUE, "")


@pytest.mark.databases(*PLAIN)
def test_a_queue_without_consumer_is_found_with_the_command(database):
    JobFactory(queue="mail")
    JobFactory(queue="default")
    WorkerFactory(queues=["default"])
    finding = found()[Code.NO_WORKER]
    assert finding.text == "No live worker consumes the queue 'mail', which has 1 due job."
    assert "manage.py runworker --queue mail" in finding.remedy
    assert finding.key == "mail"
    WorkerFactory(queues=["mail"], quiet=True, name="w7")
    assert found()[Code.NO_WORKER].remedy.startswith("Resume the quiet worker w7")
    djqueue.Queue("mail").pause()
    assert set(found()) == {Code.PAUSED_QUEUE}


@pytest.mark.databases(*PLAIN)
def test_the_oldest_job_is_compared_with_the_usual_wait_of_its_queue(database):
    WorkerFactory(queues=[])
    JobFactory(queue="new", enqueued_at=ago(90), run_at=ago(90))
    JobFactory(queue="slow", enqueued_at=ago(90), run_at=ago(90))
    ThroughputFactory(queue="slow", minute=minute(500), wait_bucket=10, done=100, wait_sum=700)  # 5 to 10 s
    JobFactory(queue="quick", enqueued_at=ago(90), run_at=ago(90))
    ThroughputFactory(queue="quick", minute=minute(500), wait_bucket=1, done=100, wait_sum=0.7)
    ThroughputFactory(queue="quick", minute=minute(5), wait_bucket=13, done=49, wait_sum=5000)  # the incident itself
    JobFactory(queue="fresh", enqueued_at=ago(30), run_at=ago(30))
    listed = attention.findings()
    assert {(finding.code, finding.key) for finding in listed} == {
        (Code.OLDEST_TOO_OLD, "new"),
        (Code.OLDEST_TOO_OLD, "quick"),
    }
    assert listed[0].severity == Severity.WARNING
    assert "has been waiting for 1 min" in listed[0].text
    djqueue.Queue("new").pause()
    djqueue.Queue("quick").pause()
    assert {finding.code for finding in attention.findings()} == {Code.PAUSED_QUEUE}


@pytest.mark.databases(*PLAIN)
def test_unknown_tasks_are_found_with_the_time_that_is_left(database):
    WorkerFactory(queues=[])
    for _ in range(2):
        djqueue.enqueue("gone.task", queue="mail")
    assert unknown_tasks.put_back("mail", ["gone.task"]) == 2
    finding = found()[Code.UNKNOWN_TASKS]
    assert finding.text.startswith("The task gone.task of 2 jobs (queue mail) is not registered in the workers; ")
    assert "becomes dead in" in finding.text
    assert (finding.severity, finding.subject, finding.key) == (Severity.ERROR, Subject.TASK, "gone.task")


@pytest.mark.databases(*PLAIN)
def test_deaths_are_compared_with_those_of_the_last_day(database):
    WorkerFactory(queues=[])
    for queue in ("rising", "usual"):
        ThroughputFactory(queue=queue, minute=minute(4), done=0, failed=9, dead=6)
    for quarter in range(95):
        ThroughputFactory(queue="usual", minute=minute(16 + 15 * quarter), done=0, failed=2, dead=2)
    ThroughputFactory(queue="rising", minute=minute(700), done=0, failed=95, dead=95)
    finding = found()[Code.DEATHS_RISING]
    assert finding.text == (
        "6 jobs of the queue 'rising' became dead in the last 15 minutes; the mean of the last day is 1.0."
    )
    assert (finding.subject, finding.key) == (Subject.QUEUE, "rising")


@pytest.mark.databases(*PLAIN)
def test_a_schedule_that_was_disabled_by_a_problem_is_found(database):
    row = ScheduleFactory(name="nightly")
    disable_with(row, "no task named 'gone.task' is registered", ago(0))
    row.save(using=database)
    finding = found()[Code.SCHEDULE_DISABLED]
    assert "'nightly' was disabled because of a problem: no task named 'gone.task' is registered." in finding.text
    assert (finding.subject, finding.key) == (Subject.SCHEDULE, "nightly")
    rows(Schedule).update(enabled=True, problem="")
    assert attention.findings() == []


@pytest.mark.databases(*PLAIN)
def test_a_lost_worker_is_found_with_the_jobs_that_it_holds(database):
    lost = WorkerFactory(heartbeat_at=ago(100), host="h1", pid=77)
    WorkerFactory()
    JobFactory(claimed=True, worker=lost.identity)
    JobFactory(claimed=True, worker=lost.identity)
    JobFactory(claimed=True)
    finding = found()[Code.WORKER_LOST]
    assert "(host h1, process 77) has sent no heartbeat for 1 min " in finding.text
    assert "holds 2 jobs until their leases expire" in finding.text
    assert (finding.severity, finding.key) == (Severity.WARNING, lost.identity)


@pytest.mark.databases(*PLAIN)
def test_a_stalled_loop_of_a_live_worker_is_found(database):
    stalled = WorkerFactory(name="w1", loops={"claimer": 2.0, "reaping": 400.0})
    WorkerFactory(heartbeat_at=ago(20000), loops={"claimer": 900.0})
    finding = found()[Code.LOOP_STALLED]
    assert finding.text.startswith("Loops of the worker w1 have had no good turn for long: reaping (6 min")
    assert (finding.severity, finding.key) == (Severity.ERROR, stalled.identity)


@pytest.mark.databases(*PLAIN)
def test_a_paused_queue_with_waiting_jobs_is_found(database):
    JobFactory(queue="mail", scheduled=True)
    QueueStateFactory(queue="mail", paused=True, paused_at=ago(7500))
    finding = found()[Code.PAUSED_QUEUE]
    assert finding.text == "The queue 'mail' has been paused for 2 h 5 min with 1 waiting job."
    assert (finding.severity, finding.key) == (Severity.WARNING, "mail")


@pytest.mark.databases("postgresql")
def test_a_transaction_that_holds_back_cleaning_is_found_with_its_pid(database):
    def holding() -> list[Finding]:
        return list(transactions.findings(statements(), seconds=0))

    with open_transaction("CREATE TEMPORARY TABLE report (id int)") as pid:
        [finding] = holding()
        assert finding.code == Code.LONG_TRANSACTION
        assert f"The session {pid} (user " in finding.text
        assert "application nightly report; idle in transaction; query CREATE TEMPORARY TABLE report" in finding.text
        assert f"SELECT pg_terminate_backend({pid})" in finding.remedy
        assert (finding.subject, finding.key) == (Subject.DATABASE, database)
        assert attention.findings() == []  # it is not older than five minutes
    with open_transaction("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1"):
        assert len(holding()) == 1
    with open_transaction("SELECT * FROM djqueue_worker"):  # READ COMMITTED: its snapshot ended with the statement
        assert holding() == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0.0 s"), (4.21, "4.2 s"), (59.6, "1 min"), (100, "1 min 40 s"), (3605, "1 h"), (90061, "1 d 1 h")],
)
def test_durations_have_at_most_two_units(seconds, words):
    assert duration(seconds) == words


@pytest.mark.databases(*PLAIN)
def test_findings_are_ordered_by_severity_and_bounded(database):
    for number in range(30):
        JobFactory(queue=f"q{number}", task=f"gone.{number}", status="scheduled", run_at=ago(1), unknown_since=ago(9))
        JobFactory(queue=f"late{number}", enqueued_at=ago(500), run_at=ago(500))
        WorkerFactory(queues=[f"late{number}"], heartbeat_at=ago(100))
        WorkerFactory(queues=[f"late{number}"], loops={"claimer": 500.0})
        QueueStateFactory(queue=f"paused{number}", paused=True)
        JobFactory(queue=f"paused{number}")
        disable_with(row := ScheduleFactory(), "problem", ago(0))
        row.save(using=database)
        ThroughputFactory(queue=f"late{number}", minute=minute(1), done=0, failed=9, dead=9)
    queues, workers = summary.queues(), summary.all_workers()
    with statements_sent() as sent:
        listed = attention.findings(queues, workers)
    assert len(sent) <= 10
    assert len(listed) <= 9 * attention.MOST
    assert {finding.code for finding in listed} == {*Code} - {Code.LONG_TRANSACTION}
    severities = [finding.severity for finding in listed]
    assert severities == sorted(severities, key=[Severity.ERROR, Severity.WARNING].index)
    with statements_sent() as sent:
        attention.findings()
    assert len(sent) <= 17


@pytest.mark.databases(*PLAIN)
def test_only_a_few_statements_are_sent_while_all_is_well(database):
    JobFactory()
    WorkerFactory(queues=[])
    queues, workers = summary.queues(), summary.all_workers()
    with statements_sent() as sent:
        attention.findings(queues, workers)
    assert len(sent) <= 5
