"""Which acts change the status of a job, tried on jobs of every status."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from uuid import UUID

import pytest
from django.test import override_settings

import djqueue
from djqueue.lifecycle import crash, settle, unknown_tasks
from djqueue.models import DeadJob, DoneJob, Job, LimitKey
from djqueue.sql import statements
from tests.app.tasks import add
from tests.conftest import PLAIN
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, ago
from tests.tools import claim_one, rows

from . import transitions
from .transitions import BLOCKED, CANCELLED, CLAIMED, DEAD, DONE, NONE, PENDING, SCHEDULED, STATUSES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "explanation" / "life_of_a_job.md"
KEY = "key"
YEARS = 20 * 365 * 86400
Try = Callable[[djqueue.ClaimedJob], object]


def change(job: djqueue.ClaimedJob, **values: object) -> None:
    rows(Job).filter(pk=job.id).update(**values)


def expire(job: djqueue.ClaimedJob) -> None:
    rows(Job).filter(pk=job.id, status=CLAIMED).update(lease_expires_at=ago(5))


def promote(job: djqueue.ClaimedJob) -> None:
    change(job, run_at=ago(5))
    djqueue.maintenance.promote()


def admit(job: djqueue.ClaimedJob) -> None:
    djqueue.limits.release(KEY)
    djqueue.maintenance.admit()


def be_overtaken(job: djqueue.ClaimedJob) -> None:
    """Another job has a better priority, and there is one permit."""
    djqueue.limits.release(KEY)
    djqueue.limits.set(KEY, concurrency=1)
    add.using(limit_key=KEY, priority=-5).enqueue(1)
    djqueue.maintenance.admit()
    djqueue.limits.clear(KEY)


def replace(job: djqueue.ClaimedJob, delay: float) -> None:
    change(job, dedup_key="k", task=add.name)
    limit_key = rows(Job).filter(pk=job.id).values_list("limit_key", flat=True).first()
    add.using(dedup_key="k", on_duplicate="replace", delay=delay, limit_key=limit_key or "").enqueue(1)


def pause(job: djqueue.ClaimedJob) -> None:
    djqueue.Queue("default").pause()
    djqueue.Queue("default").resume()


def nack_after_a_cancel(job: djqueue.ClaimedJob) -> None:
    rows(Job).filter(pk=job.id, status=CLAIMED).update(cancel_requested=True)
    job.nack("boom")


def reap(job: djqueue.ClaimedJob) -> None:
    expire(job)
    djqueue.maintenance.reap()


def recover(job: djqueue.ClaimedJob, **known: object) -> None:
    crash.recover([crash.Left(job.id, job.token, **known)], "it was killed", crashed=True)


def put_back(job: djqueue.ClaimedJob) -> None:
    change(job, task="no.such.task")
    unknown_tasks.put_back("default", ["no.such.task"])


def sweep(job: djqueue.ClaimedJob) -> None:
    rows(DoneJob).filter(pk=job.id).update(completed_at=ago(YEARS))
    rows(DeadJob).filter(pk=job.id).update(failed_at=ago(YEARS))
    with override_settings(DJQUEUE={**_settings(), "KEEP_DONE": 60, "KEEP_DEAD": 60}):
        djqueue.maintenance.sweep_done()
        djqueue.maintenance.sweep_dead()


def _settings() -> dict[str, object]:
    from django.conf import settings

    return dict(settings.DJQUEUE)


# For each act the ways to do it, each with the attempts that its job may have.
TRIES: dict[str, list[tuple[Try, int]]] = {
    "enqueue": [
        (lambda job: add.using(id=job.id).enqueue(1), 3),
        (lambda job: add.using(id=job.id, limit_key=KEY).enqueue(1), 3),
        (lambda job: add.using(id=job.id, delay=60).enqueue(1), 3),
    ],
    "promote": [(promote, 3)],
    "admit": [(admit, 3), (be_overtaken, 3)],
    "pause": [(pause, 3)],
    "hold": [(lambda job: djqueue.limits.hold(KEY, 60), 3)],
    "replace": [(lambda job: replace(job, 0), 3), (lambda job: replace(job, 60), 3)],
    "claim": [(lambda job: djqueue.Queue("default").claim(10), 3)],
    "ack": [(lambda job: job.ack(), 3)],
    "nack": [
        (lambda job: job.nack("boom", delay=0), 3),
        (lambda job: job.nack("boom", delay=60), 3),
        (lambda job: job.nack("boom"), 1),
        (nack_after_a_cancel, 3),
    ],
    "dead_letter": [(lambda job: job.dead_letter("no"), 3)],
    "snooze": [(lambda job: job.snooze(0), 3), (lambda job: job.snooze(60), 3)],
    "release": [(lambda job: job.release(), 3)],
    "stop on request": [(lambda job: settle.settle_one(job, settle.cancel(job)), 3)],
    "recover": [
        (lambda job: recover(job), 3),
        (lambda job: recover(job, delay=60), 3),
        (lambda job: recover(job, blamed=True), 3),
        (lambda job: recover(job, blamed=True), 1),
    ],
    "reap": [(reap, 3), (reap, 1)],
    "put back": [(put_back, 3)],
    "cancel": [(lambda job: djqueue.cancel(job.id), 3)],
    "reschedule": [
        (lambda job: djqueue.reschedule(job.id, run_at=ago(5)), 3),
        (lambda job: djqueue.reschedule(job.id, run_at=ago(-60)), 3),
    ],
    "requeue": [
        (lambda job: djqueue.requeue(job.id), 3),
        (lambda job: djqueue.requeue(job.id, run_at=ago(-60)), 3),
    ],
    "sweep": [(sweep, 3)],
    "clear_dead": [(lambda job: djqueue.Queue("default").clear_dead(), 3)],
}


def job_that_is(status: str, max_attempts: int, limit_key: str | None) -> djqueue.ClaimedJob:
    """A job of that status; what is returned was its claim, which no longer holds unless the status is claimed."""
    JobFactory(max_attempts=max_attempts, limit_key=limit_key)
    job = claim_one()
    change(job, started=True)
    if status == CLAIMED:
        return job
    rows(Job).filter(pk=job.id).delete()
    make = {
        NONE: lambda pk: None,
        SCHEDULED: lambda pk: JobFactory(id=pk, scheduled=True, limit_key=limit_key),
        BLOCKED: lambda pk: JobFactory(id=pk, status=BLOCKED, limit_key=KEY),
        PENDING: lambda pk: JobFactory(id=pk, limit_key=limit_key),
        DONE: lambda pk: DoneJobFactory(id=pk, limit_key=limit_key),
        CANCELLED: lambda pk: DoneJobFactory(id=pk, cancelled=True, limit_key=limit_key),
        DEAD: lambda pk: DeadJobFactory(id=pk, limit_key=limit_key),
    }
    make[status](job.id)
    return job


def status_of(job_id: UUID) -> str:
    record = djqueue.get_job(job_id)
    return NONE if record is None else record.status.value


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize("act", transitions.ACTS, ids=lambda act: act.name)
def test_an_act_changes_these_statuses_and_no_others(database, act):
    seen = set()
    for (do, max_attempts), before, limit_key in product(TRIES[act.name], STATUSES, (None, KEY)):
        if before != BLOCKED or limit_key is not None:
            job = job_that_is(before, max_attempts, limit_key)
            if act.name != "hold":
                # A key that is held: what becomes due stays blocked.
                statements().execute("DELETE FROM djqueue_limitkey")
                rows(LimitKey).create(key=KEY, held_until=ago(-60), admitted_at=ago(0))
            with suppress(djqueue.LeaseLost, djqueue.NotDead, djqueue.DuplicateJob):
                do(job)
            after = status_of(job.id)
            if before != after:
                seen.add((before, after))
            for model in (Job, DoneJob, DeadJob):
                rows(model).all().delete()
    assert seen == act.changes


def test_the_docs_show_the_transitions():
    before, _, rest = DOCS.read_text().partition(transitions.BEGIN)
    shown, _, after = rest.partition(transitions.END)
    if os.environ.get("DJQUEUE_WRITE_DOCS"):
        DOCS.write_text(before + transitions.BEGIN + transitions.markdown() + transitions.END + after)
    else:
        assert shown == transitions.markdown(), "run this test with DJQUEUE_WRITE_DOCS=1"


@pytest.mark.parametrize("act", transitions.ACTS, ids=lambda act: act.name)
def test_the_docs_name_files_that_exist(act):
    assert (ROOT / "djqueue" / act.code).is_file()
