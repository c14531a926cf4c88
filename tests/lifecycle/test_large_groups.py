"""Groups of jobs that together exceed what a database takes in one statement, 16 MB on MariaDB."""

from __future__ import annotations

import time

import pytest
from django.db import OperationalError, connections

import djqueue
from djqueue.core.records import Renew, Requeue
from djqueue.lifecycle import cancel, crash, lease, requeue, settle
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.sql import connection
from djqueue.states import CancelOutcome, Outcome
from djqueue.worker.options import Options
from djqueue.worker.single_process import SingleProcess
from tests.app.tasks import add, later, repeat
from tests.factories import ago
from tests.tools import in_thread, rows

pytestmark = pytest.mark.databases("mysql")

MANY = 30
LARGE = "x" * 1_000_000


@pytest.fixture
def large_jobs(database):
    return [handle.id for handle in add.enqueue_many([djqueue.call(LARGE) for _ in range(MANY)])]


@pytest.fixture
def claimed(large_jobs):
    jobs = djqueue.Queue("default").claim(MANY, lease=30)
    assert [job.id for job in jobs] == large_jobs
    return jobs


def test_large_jobs_are_renewed_together(claimed):
    answers = lease.renew_many([Renew(id=job.id, token=job.token, lease=1000.0) for job in claimed])
    assert all(answer is not None and answer.expires_at is not None for answer in answers.values())
    assert all((expiry - claimed[0].claimed_at).total_seconds() > 990 for expiry in expiries())


def expiries():
    return rows(Job).values_list("lease_expires_at", flat=True)


def test_large_jobs_are_settled_together(claimed):
    settled = settle.settle_many([settle.ack(job, "small") for job in claimed])
    assert {item.outcome for item in settled} == {Outcome.DONE}
    assert rows(DoneJob).count() == MANY
    assert rows(DoneJob).get(pk=claimed[7].id).args == [LARGE]


def test_large_jobs_fail_die_and_are_requeued_together(claimed):
    settled = settle.settle_many([settle.nack(job, "boom", delay=0) for job in claimed])
    assert {item.outcome for item in settled} == {Outcome.RETRYING}
    again = djqueue.Queue("default").claim(MANY)
    settled = settle.settle_many([settle.dead_letter(job, "never") for job in again])
    assert {item.outcome for item in settled} == {Outcome.DEAD}
    assert [error["message"] for error in rows(DeadJob).first().errors] == ["boom", "never"]
    requeued = requeue.requeue_many([Requeue(id=job.id) for job in claimed])
    assert len(requeued) == rows(Job).count() == MANY
    assert not rows(DeadJob).exists()
    assert requeued[0].args == [LARGE]


def test_large_results_are_settled_together(database):
    add.enqueue_many([djqueue.call(n) for n in range(MANY)])
    jobs = djqueue.Queue("default").claim(MANY)
    settled = settle.settle_many([settle.ack(job, LARGE) for job in jobs])
    assert {item.outcome for item in settled} == {Outcome.DONE}
    assert rows(DoneJob).filter(result=LARGE).count() == MANY


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def acknowledging(database: str) -> str:
    """The method that acknowledges a group of jobs."""
    return "ack" if database.startswith("postgresql") else "settle"


def test_a_group_of_large_results_is_sent_in_parts(database, monkeypatch):
    add.enqueue_many([djqueue.call(n) for n in range(5)])
    items = [settle.ack(job, LARGE) for job in djqueue.Queue("default").claim(5)]
    sizes = []
    kind = type(djqueue.sql.statements())
    whole = getattr(kind, acknowledging(database))

    def spy(self, group, **options):
        sizes.append(len(group))
        return whole(self, group, **options)

    monkeypatch.setattr(kind, acknowledging(database), spy)
    settle.settle_many(items)
    assert sizes == [1] * 5  # two exceed the limit, by their quotes


def test_large_progress_is_written_together(database):
    add.enqueue_many([djqueue.call(n) for n in range(MANY)])
    jobs = djqueue.Queue("default").claim(MANY)
    lease.renew_many([Renew(id=job.id, token=job.token, progress=f'"{LARGE}"') for job in jobs])
    assert rows(Job).filter(progress=LARGE).count() == MANY


def test_large_jobs_are_reaped_together(claimed):
    rows(Job).update(lease_expires_at=ago(1))
    assert djqueue.maintenance.reap() == MANY
    assert rows(Job).filter(status="pending").count() == MANY


def test_large_jobs_are_cancelled_together(large_jobs):
    cancelled = cancel.cancel_many(large_jobs)
    assert {done.outcome for done in cancelled} == {CancelOutcome.REMOVED}
    assert rows(DoneJob).filter(status="cancelled").count() == MANY


def test_large_jobs_are_recovered_together(claimed):
    left = [crash.Left(job.id, job.token, blamed=bool(n % 2)) for n, job in enumerate(claimed)]
    assert crash.recover(left, "worker process exited", crashed=True) == []
    assert rows(Job).exclude(status="claimed").count() == MANY


