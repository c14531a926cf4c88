from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import djqueue
from djqueue.models import Job
from tests.app.tasks import add
from tests.lifecycle.limited import plain, sync
from tests.tools import claim_one, in_threads, rows


def reindex(version: int, delay: float = 60, max_wait: float | None = None, task=add, **options):
    options |= {} if max_wait is None else {"max_wait": max_wait}
    return task.using(dedup_key="doc:7", delay=delay, on_duplicate="replace", **options).enqueue(version)


def test_the_newest_arguments_and_the_later_start_win(database):
    first = reindex(1)
    before = first.job()
    second = reindex(2, delay=90, priority=5, headers={"by": "me"})
    job = first.job()
    assert (second.id, second.created) == (first.id, False)
    assert (job.args, job.priority, job.headers) == ([2], 5, {"by": "me"})
    assert timedelta(seconds=29) < job.run_at - before.run_at < timedelta(seconds=40)
    assert job.enqueued_at == before.enqueued_at
    assert rows(Job).count() == 1


def test_max_wait_bounds_the_delay_from_the_first_call(database):
    first = reindex(1, delay=50, max_wait=60)
    assert reindex(2, delay=90, max_wait=60).job().run_at - first.job().enqueued_at == timedelta(seconds=60)


def test_max_wait_bounds_the_first_call_too(database):
    job = reindex(1, delay=100, max_wait=60).job()
    assert job.run_at - job.enqueued_at <= timedelta(seconds=61)


def test_a_job_whose_max_wait_is_over_is_due_at_once(database):
    first = reindex(1, delay=50)
    rows(Job).update(enqueued_at=first.job().enqueued_at - timedelta(seconds=61))
    assert reindex(2, max_wait=60).status() == "pending"
    assert claim_one().args == [2]


def test_a_call_without_delay_makes_it_due(database):
    first = reindex(1)
    reindex(2, delay=0)
    assert (first.job().args, first.status()) == ([2], "pending")


def test_a_claimed_job_is_not_changed(database):
    first = reindex(1, delay=0, dedup_until="done")
    claim_one()
    second = reindex(2, dedup_until="done")
    assert (second.id, first.job().args, first.status()) == (first.id, [1], "claimed")


def test_after_the_claim_a_new_job_is_made(database):
    reindex(1, delay=0)
    claim_one()
    assert reindex(2).created


def test_a_job_of_another_task_is_not_changed(database):
    first = reindex(1)
    plain.using(dedup_key="doc:7", on_duplicate="replace").enqueue()
    assert (first.job().args, first.job().task) == ([1], add.name)


def test_without_on_duplicate_the_waiting_job_stays_as_it_is(database):
    first = reindex(1)
    add.using(dedup_key="doc:7", on_duplicate="keep").enqueue(2)
    assert first.job().args == [1]


def test_a_batch_keeps_the_last_of_equal_keys(database):
    calls = [add.call(n).using(dedup_key="k", on_duplicate="replace") for n in range(3)]
    handles = add.enqueue_many(calls)
    assert len({handle.id for handle in handles}) == 1
    assert handles[0].job().args == [2]
    add.enqueue_many([add.call(9).using(dedup_key="k", on_duplicate="replace")])
    assert handles[0].job().args == [9]


def test_a_permit_is_kept_unless_the_key_changes(database):
    def enqueue(tenant):
        return sync.using(dedup_key="k", on_duplicate="replace").enqueue(tenant)

    job = enqueue(1)
    assert djqueue.maintenance.admit() == 1
    enqueue(1)
    assert job.status() == "pending"
    enqueue(2)
    assert (job.status(), job.job().limit_key) == ("blocked", "tenant:2")


def test_calls_at_once_leave_one_job_with_the_arguments_of_one_of_them(database):
    in_threads(8, reindex)
    [job] = rows(Job)
    assert job.args[0] in range(8)


@pytest.mark.parametrize(
    "options",
    [
        {"on_duplicate": "forget"},
        {"on_duplicate": "replace"},
        {"on_duplicate": "replace", "dedup_key": "k", "id": "0197a1c0-0000-7000-8000-000000000000"},
        {"max_wait": 5, "dedup_key": "k"},
        {"max_wait": 0, "dedup_key": "k", "on_duplicate": "replace"},
        {"max_wait": 5, "dedup_key": "k", "on_duplicate": "replace", "run_at": datetime(2100, 1, 1, tzinfo=UTC)},
        {"max_wait": "soon", "dedup_key": "k", "on_duplicate": "replace"},
    ],
)
def test_bad_options_are_refused(database, options):
    with pytest.raises(djqueue.InvalidOption):
        add.using(**options).enqueue(1)
    assert not rows(Job).exists()
