from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import transaction

import djqueue
from djqueue.lifecycle import limits as lifecycle_limits
from djqueue.lifecycle import unknown_tasks
from djqueue.lifecycle.crash import Left, recover
from djqueue.models import Job, LimitKey
from djqueue.sql import statements
from tests.app.tasks import add
from tests.lifecycle.limited import call_api, call_slow_api, export, plain, sync
from tests.tools import live, rows

admit = djqueue.maintenance.admit
queue = djqueue.Queue("default")


def statuses(*handles) -> list[str]:
    return [str(handle.status()) for handle in handles]


def three(tenant=1):
    return [sync.enqueue(tenant) for _ in range(3)]


# The life of a limited job


def test_a_new_job_is_blocked_until_it_is_admitted(database):
    job = sync.enqueue(7)
    assert job.job().limit_key == "tenant:7"
    assert statuses(job) == ["blocked"]
    assert queue.claim() == []
    assert admit() == 1
    assert statuses(job) == ["pending"]
    [claimed] = queue.claim()
    assert claimed.id == job.id


def test_no_more_jobs_than_permits_are_admitted(database):
    jobs = three()
    assert admit() == 2
    assert statuses(*jobs) == ["pending", "pending", "blocked"]
    assert admit() == 0
    queue.claim(5)
    assert admit() == 0
    assert statuses(*jobs) == ["claimed", "claimed", "blocked"]


@pytest.mark.parametrize(
    "end",
    [
        lambda job: job.ack(),
        lambda job: job.dead_letter("no"),
        lambda job: job.nack("failed", delay=60),
        lambda job: job.snooze(60),
    ],
)
def test_a_settled_job_hands_its_permit_on(database, end):
    jobs = three()
    admit()
    end(queue.claim(1)[0])
    assert statuses(*jobs[1:]) == ["pending", "pending"]


def test_a_permit_that_comes_back_admits_one_job(database):
    jobs = [sync.enqueue(1) for _ in range(5)]
    admit()
    [claimed] = queue.claim(1)
    claimed.ack()
    assert statuses(*jobs) == ["done", "pending", "pending", "blocked", "blocked"]


def test_a_released_job_waits_for_a_permit_again_in_its_place(database):
    jobs = three()
    admit()
    queue.claim(1)[0].release()
    assert statuses(*jobs) == ["pending", "pending", "blocked"]


def test_each_key_has_its_own_permits(database):
    jobs = [*three(1), *three(2)]
    assert admit() == 4
    assert statuses(*jobs) == ["pending", "pending", "blocked"] * 2


def test_the_best_jobs_are_admitted_first(database):
    third = sync.using(priority=30).enqueue(1)
    second = sync.using(priority=20).enqueue(1)
    first = sync.using(priority=10).enqueue(1)
    admit()
    assert statuses(first, second, third) == ["pending", "pending", "blocked"]


def test_a_better_job_overtakes_an_admitted_one_that_is_not_claimed(database):
    first, second = (sync.using(priority=50).enqueue(1) for _ in range(2))
    admit()
    [claimed] = queue.claim()
    urgent = sync.using(priority=1).enqueue(1)
    assert admit() == 1
    assert statuses(first, second, urgent) == ["claimed", "blocked", "pending"]
    another = sync.using(priority=2).enqueue(1)
    assert admit() == 0  # the one that holds the other permit is better, and the first is claimed
    claimed.ack()
    assert statuses(second, another) == ["blocked", "pending"]


def test_several_better_jobs_overtake_at_once(database):
    jobs = [sync.using(priority=50).enqueue(1) for _ in range(2)]
    admit()
    better = [sync.using(priority=n).enqueue(1) for n in (3, 2, 1)]
    assert admit() == 2
    assert statuses(*jobs, *better) == ["blocked", "blocked", "blocked", "pending", "pending"]


def test_a_delayed_job_is_blocked_when_it_is_due(database):
    three()
    admit()
    job = sync.using(delay=60).enqueue(1)
    assert statuses(job) == ["scheduled"]
    rows(Job).filter(pk=job.id).update(run_at=statements().now())
    assert djqueue.maintenance.promote() == 1
    assert statuses(job) == ["blocked"]