def test_large_jobs_are_rescheduled_together(large_jobs):
    assert len(requeue.reschedule_many(large_jobs, priority=5)) == MANY
    assert rows(Job).filter(priority=5, status="pending").count() == MANY


@pytest.mark.databases("sqlite", "mysql")
def test_a_settlement_neither_reads_nor_sends_arguments(database):
    add.using(headers={"h": "SECRET HEADER"}).enqueue("SECRET", b="SECRET")
    [job] = djqueue.Queue("default").claim(1)
    connection = connections[database]
    read = []

    def watch(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        read.append((sql, params))
        return result

    with connection.execute_wrapper(watch):
        job.renew(60)
        job.nack("boom", delay=0)
        [job] = djqueue.Queue("default").claim(1, lease=5)
        del read[-2:]  # a claim does read them
        job.ack()
    assert not [sent for sent in read if "SECRET" in str(sent)]
    selects = [sql for sql, _ in read if sql.lstrip().startswith("SELECT")]
    assert len(selects) == 3
    assert not [sql for sql in selects if "args" in sql]


def test_a_worker_finishes_more_than_a_packet_of_arguments(database):
    many = 1500  # 60 MB
    later.enqueue_many([djqueue.call("x" * 40_000) for _ in range(many)])
    assert SingleProcess(Options(burst=True, threads=2)).run() == 0
    assert rows(DoneJob).filter(status="done", attempts=1).count() == many


def test_a_group_that_is_too_large_after_all_is_split(database, monkeypatch):
    """Where max_allowed_packet is smaller than we count on, the server closes the connection."""
    add.enqueue_many([djqueue.call(n) for n in range(40)])
    items = [settle.ack(job, LARGE) for job in djqueue.Queue("default").claim(40)]
    monkeypatch.setattr(connection, "CHARACTERS_AT_ONCE", 100_000_000)
    settled = settle.settle_many(items)
    assert {item.outcome for item in settled} == {Outcome.DONE}
    assert rows(DoneJob).count() == 40


def test_a_result_that_no_statement_can_hold_is_replaced_by_a_marker(configure):
    configure(MAX_PAYLOAD_SIZE=100_000_000)
    handles = add.enqueue_many([djqueue.call(n) for n in range(5)])
    items = [settle.ack(job, LARGE * 20 if n == 2 else n) for n, job in enumerate(djqueue.Queue("default").claim(5))]
    assert {answer.outcome for answer in settle.settle_many(items)} == {Outcome.DONE}
    assert handles[2].job().result.problem == "refused by the database"
    assert handles[3].job().result == 3


def test_a_worker_does_not_repeat_a_job_whose_result_no_statement_can_hold(configure):
    configure(MAX_PAYLOAD_SIZE=100_000_000)
    handle = repeat.using(retry=djqueue.Fixed(0)).enqueue("x", 20_000_000)
    assert SingleProcess(Options(burst=True)).run() == 0
    assert (handle.status(), handle.job().attempts) == ("done", 1)
    assert handle.job().result.problem == "refused by the database"


def test_a_lost_connection_is_not_taken_for_a_group_that_is_too_large(database, monkeypatch):
    add.enqueue_many([djqueue.call(n) for n in range(500)])
    items = [settle.ack(job, "result") for job in djqueue.Queue("default").claim(500)]
    kind = type(djqueue.sql.statements())
    whole = kind.settle
    tries = []

    def lose(self, group, **options):
        tries.append(len(group))
        [[own]] = self.fetch("SELECT CONNECTION_ID()")
        in_thread(lambda: djqueue.sql.statements().execute(f"KILL {own}"))
        return whole(self, group, **options)

    monkeypatch.setattr(kind, "settle", lose)
    began = time.monotonic()
    with pytest.raises(OperationalError):
        settle.settle_many(items)
    assert tries == [500]
    assert time.monotonic() - began < 5
    monkeypatch.undo()
    assert {item.outcome for item in settle.settle_many(items)} == {Outcome.DONE}


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_jobs_settled_before_an_outage_are_reported_and_the_rest_can_be_retried(database, monkeypatch):
    add.enqueue_many([djqueue.call(n) for n in range(4)])
    items = [settle.ack(job, LARGE) for job in djqueue.Queue("default").claim(4)]
    kind = type(djqueue.sql.statements())
    whole = getattr(kind, acknowledging(database))

    def settle_once(self, group, **options):
        if rows(DoneJob).exists():
            raise OperationalError("the database is gone")
        return whole(self, group, **options)

    monkeypatch.setattr(kind, acknowledging(database), settle_once)
    answers = settle.settle_many(items)
    assert [answer.outcome for answer in answers] == [Outcome.DONE, *[Outcome.LOCKED] * 3]
    monkeypatch.undo()
    assert {answer.outcome for answer in settle.settle_many(items[1:])} == {Outcome.DONE}
