"""Limit keys in summaries, explanations, estimates, search and findings."""

from __future__ import annotations

import re

import pytest
from django.db import connections

import djqueue
from djqueue import testing
from djqueue.core.limits import Numbers, read_rate
from djqueue.models import LimitKey
from djqueue.operations import attention, limits, search, summary
from djqueue.operations.estimate import Estimate
from djqueue.operations.explain import Code
from tests.conftest import PLAIN
from tests.factories import JobFactory, LimitKeyFactory, QueueStateFactory, WorkerFactory, ago
from tests.fill import fill
from tests.lifecycle.limited import call_api, export, plain, sync
from tests.sql.test_plans import explain as explain_plan
from tests.tools import live, rows, statements_sent

pytestmark = pytest.mark.databases(*PLAIN)


def explained(job: object, code: Code, *parts: str) -> str:
    found = djqueue.explain(job)
    assert found.code == code, found
    for part in parts:
        assert part in found.text, found.text
    return found.text


# explain


def test_limit_names_the_key_the_holders_and_the_place_in_line(database):
    WorkerFactory()
    jobs = [sync.enqueue(7) for _ in range(5)]
    djqueue.maintenance.admit()
    text = explained(
        jobs[3], Code.LIMIT, "The limit key “tenant:7” allows 2 at once: 2 jobs hold a permit", "1 job is ahead of it"
    )
    assert all(str(job.id) in text for job in jobs[:2])
    assert "raise the concurrency" in text
    explained(jobs[2], Code.LIMIT, "no job is ahead of it")
    explained(jobs[0], Code.WAITING)
    djqueue.limits.set("tenant:7", concurrency=1, rate="100/m")
    explained(jobs[2], Code.LIMIT, "allows 1 at once, 100/m (burst 1): 2 jobs hold")


def test_limit_names_few_of_many_holders(database):
    WorkerFactory()
    djqueue.limits.set("tenant:7", concurrency=5)
    jobs = [sync.enqueue(7) for _ in range(6)]
    djqueue.maintenance.admit()
    text = explained(jobs[5], Code.LIMIT, "5 jobs hold a permit", " and others)")
    assert sum(str(job.id) in text for job in jobs) == 3


def test_limit_with_a_free_permit(database):
    WorkerFactory()
    first, second = sync.enqueue(7), sync.enqueue(7)
    explained(first, Code.LIMIT, "no job holds a permit", "a worker admits the job within seconds")
    explained(second, Code.LIMIT, "A permit is free for the next job in line.")


def test_limit_by_a_rate_that_is_used_up(database):
    WorkerFactory()
    jobs = [call_api.enqueue("x") for _ in range(4)]
    djqueue.maintenance.admit()
    rows(LimitKey).update(spent_until=ago(-60.2))
    text = explained(jobs[3], Code.LIMIT, "allows 10/s (burst 3)", "3 jobs hold a permit")
    assert re.search(r"The rate allows the next job in (59|60)", text), text


def test_limit_by_a_burst_that_is_not_claimed_yet(database):
    WorkerFactory()
    jobs = [call_api.enqueue("x") for _ in range(4)]
    djqueue.maintenance.admit()
    rows(LimitKey).update(spent_until=None)
    explained(jobs[3], Code.LIMIT, "admitted when one of them is claimed")
    assert limits.summary("api:x").rate_left == 0
    djqueue.Queue("default").claim(3)
    rows(LimitKey).update(spent_until=None)
    assert limits.summary("api:x").rate_left == 3


def test_the_line_is_counted_up_to_a_limit(database, monkeypatch):
    monkeypatch.setattr("djqueue.operations.explain.limited.MOST_COUNTED", 2)
    monkeypatch.setattr("djqueue.operations.explain.numbers.MOST_COUNTED", 2)
    WorkerFactory()
    jobs = [sync.enqueue(7) for _ in range(5)]
    explained(jobs[2], Code.LIMIT, "2 jobs are ahead of it")
    explained(jobs[4], Code.LIMIT, "more than 2 jobs are ahead of it")