def test_a_promoted_job_is_admitted_if_there_is_a_permit(database):
    job = sync.using(delay=60).enqueue(1)
    rows(Job).filter(pk=job.id).update(run_at=statements().now())
    djqueue.maintenance.promote()
    assert statuses(job) == ["pending"]


def test_a_cancelled_job_gives_its_permit_back(database):
    jobs = three()
    admit()
    djqueue.cancel(jobs[0].id)
    assert admit() == 1
    assert statuses(jobs[2]) == ["pending"]


def test_a_blocked_job_can_be_cancelled(database):
    job = sync.enqueue(1)
    assert djqueue.cancel(job.id) == djqueue.CancelOutcome.REMOVED
    assert statuses(job) == ["cancelled"]


def test_a_row_deleted_by_hand_gives_its_permit_back(database):
    jobs = three()
    admit()
    rows(Job).filter(pk=jobs[1].id).delete()
    assert admit() == 1


def test_a_requeued_job_waits_for_a_permit_again(database):
    jobs = three()
    admit()
    queue.claim(1)[0].dead_letter("no")
    djqueue.requeue(jobs[0].id)
    assert statuses(jobs[0]) == ["blocked"]
    assert jobs[0].job().limit_key == "tenant:1"


def test_a_reaped_job_waits_for_a_permit_again(database):
    jobs = three()
    admit()
    queue.claim(2, lease=0.001)
    time.sleep(0.01)
    assert djqueue.maintenance.reap() == 2
    assert sorted(statuses(*jobs)) in (["blocked", "pending", "pending"], ["pending", "scheduled", "scheduled"])


def test_a_job_whose_process_was_killed_hands_its_permit_on(database):
    jobs = three()
    admit()
    [claimed] = queue.claim(1)
    assert recover([Left(claimed.id, claimed.token, blamed=True)], "killed", crashed=True) == []
    assert statuses(*jobs) == ["scheduled", "pending", "pending"]


def test_rescheduling_to_a_later_time_gives_the_permit_back(database):
    jobs = three()
    admit()
    djqueue.reschedule(jobs[0].id, run_at=statements().now().replace(year=2100))
    assert admit() == 1
    assert statuses(*jobs) == ["scheduled", "pending", "pending"]


def test_rescheduling_to_now_does_not_skip_the_line(database):
    jobs = three()
    admit()
    djqueue.reschedule(jobs[2].id, run_at=statements().now())
    djqueue.reschedule(jobs[0].id, run_at=statements().now())
    assert statuses(*jobs) == ["pending", "pending", "blocked"]


def test_pausing_a_queue_gives_the_permits_of_its_unclaimed_jobs_back(database):
    jobs = three()
    admit()
    [claimed] = queue.claim()
    other = sync.using(queue="other").enqueue(1)
    queue.pause()
    assert statuses(*jobs) == ["claimed", "blocked", "blocked"]
    assert admit() == 1
    assert statuses(other) == ["pending"]
    queue.resume()
    claimed.ack()
    assert statuses(*jobs[1:]) == ["pending", "blocked"]


def test_a_blocked_job_holds_its_dedup_key(database):
    first = sync.using(dedup_key="k").enqueue(1)
    assert sync.using(dedup_key="k").enqueue(1).id == first.id


def test_enqueue_many_makes_a_key_for_each_call(database):
    handles = sync.enqueue_many([djqueue.call(tenant % 3) for tenant in range(120)])
    assert {handle.job().limit_key for handle in handles} == {"tenant:0", "tenant:1", "tenant:2"}
    assert djqueue.stats("default").blocked == 120
    assert admit() == 6
    assert djqueue.stats("default") == djqueue.QueueStats(pending=6, blocked=114)


def test_stats_count_blocked_jobs(database):
    three()
    admit()
    assert djqueue.stats("default") == djqueue.QueueStats(pending=2, blocked=1)


# Keys


def test_a_call_may_have_another_key_or_none(database):
    assert sync.using(limit_key="tenant:vip").enqueue(1).job().limit_key == "tenant:vip"
    free = sync.using(limit_key="").enqueue(1)
    assert (free.job().limit_key, statuses(free)) == (None, ["pending"])


