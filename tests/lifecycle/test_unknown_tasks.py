"""Jobs that no task is named for are put back in bulk; nothing else is touched."""

from __future__ import annotations

from datetime import timedelta

import djqueue
from djqueue.lifecycle import unknown_tasks
from djqueue.models import Job
from tests.app.tasks import add
from tests.tools import claim_one, database_now, live, rows


def test_the_next_jobs_of_unknown_tasks_are_put_back_without_a_claim(database):
    jobs = [djqueue.enqueue("nobody.knows", args=[n]) for n in range(5)]
    other_queue = djqueue.enqueue("nobody.knows", queue="other")
    known = add.enqueue(1)
    assert unknown_tasks.put_back("default", ["nobody.knows"]) == 5
    for handle in jobs:
        row = live(handle.id)
        assert (row.status, row.attempts, row.errors) == ("scheduled", 0, [])
        assert row.unknown_since is not None
        assert 9 < (row.run_at - row.unknown_since).total_seconds() < 11
    assert (other_queue.status(), known.status()) == ("pending", "pending")


def test_the_delay_grows_with_the_time_that_the_task_has_been_unknown(database):
    handle = djqueue.enqueue("nobody.knows")
    for age, delay in [(5, 10), (20, 20), (300, 60)]:
        since = database_now() - timedelta(seconds=age)
        rows(Job).filter(pk=handle.id).update(unknown_since=since, status="pending")
        assert unknown_tasks.put_back("default", ["nobody.knows"]) == 1
        row = live(handle.id)
        assert abs((row.run_at - database_now()).total_seconds() - delay) < 3
        assert row.unknown_since == since


def test_jobs_past_their_grace_period_and_claimed_jobs_stay(database, configure):
    configure(UNKNOWN_TASK_GRACE=100)
    late, claimed = djqueue.enqueue("nobody.knows"), djqueue.enqueue("nobody.knows", priority=1)
    rows(Job).filter(pk=late.id).update(unknown_since=database_now() - timedelta(seconds=101))
    assert claim_one().id == claimed.id
    assert unknown_tasks.put_back("default", ["nobody.knows"]) == 0
    assert (late.status(), claimed.status()) == ("pending", "claimed")
