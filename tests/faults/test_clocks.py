"""A worker whose clock is an hour off, beside one whose clock is right (FAILURES 26)."""

from __future__ import annotations

import signal
import time

import pytest

import djqueue
from djqueue.models import Job
from tests.tools import database_now, eventually, live, rows
from tests.worker import tasks as plain
from tests.wrong_clock import wrong_clock

from . import tasks

pytestmark = pytest.mark.databases("postgresql", "mysql")
LEASE = 6


@pytest.fixture(params=[1, -1], ids=["ahead", "behind"])
def wrong(request, database, site, tmp_path):
    """A worker of the queue "wrong" whose clock is an hour off, which reaps and promotes jobs of all queues."""
    worker = site.start_ready(
        *("--threads", "4", "--queue", "wrong"),
        env=wrong_clock(tmp_path, request.param) | tasks.APP,
        LEASE=LEASE,
        REAPER_INTERVAL=0.5,
    )
    seen = tasks.clock.using(queue="wrong").enqueue().wait(60).record.result
    assert abs(seen - time.time() - request.param * 3600) < 600, "its clock is wrong indeed"
    return worker


def test_delays_and_retries_are_neither_early_nor_late(database, wrong):
    """By a clock that is ahead they would be early, by one that is behind they would be an hour late."""
    soon = plain.double.using(queue="wrong", delay=10).enqueue(1)
    due = live(soon.id).run_at
    later = plain.double.using(queue="wrong", delay=1800).enqueue(1)
    failing = tasks.fail_once.using(queue="wrong").enqueue()
    postponed = tasks.retry_in_half_an_hour.using(queue="wrong").enqueue()
    eventually(lambda: failing.job().errors)
    retry_at = live(failing.id).run_at if failing.status() == "scheduled" else None
    assert soon.wait(60).record.claimed_at >= due
    record = failing.wait(60).record
    assert (record.status, record.attempts) == ("done", 2)
    assert retry_at is None or record.claimed_at >= retry_at
    eventually(lambda: postponed.status() == "scheduled" and postponed.job().errors)
    assert 1700 < (live(postponed.id).run_at - database_now()).total_seconds() <= 1800
    djqueue.maintenance.promote()
    assert later.status() == "scheduled"
    assert 1700 < (live(later.id).run_at - database_now()).total_seconds() <= 1800


@pytest.mark.faults
def test_leases_are_kept_while_a_job_runs_and_expire_when_its_worker_is_lost(database, site, wrong, tmp_path):
    """The worker with the wrong clock keeps its own leases, takes no living job, and takes those of a lost worker."""
    right = site.start("--threads", "2", "--queue", "right", LEASE=LEASE, REAPER_INTERVAL=0.5)
    go = tmp_path / "go"
    running = [plain.wait_for_file.using(queue=name).enqueue(str(go)) for name in ("wrong", "right")]
    eventually(lambda: all(live(handle.id).started for handle in running))
    tokens = [live(handle.id).token for handle in running]
    begin = database_now()
    eventually(lambda: (database_now() - begin).total_seconds() > 2 * LEASE)
    assert [live(handle.id).token for handle in running] == tokens
    right.signal_all(signal.SIGKILL)
    eventually(lambda: not right.members())
    expires = live(running[1].id).lease_expires_at
    eventually(lambda: not rows(Job).filter(pk=running[1].id, status="claimed").exists())
    assert database_now() >= expires
    assert live(running[1].id).last_error == "lease expired"
    go.touch()
    assert running[0].wait(60).record.attempts == 1
