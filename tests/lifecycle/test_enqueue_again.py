"""Copies of done and cancelled jobs."""

from __future__ import annotations

import pytest

import djqueue
from djqueue.models import DoneJob, Job
from tests.app.tasks import add
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, ago
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.tools import claim_one, places, rows

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")

COPIED = ("task", "queue", "priority", "max_attempts", "args", "kwargs", "headers", "retry", "timeout", "lease")


def test_done_job_is_copied_under_a_new_id(database):
    options = {"queue": "mail", "priority": 7, "max_attempts": 9, "headers": {"a": [1]}, "timeout": 5, "lease": 60}
    handle = add.using(**options, retry=djqueue.Fixed(3)).enqueue(1e20, b=-0.0)
    claim_one("mail").ack()
    copy = djqueue.enqueue_again(handle.id)
    assert copy.created
    assert copy.id != handle.id
    assert places(handle.id) == ["DoneJob"]
    old, new = rows(DoneJob).get(), rows(Job).get()
    assert [getattr(new, name) for name in COPIED] == [getattr(old, name) for name in COPIED]
    assert repr([*new.args, new.kwargs]) == "[1e+20, {'b': -0.0}]"
    assert (new.status, new.attempts, new.errors, new.schedule) == ("pending", 0, [], None)
    assert new.enqueued_at > old.enqueued_at
    claim_one("mail").ack()
    assert djqueue.enqueue_again(copy.id).created


def test_cancelled_job_keeps_its_time_and_key(database):
    handle = add.using(delay=3600, dedup_key="k").enqueue(1)
    handle.cancel()
    copy = djqueue.enqueue_again(str(handle.id)).job()
    assert (copy.status, copy.run_at, copy.dedup_key) == ("scheduled", rows(DoneJob).get().run_at, "k")
    again = djqueue.enqueue_again(handle.id)
    assert (again.id, again.created) == (copy.id, False)
    assert rows(Job).count() == 1


def test_job_of_a_schedule_is_copied_without_its_slot(database):
    job = DoneJobFactory(schedule="nightly", slot=ago(60))
    JobFactory(schedule="nightly", slot=job.slot)
    copy = djqueue.enqueue_again(job.pk).job()
    assert (copy.schedule, copy.slot) == (None, None)


def test_other_jobs_are_refused(database):
    for job_id in (JobFactory().pk, DeadJobFactory().pk, "0198c9b4-0000-7000-8000-00000000000a", "nonsense"):
        with pytest.raises(djqueue.NotDone, match=f"No done or cancelled job has the id {job_id}"):
            djqueue.enqueue_again(job_id)


def test_copy_is_announced(database, heard):  # noqa: F811
    djqueue.enqueue_again(DoneJobFactory().pk)
    assert heard.names == ["queued"]