def test_the_line_is_in_the_order_of_admission_without_paused_queues(database):
    WorkerFactory()
    job = sync.enqueue(7)
    sync.using(priority=1).enqueue(7)
    sync.using(priority=1, queue="paused").enqueue(7)
    sync.using(priority=1).enqueue(8)
    plain.enqueue()
    explained(job, Code.LIMIT, "2 jobs are ahead of it")
    djqueue.Queue("paused").pause()
    explained(job, Code.LIMIT, "1 job is ahead of it")


def test_limit_held(database):
    WorkerFactory()
    job = sync.enqueue(7)
    djqueue.limits.hold("tenant:7", 600)
    text = explained(job, Code.LIMIT_HELD, "“tenant:7” is held until", "no job is ahead of it", "Release it")
    assert re.search(r"\((in 9 min|in 10 min)", text), text
    rows(LimitKey).update(held_until=ago(1))
    explained(job, Code.LIMIT)


def test_limit_of_a_task_that_this_process_does_not_know(database):
    WorkerFactory()
    job = JobFactory(task="gone.task", status="blocked", limit_key="k")
    explained(job.pk, Code.LIMIT, "no task “gone.task” is registered in this process", "no job holds a permit")
    djqueue.limits.set("k", concurrency=1, rate="1/s")
    explained(job.pk, Code.LIMIT, "allows 1 at once")


def test_a_blocked_job_without_key_is_explained(database):
    WorkerFactory()
    explained(JobFactory(status="blocked").pk, Code.LIMIT, "has no limit key")


def test_a_paused_queue_and_a_missing_worker_come_first(database):
    job = sync.enqueue(7)
    explained(job, Code.NO_WORKER)
    djqueue.Queue("default").pause()
    explained(job, Code.PAUSED, "paused since", "waits for a permit of its limit key “tenant:7”")


def test_a_delayed_job_is_scheduled_first(database):
    explained(sync.using(delay=60).enqueue(7), Code.SCHEDULED)


def test_explain_sends_at_most_six_statements(database):
    WorkerFactory()
    QueueStateFactory(queue="default")
    jobs = [sync.enqueue(7) for _ in range(5)]
    djqueue.maintenance.admit()
    with statements_sent() as sent:
        explained(jobs[4], Code.LIMIT)
    assert len(sent) <= 6, sent


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh statistics", "stale statistics"])
def test_each_statement_is_cheap_beside_many_blocked_jobs(database, fresh):
    fill("djqueue_job", 200_000, status="'blocked'", limit_key="'tenant:7'")
    if fresh:
        with connections[database].cursor() as cursor:
            cursor.execute("VACUUM ANALYZE djqueue_job")
    WorkerFactory()
    LimitKeyFactory(key="tenant:7")
    first, last = sync.using(priority=1).enqueue(7), sync.enqueue(7)
    with statements_sent() as sent:
        explained(first, Code.LIMIT, "no job is ahead")
        assert len(limits.waiters("tenant:7", 20)) == 20
        assert limits.holders("tenant:7", 20) == []
        assert limits.summary("tenant:7", 1000).blocked == 1001
        assert limits.is_in_use("tenant:7")
        limits.keys_without_row()
    for sql in sent:
        touched, plan = explain_plan(sql.replace("%", "%%"), [])
        assert touched < 2500, plan
    with statements_sent() as sent:
        explained(last, Code.LIMIT, "more than 10,000 jobs are ahead")
    for sql in sent:
        touched, plan = explain_plan(sql.replace("%", "%%"), [])
        assert touched < 12_000, plan


@pytest.mark.databases("mysql", "sqlite")
def test_the_line_is_read_in_the_order_of_its_index(database):
    for _ in range(5):
        sync.enqueue(7)
    with statements_sent() as sent:
        limits.waiters("tenant:7", 20)
        limits.summary("tenant:7", 1000)
    for sql in sent[0], sent[-1]:
        with connections[database].cursor() as cursor:
            cursor.execute(("EXPLAIN QUERY PLAN " if database == "sqlite" else "EXPLAIN ") + sql.replace("%", "%%"))
            plan = str(cursor.fetchall())
        assert "djqueue_job_blocked" in plan
        assert "TEMP B-TREE" not in plan, plan
        assert "filesort" not in plan, plan


# estimate


def test_a_blocked_job_has_no_estimate(database):
    WorkerFactory()
    assert djqueue.estimate(sync.enqueue(7)) == Estimate()
    later = djqueue.estimate(sync.using(delay=60).enqueue(7))
    assert (later.ahead, later.p50, later.p90) == (0, None, None)


