"""Each code of `explain`, provoked by what really causes it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone

import djqueue
from djqueue import testing
from djqueue.models import DeadJob, Job, QueueState, Worker
from djqueue.operations.explain import Code
from tests.app.tasks import add, log_in, steady
from tests.conftest import PLAIN
from tests.factories import DoneJobFactory, JobFactory, WorkerFactory, ago
from tests.fill import fill
from tests.sql.test_plans import explain as explain_plan
from tests.tools import claim_one, eventually, live, rows, statements_sent
from tests.worker import tasks

pytestmark = pytest.mark.databases(*PLAIN)
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "why_is_my_job_not_running.md"


def explained(job: object, code: Code, *parts: str) -> str:
    found = djqueue.explain(job)
    assert found.code == code, found
    for part in parts:
        assert part in found.text, found.text
    return found.text


def alive() -> Worker:
    """Wait for the row of the worker that the test runs."""
    return eventually(lambda: rows(Worker).filter(stopped_at=None).first())


def test_waiting_counts_the_jobs_ahead_and_the_threads(database):
    WorkerFactory(queues=["default"], threads=3)
    WorkerFactory(threads=4)
    for key in ("draining", "quiet"):
        WorkerFactory(**{key: True})
    [first, second, third] = (add.enqueue(n) for n in range(3))
    add.using(queue="other").enqueue(1)
    urgent = add.using(priority=1).enqueue(1)
    explained(urgent, Code.WAITING, "no job is ahead of it", "2 worker processes with 7 threads")
    explained(first, Code.WAITING, "1 job is ahead of it")
    explained(third, Code.WAITING, "3 jobs are ahead of it in the queue “default”")
    djqueue.cancel(second)
    explained(third, Code.WAITING, "2 jobs are ahead")


def test_jobs_ahead_are_counted_up_to_a_limit(database, monkeypatch):
    monkeypatch.setattr("djqueue.operations.situation.MOST_COUNTED", 3)
    monkeypatch.setattr("djqueue.operations.explain.numbers.MOST_COUNTED", 3)
    WorkerFactory()
    handles = [add.enqueue(n) for n in range(6)]
    explained(handles[3], Code.WAITING, "3 jobs are ahead of it")
    explained(handles[4], Code.WAITING, "more than 3 jobs are ahead of it")
    explained(handles[5], Code.WAITING, "more than 3 jobs are ahead of it")


def test_jobs_of_one_moment_are_ahead_by_their_ids(database):
    WorkerFactory()
    at = ago(5)
    made = sorted((JobFactory(enqueued_at=at, run_at=at) for _ in range(4)), key=lambda job: job.pk)
    for place, job in enumerate(made):
        explained(job.pk, Code.WAITING, f"{place or 'no'} job")


def test_paused(database):
    handle = add.enqueue(1)
    add.enqueue(2)
    djqueue.Queue("default").pause()
    rows(QueueState).update(paused_at=ago(245))
    text = explained(handle, Code.PAUSED, "The queue “default” has been paused since", "its 2 pending jobs")
    assert re.search(r"\(4 min \d+ s ago\)", text)
    djqueue.Queue("default").resume()
    explained(handle, Code.NO_WORKER)


def test_paused_by_hand_has_no_time(database):
    handle = add.enqueue(1)
    rows(QueueState).create(queue="default", paused=True)
    explained(handle, Code.PAUSED, "is paused. Resume it to run its 1 pending job.")


def test_no_worker_is_alive(database):
    handle = add.using(queue="my mail's".replace(" ", "-")).enqueue(1)
    text = explained(handle, Code.NO_WORKER, "No worker is alive")
    assert text.endswith("Start one: python manage.py runworker")


def test_no_worker_consumes_the_queue(database):
    handle = add.using(queue="it's").enqueue(1)
    WorkerFactory(name="w1", queues=["a", "b"])
    WorkerFactory(name="w2", queues={"queues": [], "exclude": ["it's"]})
    WorkerFactory(name="w3", queues=False)
    WorkerFactory(name="w4", quiet=True)
    WorkerFactory(name="w5", heartbeat_at=ago(60))
    WorkerFactory(name="w6", stopped_at=ago(1))
    text = explained(handle, Code.NO_WORKER, "w1 is alive and claims from a, b", "w2", "all except it's", "w4 is quiet")
    assert "w5 is lost" in text
    assert "w6" not in text
    assert text.endswith("""--queue 'it'"'"'s'""")


def test_a_running_worker_of_another_queue_is_named(database):
    handle = add.enqueue(1)
    with testing.worker(queues=["other"]):
        explained(handle, Code.NO_WORKER, f"{alive().identity} is alive and claims from other")


def test_scheduled(database):
    handle = add.using(delay=7200).enqueue(1)
    explained(handle, Code.SCHEDULED, "The job is scheduled for", "reschedule it")
    djqueue.Queue("default").pause()  # nothing else matters before it is due
    explained(handle, Code.SCHEDULED, "(in ")


def test_snoozed_after_a_failure_is_scheduled(database):
    handle = steady.enqueue()
    claim_one().nack("boom", delay=0)
    claim_one().snooze(60)
    explained(handle, Code.SCHEDULED)


def test_a_due_job_that_no_worker_makes_pending(database):
    handle = add.using(delay=60).enqueue(1)
    rows(Job).update(run_at=ago(30))
    explained(handle, Code.NO_WORKER)
    WorkerFactory()
    explained(handle, Code.SCHEDULED, "has been due since", "--no-maintenance")


def test_retry_names_the_error_and_the_attempts_left(database):
    handle = steady.enqueue()
    claim_one().nack("the server said\nno")
    text = explained(handle, Code.RETRY, "Attempt 1 of 3 failed at", ": the server said.", "2 attempts are left")
    assert "no\n" not in text
    rows(Job).update(attempts=2)
    explained(handle, Code.RETRY, "it is the last one")


def test_errors_are_masked_and_cut(database):
    secret = "sesame-open-1234"
    handle = log_in.enqueue("ada", secret)
    with testing.worker():
        eventually(lambda: live(handle.id).errors)
        eventually(lambda: live(handle.id).status == "scheduled")
    rows(Job).update(last_error=f"{secret} {'x' * 500}", run_at=timezone.now() + timedelta(hours=1))
    text = explained(handle, Code.RETRY, "********")
    assert secret not in text
    assert len(text) < 400


def test_unknown_task(database):
    handle = djqueue.enqueue("tests.app.tasks.ad", args=[1])
    with testing.worker():
        eventually(lambda: live(handle.id).unknown_since)
        alive()
        text = explained(handle, Code.UNKNOWN_TASK, "have no task named “tests.app.tasks.ad”", "UNKNOWN_TASK_GRACE")
        assert "tests.app.tasks.add" in text
    rows(Job).update(task=add.name)
    WorkerFactory()
    explained(handle, Code.UNKNOWN_TASK, "is registered in this process: restart the workers")


def test_concurrency(database, configure):
    configure(QUEUES={"default": {"concurrency": 1}})
    with testing.worker(threads=4):
        running = tasks.wait_for_cancel.enqueue(None)
        eventually(lambda: live(running.id).started)
        alive()
        handle = add.enqueue(1)
        explained(handle, Code.CONCURRENCY, "“default” is used up", "1 worker process may hold 1 of its jobs each")
        djqueue.cancel(running)
        assert handle.wait(20).completed
    explained(handle, Code.DONE)


def test_concurrency_is_not_the_reason_while_one_worker_has_room(database, configure):
    configure(QUEUES={"default": {"concurrency": 2}})
    full, free = WorkerFactory(), WorkerFactory()
    for worker in (full, full, free):
        JobFactory(claimed=True, worker=worker.identity)
    handle = add.enqueue(1)
    explained(handle, Code.WAITING)
    JobFactory(claimed=True, worker=free.identity)
    explained(handle, Code.CONCURRENCY, "2 worker processes may hold 2")


def test_claimed_by_a_worker_that_runs_it(database):
    handle = tasks.wait_for_cancel.enqueue(None)
    with testing.worker():
        eventually(lambda: live(handle.id).started)
        worker = alive()
        rows(Job).update(progress={"done": 3, "total": 10, "message": "half"})
        text = explained(handle, Code.CLAIMED, f"{worker.identity} runs attempt 1 of 3 since", "3 of 10, half")
        assert "unless the worker renews it" in text
        assert "cancel" not in text
        djqueue.cancel(handle)
        assert handle.wait(20).completed


def test_claimed_and_not_started(database):
    handle = add.enqueue(1)
    claim_one()
    rows(Job).update(started=False, cancel_requested=True)
    explained(handle, Code.CLAIMED, "has not started it", "A cancel was requested", "Its lease expires at")


@pytest.mark.parametrize(
    ("worker", "lease", "part"),
    [
        ({"heartbeat_at": ago(60)}, -20, "The worker is lost (its last heartbeat was at"),
        ({"stopped_at": ago(5)}, -20, "The worker has stopped: the job is taken back when its lease expires at"),
        ({}, 20, "Its lease expired at"),
    ],
)
def test_claimed_by_a_worker_that_is_gone(database, worker, lease, part):
    row = WorkerFactory(**worker)
    job = JobFactory(claimed=True, worker=row.identity, lease_expires_at=ago(lease))
    explained(job.pk, Code.CLAIMED, part)
    if lease > 0:
        assert djqueue.maintenance.reap() == 1
        explained(job.pk, Code.WAITING)


def test_done_dead_and_cancelled(database):
    done, dead, cancelled = (add.using(queue=name).enqueue(1) for name in ("done", "dead", "cancelled"))
    claim_one("done").ack()
    claim_one("dead").dead_letter("boom.")
    djqueue.cancel(cancelled)
    explained(done, Code.DONE, "The job was done at", "in attempt 1 of 3, after")
    explained(dead, Code.DEAD, "after 1 of 3 attempts: boom. Remove the cause, then requeue it; it is kept until")
    explained(cancelled, Code.CANCELLED, "was cancelled at", "enqueue it again")
    djqueue.requeue(dead)
    explained(dead, Code.NO_WORKER)


def test_not_found(database, configure):
    configure(KEEP_DONE=0, KEEP_DEAD=None)
    handle = add.enqueue(1)
    claim_one().ack()
    parts = ("kept for no time (KEEP_DONE)", "for ever (KEEP_DEAD)")
    explained(handle.id, Code.NOT_FOUND, str(handle.id), *parts)
    explained(uuid4(), Code.NOT_FOUND)
    explained("x" * 1000, Code.NOT_FOUND, "xxx…")
    explained(None, Code.NOT_FOUND)


def test_the_first_reason_in_the_order_of_the_codes_is_given(database, configure):
    """Each reason is removed in turn, and the next one shows."""
    configure(QUEUES={"default": {"concurrency": 1}})
    job = JobFactory(unknown_since=ago(5), status="scheduled", run_at=ago(-30))
    rows(QueueState).create(queue="default", paused=True)
    found = [djqueue.explain(job.pk).code]
    djqueue.Queue("default").resume()
    found.append(djqueue.explain(job.pk).code)
    worker = WorkerFactory()
    JobFactory(claimed=True, worker=worker.identity)
    found.append(djqueue.explain(job.pk).code)
    rows(Job).filter(pk=job.pk).update(unknown_since=None)
    found.append(djqueue.explain(job.pk).code)
    rows(Job).filter(pk=job.pk).update(status="pending")
    found.append(djqueue.explain(job.pk).code)
    rows(Job).exclude(pk=job.pk).delete()
    found.append(djqueue.explain(job.pk).code)
    assert found == ["paused", "no_worker", "unknown_task", "scheduled", "concurrency", "waiting"]


def test_the_number_of_statements_is_bounded(database, configure):
    configure(QUEUES={"default": {"concurrency": 1}})
    for number in range(20):
        worker = WorkerFactory()
        JobFactory(claimed=True, worker=worker.identity)
        last = add.enqueue(number)
    for job, code, most in (
        (last, Code.CONCURRENCY, 5),
        (uuid4(), Code.NOT_FOUND, 4),
        (DoneJobFactory().pk, "done", 2),
    ):
        with statements_sent() as sent:
            assert djqueue.explain(job).code == code
        assert len(sent) <= most, sent


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh statistics", "stale statistics"])
def test_each_statement_is_cheap_beside_many_jobs(database, configure, fresh):
    configure(QUEUES={"default": {"concurrency": 100}})
    fill("djqueue_job", 200_000, status="'pending'")
    fill("djqueue_deadjob", 1000, failed_at="now()")
    if fresh:
        with connections[database].cursor() as cursor:
            cursor.execute("VACUUM ANALYZE djqueue_job")
    WorkerFactory()
    first, last = add.using(priority=1).enqueue(1), add.enqueue(1)
    for job, part, pages in ((first, "no job is ahead", 60), (last, "more than 10,000 jobs", 12_000)):
        with statements_sent() as sent:
            explained(job, Code.WAITING, part)
        for sql in sent:
            touched, plan = explain_plan(sql.replace("%", "%%"), [])
            assert touched < pages, plan


def test_every_code_is_described_in_the_order_of_the_checks():
    page = PAGE.read_text().partition("## estimate")[0]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [*Code]


def test_codes_are_those_of_the_contract():
    assert {*Code} == {
        *("paused", "scheduled", "retry", "no_worker", "unknown_task", "limit", "limit_held", "waiting"),
        *("concurrency", "claimed", "done", "dead", "cancelled", "not_found"),
    }


def test_a_dead_job_is_kept_for_ever(database, configure):
    configure(KEEP_DEAD=None)
    job = add.enqueue(1)
    claim_one().dead_letter("boom")
    explained(job, Code.DEAD, "it is kept until it is deleted")
    assert rows(DeadJob).exists()
