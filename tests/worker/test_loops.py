"""The ages of a worker's loops and the samples of its memory."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise

import pytest
from django.db import OperationalError

from djqueue.models import Worker
from djqueue.worker import loops, memory_samples
from djqueue.worker.loops import UNTIL_WOKEN, Turns
from djqueue.worker.memory_samples import FIRST_INTERVAL, MOST, MemorySamples
from djqueue.worker.options import Options
from djqueue.worker.outages import Outages
from djqueue.worker.supervisor.background import Background
from djqueue.worker.supervisor.heartbeats import Heartbeats, ProcessStatus
from djqueue.worker.supervisor.periodic import Periodic, PeriodicThread
from djqueue.worker.supervisor.scheduler import Scheduler
from tests.conftest import PLAIN
from tests.tools import Clock, eventually, rows
from tests.worker import tasks
from tests.worker.process.test_worker import running


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    for module in (loops, memory_samples):
        monkeypatch.setattr(module, "time", clock)
    return clock


def test_the_age_of_a_loop_grows_while_a_turn_hangs_or_fails(clock):
    turns = Turns()
    clock.now += 30
    assert turns.age == 30
    turns.good()
    assert turns.age == 0
    clock.now += 2.25
    assert turns.age == pytest.approx(2.25, abs=0.06)


def test_a_loop_that_rests_as_planned_has_the_age_0(clock):
    turns = Turns()
    turns.good(rest=60)
    clock.now += 60
    assert turns.age == 0
    clock.now += 7
    assert turns.age == 7, "it has not returned from its rest"
    turns.good(rest=UNTIL_WOKEN)
    clock.now += 1e6
    assert turns.age == 0


def test_a_loop_that_was_woken_early_is_at_work(clock):
    turns, event = Turns(), threading.Event()
    event.set()
    turns.wait(event, 60)
    clock.now += 5
    assert turns.age == 5


def test_samples_cover_the_whole_life_of_a_process_in_a_bounded_list(clock):
    samples = MemorySamples()
    for beat in range(200_000):  # nine days of heartbeats
        clock.now = 1000 + 4 * beat
        samples.add(beat + 1)
        assert len(samples.values) <= MOST
    seconds = [second for second, _ in samples.values]
    assert seconds[0] == 0
    assert len(seconds) > MOST / 2 - 1
    gaps = {after - before for before, after in pairwise(seconds)}
    assert max(gaps) <= 2 * min(gaps), "evenly spaced"
    assert seconds[-1] > 4 * 200_000 - 2 * max(gaps)
    assert all(memory == second // 4 + 1 for second, memory in samples.values)
    assert len(json.dumps(samples.values, separators=(",", ":"))) < 3000


def test_a_sample_too_soon_and_one_without_a_size_are_left_out(clock):
    samples = MemorySamples()
    samples.add(0)
    samples.add(5)
    samples.add(6)
    clock.now += FIRST_INTERVAL
    samples.add(7)
    assert samples.values == [[0, 5], [FIRST_INTERVAL, 7]]


@pytest.mark.databases(*PLAIN)
def test_a_heartbeat_writes_loops_and_samples_and_leaves_the_request_alone(database):
    heartbeats = Heartbeats(Options(), "boss", lambda: {"reaper": 90.0})
    status = ProcessStatus("here", 1, memory=7, loops={"claimer": 1.5}, quiet=True)
    heartbeats.beat([status])
    rows(Worker).update(request="drain", requested_at=rows(Worker).get().started_at)
    heartbeats.beat([status])
    row = rows(Worker).get()
    assert (row.loops, row.samples, row.quiet) == ({"reaper": 90.0, "claimer": 1.5}, [[0, 7]], True)
    assert (row.request, row.requested_at) == ("drain", row.started_at)
    status.stopped = True
    heartbeats.beat([status])
    assert rows(Worker).get().loops == {}


def background(options: Options) -> Background:
    return Background(options, list, list, lambda *_: None, lambda what: None, pytest.fail)


def test_the_loops_of_a_supervisor():
    assert sorted(background(Options()).ages()) == ["leases", "reaper", "scheduler", "sweeps"]
    assert sorted(background(Options(maintenance=False)).ages()) == ["leases"]


def test_the_sweeps_are_as_old_as_the_oldest_of_them():
    parts = background(Options())
    for number, turns in enumerate(parts.turns["sweeps"]):
        turns.good_until = time.monotonic() - 100 * number
    assert parts.ages()["sweeps"] == pytest.approx(100 * (len(parts.turns["sweeps"]) - 1), abs=5)


@pytest.mark.databases("postgresql")
def test_maintenance_that_fails_after_an_outage_is_visible_while_the_rest_works(database):
    """The worker would look healthy otherwise: its heartbeat is fine."""
    broken, tries = threading.Event(), []

    def fail() -> None:
        tries.append(1)
        if broken.is_set():
            raise OperationalError("still away")

    outages = Outages(pytest.fail)
    failing, working = Periodic("failing", fail, 0.02), Periodic("working", lambda: None, 0.02)
    thread = PeriodicThread([failing, working], outages, pytest.fail)
    thread.start()
    try:
        eventually(lambda: len(tries) > 3)
        broken.set()
        eventually(lambda: failing.turns.age >= 0.5)
        assert working.turns.age < failing.turns.age
        assert len(tries) > 5, "it goes on trying"
        broken.clear()
        eventually(lambda: failing.turns.age < 0.5)
    finally:
        thread.stop()


@pytest.mark.databases("postgresql")
def test_the_age_of_a_scheduler_that_fails_grows(database, monkeypatch):
    broken = threading.Event()

    class Broken(Scheduler):
        def _turn(self) -> float:
            if broken.is_set():
                raise OperationalError("away")
            return 0.01

    scheduler = Broken(Outages(pytest.fail), None, pytest.fail)
    scheduler.start()
    try:
        broken.set()
        eventually(lambda: scheduler.turns.age >= 0.5)
        broken.clear()
        eventually(lambda: scheduler.turns.age < 0.5, 20)
    finally:
        scheduler.stop()


@pytest.mark.databases(*PLAIN)
def test_an_idle_worker_has_no_old_loop_and_a_hung_one_has(database, monkeypatch):
    from djqueue.worker.process import completer

    hang, hanging = threading.Event(), threading.Event()
    settle_many = completer.settle.settle_many

    def settle(settlements):
        hanging.set()
        assert hang.wait(60)
        return settle_many(settlements)

    with running(Options(threads=1)) as worker:
        row = eventually(lambda: rows(Worker).filter(loops__contains="claimer").first())
        assert sorted(row.loops) == ["claimer", "completer", "leases", "reaper", "scheduler", "sweeps"]
        assert row.samples[0][1] > 1_000_000
        monkeypatch.setattr(completer.settle, "settle_many", settle)
        handle = tasks.double.enqueue(1)
        try:
            assert hanging.wait(30)
            eventually(lambda: worker.worker.loops()["completer"] >= 1)
            assert worker.worker.loops()["claimer"] < 10
        finally:
            hang.set()
        assert handle.wait(30).record.result == 2
        eventually(lambda: worker.worker.loops()["completer"] == 0)


def test_a_scheduler_that_is_stopped_just_before_it_clears_its_wakeup_exits(database):
    """It would otherwise sleep until the next schedule, or for ten seconds."""
    scheduler = Scheduler(Outages(pytest.fail), None, pytest.fail)

    class Late(threading.Event):
        def clear(self) -> None:
            scheduler.stopping.set()
            self.set()
            super().clear()

    scheduler.wakeup = Late()
    scheduler.start()
    scheduler.thread.join(5)
    assert not scheduler.thread.is_alive()