# Summaries


def test_the_summary_of_a_key(database):
    jobs = [sync.enqueue(7) for _ in range(4)]
    djqueue.maintenance.admit()
    djqueue.Queue("default").claim(1)
    found = limits.summary("tenant:7")
    assert (found.admitted, found.claimed, found.blocked) == (2, 1, 2)
    assert (found.task, found.numbers, found.is_set) == (sync.name, Numbers(2), False)
    assert limits.summary("tenant:7", 1).blocked == 2
    for job in jobs:
        djqueue.cancel(job)
    djqueue.limits.hold("tenant:7", 60)
    found = limits.summary("tenant:7")
    assert (found.blocked, found.claimed, found.task) == (0, 1, sync.name)
    assert found.held_until is not None


def test_the_numbers_are_those_of_the_next_job(database):
    sync.using(priority=5).enqueue(7)
    export.using(priority=1).enqueue(7)
    assert limits.summary("tenant:7").task == export.name
    assert limits.summary("tenant:7").numbers == Numbers(1)


def test_summaries_need_two_statements(database):
    for tenant in range(60):
        sync.enqueue(tenant)
    with statements_sent() as sent:
        found = limits.summaries([f"tenant:{tenant}" for tenant in range(59, -1, -1)], 1000)
    assert len(sent) == 2
    assert [one.key for one in found] == [f"tenant:{tenant}" for tenant in range(59, -1, -1)]
    assert {one.blocked for one in found} == {1}
    assert limits.summaries([]) == []


def test_keys_in_use(database):
    sync.enqueue(3)
    sync.enqueue(1)
    LimitKeyFactory(key="tenant:2")
    LimitKeyFactory(key="tenant:3")
    assert limits.first_keys(10) == ["tenant:1", "tenant:2", "tenant:3"]
    assert limits.first_keys(2) == ["tenant:1", "tenant:2"]
    assert limits.keys_without_row() == ["tenant:1"]
    assert [limits.is_in_use(f"tenant:{number}") for number in range(1, 5)] == [True, True, True, False]


@pytest.mark.parametrize("rate", ["1/s", "100/m", "10/s", "1/h", "5/d", "7/h", "90/m", "1000000/s", "1000000/d"])
@pytest.mark.databases("sqlite")
def test_a_rate_is_written_as_it_was_given(database, rate):
    assert limits.rate_text(read_rate(rate)) == rate


@pytest.mark.parametrize("rate", ["0.5/s", "1.5/m", "0.1/d", "3.7/h", "0.333/d", "2.71/s"])
@pytest.mark.databases("sqlite")
def test_the_text_of_any_rate_can_be_read_again(database, rate):
    assert read_rate(limits.rate_text(read_rate(rate))) == pytest.approx(read_rate(rate))


# Search, counts and findings


def test_blocked_jobs_are_found_by_their_state(database):
    job = sync.enqueue(7)
    plain.enqueue()
    assert [one.pk for one in search.newest(search.Filters(states=["blocked"]), 10)] == [job.id]


def test_blocked_jobs_are_counted_as_waiting(database):
    sync.enqueue(7)
    [queue] = summary.queues()
    assert (queue.blocked, queue.waiting) == (1, 1)
    assert summary.as_json()["queues"][0]["blocked"] == 1


def test_blocked_jobs_need_a_worker(database):
    sync.enqueue(7)
    [found] = attention.findings()
    assert (found.code, "1 job of 1 queue" in found.text) == ("no_worker", True)


# The test kit


def test_time_passes_for_rates_and_holds(database):
    djqueue.limits.set("api:x", rate="1/h", burst=3)
    for _ in range(5):
        call_api.enqueue("x")
    assert len(testing.run_pending()) == 3
    assert len(testing.advance(3600)) == 1
    assert len(testing.advance(3600)) == 1
    djqueue.limits.clear("api:x")
    held = call_api.enqueue("x")
    djqueue.limits.hold("api:x", 36_000)
    assert testing.advance(35_000) == []
    assert live(held.id).status == "blocked"
    assert [record.id for record in testing.advance(1100)] == [held.id]
