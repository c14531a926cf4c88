"""Schedulers that are killed, and one whose clock is wrong (FAILURES 26 and 28)."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from django.conf import settings

import djqueue
from djqueue import schedules
from djqueue.models import DoneJob, Job
from tests.tools import database_now, eventually, rows
from tests.wrong_clock import wrong_clock

pytestmark = pytest.mark.processes

SECOND = timedelta(seconds=1)


def start(database: str, **env: str) -> subprocess.Popen[str]:
    name = str(settings.DATABASES[database]["NAME"])
    arguments = [sys.executable, "-m", "tests.processes.scheduler", database, name]
    return subprocess.Popen(arguments, env=os.environ | env, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@contextmanager
def running(processes: list[subprocess.Popen[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Schedulers that have started; all of the list are killed in the end."""
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready")
        yield processes
    finally:
        for process in processes:
            end(process)


def settle_all() -> None:
    """Settled jobs leave the table that is unique over (schedule, slot): then `next_at` alone guards the slots."""
    while jobs := djqueue.Queue("default").claim(100):
        for job in jobs:
            job.ack()


def fired(database: str) -> list[tuple[datetime, float]]:
    """The slot of each job, and how late it was."""
    columns = ("slot", "enqueued_at")
    found = [*rows(DoneJob).values_list(*columns), *rows(Job).values_list(*columns)]
    return sorted((slot, (enqueued_at - slot).total_seconds()) for slot, enqueued_at in found)


def has_fired_until(database: str, moment: datetime) -> bool:
    found = fired(database)
    return bool(found) and found[-1][0] >= moment - SECOND


def assert_each_slot_fired_once(database: str, began: datetime, ended: datetime) -> None:
    found = fired(database)
    slots = [slot for slot, _ in found]
    assert [slot for slot, count in Counter(slots).items() if count > 1] == []
    assert slots == [slots[0] + n * SECOND for n in range(len(slots))]
    assert slots[0] <= began + 2 * SECOND
    assert slots[-1] >= ended - 3 * SECOND
    late = sorted(lateness for _, lateness in found)
    print(
        f"\n{database}: {len(slots)} slots, each fired once; late by {statistics.median(late) * 1000:.0f} ms (median), "
        f"{late[int(len(late) * 0.95)] * 1000:.0f} ms (p95), {late[-1] * 1000:.0f} ms (worst)"
    )
    assert late[0] >= 0


@pytest.mark.databases("postgresql", "sqlite", "mysql")
def test_killed_schedulers_fire_every_slot_once(database):
    """The invariant of lifecycle/fire.py, attacked: kill -9, once a second, of one scheduler of many."""
    count, seconds = (5, 60) if database == "postgresql" else (2, 20)
    schedules.create("tick", task="tests.app.tasks.add", args=[1], cron="* * * * * *", misfire="all")
    with running([start(database) for _ in range(count)]) as processes:
        began = database_now()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            victim = random.randrange(count)
            end(processes[victim])
            processes[victim] = start(database)
            next_kill = time.monotonic() + 1
            while time.monotonic() < next_kill:
                settle_all()
                time.sleep(random.uniform(0, 0.1))
        ended = database_now()
        # On a loaded machine, all of them may still be starting: what they have missed must be fired then.
        eventually(lambda: settle_all() or has_fired_until(database, ended), 120)
    settle_all()
    assert_each_slot_fired_once(database, began, ended)


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.databases("postgresql", "mysql")
def test_a_scheduler_whose_clock_is_an_hour_off_fires_at_the_right_moments(database, tmp_path, hours):
    schedules.create("tick", task="tests.app.tasks.add", args=[1], cron="* * * * * *", misfire="all")
    schedules.create("hourly", task="tests.app.tasks.add", args=[1], every=3600)
    process = start(database, **wrong_clock(tmp_path, hours))
    try:
        assert process.stdout is not None
        word, clock = process.stdout.readline().split()
        assert word == "ready"
        assert abs(float(clock) - time.time() - hours * 3600) < 60  # its clock is wrong indeed
        began = database_now()
        time.sleep(6)
        ended = database_now()
        eventually(lambda: has_fired_until(database, ended))
    finally:
        end(process)
    assert not rows(Job).filter(schedule="hourly").exists()
    assert_each_slot_fired_once(database, began, ended)
    assert max(late for _, late in fired(database)) < 600  # by its own clock, they would be an hour late
