"""The row of a worker is gone, or two workers look alike (FAILURES 6)."""

from __future__ import annotations

import signal

import pytest

from djqueue.models import Worker
from tests.conftest import PLAIN
from tests.tools import PATIENCE, eventually, live, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases(*PLAIN)


def test_jobs_of_a_worker_whose_row_was_deleted_finish(database, site, tmp_path):
    worker = site.start_ready("--threads", "1")
    handle = tasks.wait_for_file.enqueue(str(tmp_path / "go"))
    eventually(lambda: live(handle.id).started)
    rows(Worker).all().delete()
    (tmp_path / "go").touch()
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("done", 1)
    eventually(lambda: worker.workers(), 60)  # the next heartbeat writes the row again
    assert worker.stop() == 0


def test_jobs_of_a_lost_worker_whose_row_was_deleted_are_reaped(database, site, tmp_path):
    lost = site.start_ready("--threads", "1", LEASE=4)
    handle = tasks.wait_for_file.enqueue(str(tmp_path / "go"))
    eventually(lambda: live(handle.id).started)
    lost.signal_all(signal.SIGKILL)
    eventually(lambda: not lost.members())
    rows(Worker).all().delete()
    (tmp_path / "go").touch()
    site.start_ready("--threads", "1", LEASE=4, REAPER_INTERVAL=0.5)
    record = handle.wait(60).record
    assert (record.status, record.attempts) == ("done", 2)
    assert [error["message"] for error in record.errors] == ["lease expired"]


def test_a_worker_with_the_host_name_and_pid_of_another_does_not_touch_its_jobs(database, site, tmp_path):
    """As a pod that is started again while its predecessor still runs, in a namespace of its own."""
    alike = {"DJQUEUE_TEST_IMPORT": "tests.faults.alike"}
    first = site.start("--processes", "1", "--threads", "1", env=alike, LEASE=600)
    held = tasks.wait_for_file.enqueue(str(tmp_path / "go"))
    eventually(lambda: first.started([held]), 2 * PATIENCE)
    eventually(lambda: live(held.id).started)
    token = live(held.id).token
    second = site.start("--processes", "1", "--threads", "1", env=alike, LEASE=600, REAPER_INTERVAL=0.5)
    other = tasks.double.enqueue(4)
    assert other.wait(2 * PATIENCE).record.result == 8
    assert second.stop() == 0, "it gives back only what it holds"
    assert (live(held.id).status, live(held.id).token) == ("claimed", token)
    (tmp_path / "go").touch()
    record = held.wait(60).record
    assert (record.status, record.attempts) == ("done", 1)
    identities = {*record.worker_ids, *other.job().worker_ids}
    assert len(identities) == 2
    assert {identity.rpartition(":")[0] for identity in identities} == {"pod:7"}
    assert rows(Worker).filter(identity__in=identities).count() == 2
    assert first.stop() == 0