def test_a_key_of_a_task_without_limit_bounds_nothing_until_it_is_set(database):
    jobs = [plain.using(limit_key="mine").enqueue() for _ in range(3)]
    djqueue.limits.set("mine", concurrency=1)
    assert admit() == 1
    djqueue.limits.clear("mine")
    assert admit() == 2
    assert statuses(*jobs) == ["pending"] * 3


def test_tasks_and_queues_share_a_key_and_each_keeps_its_own_number(database):
    first = sync.enqueue(1)
    second = export.using(queue="other").enqueue(1)
    third = sync.enqueue(1)
    assert admit() == 1  # one permit is in use, and the next job wants to be alone
    assert statuses(first, second, third) == ["pending", "blocked", "blocked"]
    queue.claim()[0].ack()
    assert statuses(second, third) == ["pending", "pending"]


def test_an_unknown_task_is_not_admitted(database):
    job = djqueue.enqueue("gone.task", limit_key="k")
    assert admit() == 0
    djqueue.limits.set("k", concurrency=1)
    assert admit() == 0  # its rate is not known
    djqueue.limits.set("k", concurrency=1, rate="1/s")
    assert admit() == 1
    assert statuses(job) == ["pending"]


# Numbers at run time


def test_a_higher_number_admits_more(database):
    three()
    admit()
    djqueue.limits.set("tenant:1", concurrency=3)
    assert admit() == 1


def test_a_lowered_limit_converges_without_killing(database):
    jobs = [sync.enqueue(1) for _ in range(4)]
    admit()
    first, second = queue.claim(2)
    djqueue.limits.set("tenant:1", concurrency=1)
    first.ack()
    assert statuses(*jobs[2:]) == ["blocked", "blocked"]
    second.ack()
    assert statuses(*jobs[2:]) == ["pending", "blocked"]


def test_get_returns_the_state_of_a_key(database):
    three()
    admit()
    queue.claim(1)
    assert djqueue.limits.get("tenant:1") == djqueue.LimitState("tenant:1", 2, admitted=2, running=1, blocked=1)
    djqueue.limits.set("tenant:1", rate="60/m")
    assert djqueue.limits.get("tenant:1").rate == 1.0
    assert djqueue.limits.get("never") == djqueue.LimitState("never")


@pytest.mark.parametrize("key", ["shared", ""])
def test_a_batch_with_a_limit_key_of_a_task_without_a_limit(database, key):
    """The key is that of the call, as in a single enqueue; "" is none."""
    handles = [add.using(limit_key=key).enqueue(1), *add.using(limit_key=key).enqueue_many([djqueue.call(2)] * 2)]
    assert [live(handle.id).limit_key for handle in handles] == [key or None] * 3


def test_another_rate_counts_from_now(database):
    call_api.using(limit_key="slow").enqueue_many([djqueue.call("a")] * 2)
    djqueue.limits.set("slow", rate="1/h")
    assert admit() == 1
    queue.claim()
    djqueue.limits.set("slow", rate="100/s")
    assert admit() == 1


def test_a_rate_is_used_up_by_the_jobs_of_each_task_at_its_own_rate(database):
    """Whichever task the first job in line has."""
    admitted = 0
    for _ in range(5):
        sync.using(limit_key="mix", priority=1).enqueue(1)
        call_slow_api.using(limit_key="mix").enqueue_many([djqueue.call("a")] * 3)
        admit()
        claimed = queue.claim(10)
        admitted += sum(job.task == call_slow_api.name for job in claimed)
        for job in claimed:
            job.ack()
    assert admitted == 3  # the burst


@pytest.mark.parametrize(("column", "value"), [("rate", 0), ("rate", -1), ("concurrency", 0), ("burst", -5)])
def test_numbers_written_by_hand_that_make_no_sense_are_ignored(database, column, value):
    sync.enqueue(1)
    rows(LimitKey).create(key="tenant:1", admitted_at=statements().now(), **{column: value})
    assert admit() == 1


def test_put_back_jobs_of_unknown_tasks_wake_the_supervisors(database):
    jobs = three()
    admit()
    rows(Job).filter(pk=jobs[0].id).update(task="gone.task")
    unknown_tasks.put_back("default", ["gone.task"])
    assert admit() == 1


