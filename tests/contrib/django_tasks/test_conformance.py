"""Jobs of the backend have what other jobs have: locks, limits, retention and the number of statements."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone

import djqueue
from djqueue import maintenance, testing
from djqueue.contrib.django_tasks.compat import TaskResultDoesNotExist, task_backends
from djqueue.models import DeadJob, DoneJob, Job
from tests.contrib.django_tasks import tasks
from tests.contrib.django_tasks.tools import BACKEND, finish, work
from tests.tools import WITH_ROW_LOCKS, claim_one, in_thread, rows, statements_sent
from tests.worker.process.test_worker import PLAIN

plain_databases = pytest.mark.databases(*PLAIN)
on_postgresql = pytest.mark.databases("postgresql")


def statuses(results):
    for result in results:
        result.refresh()
    return [str(result.status) for result in results]


@pytest.mark.databases(*[alias for alias in PLAIN if alias in WITH_ROW_LOCKS])
def test_a_locked_row_is_skipped(database):
    locked = tasks.noop.enqueue()
    with transaction.atomic(using=database):
        assert len(rows(Job).select_for_update()) == 1
        free = in_thread(tasks.noop.enqueue)
        assert [str(record.id) for record in in_thread(testing.run_pending)] == [free.id]
    assert statuses([locked, free]) == ["READY", "SUCCESSFUL"]
    assert statuses([finish(locked)]) == ["SUCCESSFUL"]


@plain_databases
def test_max_jobs(database):
    results = [tasks.noop.enqueue() for _ in range(5)]
    work("--max-jobs", "2")
    assert sorted(statuses(results)) == ["READY"] * 3 + ["SUCCESSFUL"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-jobs", "0"], "--max-jobs must be 1 or more, got 0"),
        (["--max-jobs", "-1"], "--max-jobs must be 1 or more, got -1"),
        (["--threads", "0"], "--threads must be 1 or more, got 0"),
        (["--name", "A" * 300], "--name must be at most"),
        (["--queue", "queue-1", "--exclude", "queue-1"], "must not name the same queue, got queue-1"),
        (["--interval", "1"], "unrecognized arguments: --interval"),
    ],
)
@on_postgresql
def test_invalid_arguments_start_nothing(database, arguments, message):
    result = tasks.noop.enqueue()
    with pytest.raises(CommandError, match=message):
        work(*arguments)
    assert statuses([result]) == ["READY"]


@plain_databases
def test_retention_concerns_finished_jobs_by_their_age(database, configure):
    configure(KEEP_DONE=timedelta(days=2), KEEP_DEAD=timedelta(days=4))
    old = timezone.now() - timedelta(days=3)
    done, young, failed = tasks.noop.enqueue(), tasks.noop.enqueue(), tasks.value_error.enqueue()
    work()
    running, ready = tasks.noop.enqueue(), tasks.noop.using(queue_name="queue-1").enqueue()
    claim_one()
    rows(Job).update(enqueued_at=old, run_at=old)
    rows(DoneJob).filter(pk=done.id).update(completed_at=old)
    rows(DeadJob).filter(pk=failed.id).update(failed_at=old)
    assert (maintenance.sweep_done(), maintenance.sweep_dead()) == (1, 0)
    with pytest.raises(TaskResultDoesNotExist):
        done.refresh()
    assert statuses([young, failed, running, ready]) == ["SUCCESSFUL", "FAILED", "RUNNING", "READY"]
    rows(DeadJob).update(failed_at=old - timedelta(days=2))
    assert (maintenance.sweep_done(), maintenance.sweep_dead()) == (0, 1)
    with pytest.raises(TaskResultDoesNotExist):
        failed.refresh()
    assert statuses([young, running, ready]) == ["SUCCESSFUL", "RUNNING", "READY"]


@plain_databases
def test_a_second_attempt_has_its_own_entry_and_number(database):
    result = tasks.check_context.using(retry=djqueue.Fixed(0, jitter=0)).enqueue(2)
    first = claim_one()
    first.nack(ValueError("the first attempt"))
    finish(result)
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", [2], 2)
    assert result.worker_ids[0] == first.worker
    assert [error.exception_class for error in result.errors] == [ValueError]
    assert result.started_at == first.claimed_at < result.last_attempted_at


@on_postgresql
def test_a_job_that_is_claimed_but_not_started(database):
    """Its worker gives it back: it is ready again, and the attempt does not count."""
    result = tasks.noop.enqueue()
    claim_one().release()
    assert statuses([result]) == ["READY"]
    assert (result.attempts, result.worker_ids, result.errors) == (0, [], [])
    assert finish(result).attempts == 1


@on_postgresql
def test_two_aliases_with_different_options(database):
    def alias(attempts):
        return {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"max_attempts": attempts, "retry": djqueue.Fixed(0)}}

    with override_settings(TASKS={"default": alias(2), "once": alias(1), "patient": alias(4)}):
        results = [tasks.value_error.using(backend=name).enqueue() for name in ("default", "once", "patient")]
        testing.run_pending(raise_errors=False)
        assert statuses(results) == ["FAILED"] * 3
        assert [result.attempts for result in results] == [2, 1, 4]
        assert [result.backend for result in results] == ["default", "once", "patient"]
        assert task_backends["patient"].get_result(results[0].id) == results[0]  # ids are of all aliases


@plain_databases
def test_a_transaction_that_is_rolled_back_leaves_nothing(database):
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=database):
        result = tasks.note.enqueue("never")
        assert rows(Job).count() == 1
        _ = 1 / 0
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()
    work()
    assert tasks.ran == []


@plain_databases
def test_a_job_costs_no_more_statements_than_one_of_another_task(database):
    def cost(task):
        with statements_sent() as enqueued:
            task.enqueue()
        with connections[database].execute_wrapper(count), transaction.atomic(using=database):
            sent.clear()
            testing.run_pending()
            return len(enqueued), [sql.split()[0] for sql in sent]

    def count(execute, sql, params, many, context):
        sent.append(sql)
        return execute(sql, params, many, context)

    sent: list[str] = []
    tasks.of_djqueue.enqueue()
    tasks.noop.enqueue()
    testing.run_pending()
    plain = cost(tasks.of_djqueue)
    assert cost(tasks.noop) == plain