# Holds


def test_a_held_key_admits_nothing_until_it_is_released(database):
    jobs = three()
    admit()
    [claimed] = queue.claim(1)
    djqueue.limits.hold("tenant:1", 30)
    assert statuses(*jobs) == ["claimed", "blocked", "blocked"]
    claimed.ack()
    assert admit() == 0
    assert statuses(*jobs) == ["done", "blocked", "blocked"]
    held_until = djqueue.limits.get("tenant:1").held_until
    assert 25 < (held_until - statements().now()).total_seconds() <= 30
    djqueue.limits.hold("tenant:1", 5)
    assert djqueue.limits.get("tenant:1").held_until == held_until  # not shortened
    djqueue.limits.release("tenant:1")
    assert djqueue.limits.get("tenant:1").held_until is None
    assert admit() == 2


def test_throttled_gives_the_attempt_back_and_holds_the_key(database):
    from djqueue.lifecycle import settle
    from djqueue.worker.process.executor import verdict

    jobs = three()
    admit()
    [claimed] = queue.claim(1)
    settle.settle_one(claimed, verdict(claimed, djqueue.Throttled(30)))
    assert jobs[0].job().attempts == 0
    assert statuses(*jobs) == ["scheduled", "blocked", "blocked"]
    assert admit() == 0


# Rates


def test_a_rate_admits_a_burst_and_then_as_time_passes(database):
    call_slow_api.enqueue_many([djqueue.call("a")] * 6)
    assert admit() == 3
    assert admit() == 0
    spent = rows(LimitKey).get().spent_until
    assert timedelta(hours=2.9) < spent - statements().now() <= timedelta(hours=3)
    queue.claim(3)
    rows(LimitKey).update(spent_until=spent - timedelta(hours=1))  # as if an hour had passed
    assert admit() == 1


def test_the_rows_of_unused_keys_are_deleted(database):
    sync.enqueue(1)
    sync.enqueue(2)
    djqueue.limits.set("tenant:3", concurrency=1)
    admit()
    for job in queue.claim(1):
        job.ack()
    assert djqueue.maintenance.sweep_limits() == 1
    assert set(rows(LimitKey).values_list("key", flat=True)) == {"tenant:2", "tenant:3"}


def test_the_sweep_goes_on_behind_keys_in_use(database, monkeypatch):
    monkeypatch.setattr(lifecycle_limits, "BATCH", 2)
    now = statements().now()
    rows(LimitKey).bulk_create([LimitKey(key=f"tenant:{n}", admitted_at=now) for n in range(8)])
    for n in (0, 1, 4):
        sync.enqueue(n)
    queue.claim()
    assert djqueue.maintenance.sweep_limits() == 5
    assert sorted(rows(LimitKey).values_list("key", flat=True)) == ["tenant:0", "tenant:1", "tenant:4"]


def test_jobs_that_are_not_claimed_count_against_the_burst(database):
    """Or all that were admitted while no worker ran would start at once."""
    call_api.enqueue_many([djqueue.call("a")] * 20)
    for _ in range(5):
        admit()
        rows(LimitKey).update(spent_until=statements().now())  # time passes
    assert len(queue.claim(20)) == 3
    assert admit() == 3


def test_tasks_whose_keys_are_made_differently_share_them_too(database):
    narrow = sync.using(limit_key="shared")
    wide = call_api.using(limit_key="shared")
    for task, argument in ((narrow, 1), (wide, "a"), (wide, "a"), (wide, "a")):
        task.enqueue(argument)
    assert admit() == 3  # the burst of call_api bounds those that are not claimed


# Transactions


def test_settling_in_a_transaction_leaves_the_admission_to_others(database):
    jobs = three()
    admit()
    [claimed] = queue.claim(1)
    with transaction.atomic(using=database):
        claimed.ack()
    assert statuses(jobs[2]) == ["blocked"]
    assert admit() == 1


def test_plain_jobs_need_no_permit(database):
    job = plain.enqueue()
    assert statuses(job) == ["pending"]
    queue.claim()[0].ack()
    assert not rows(LimitKey).exists()
