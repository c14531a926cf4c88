"""A timeout that fires while its job ends: it is taken back, and no later job on the thread is hit."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from djqueue.exceptions import TaskTimeout
from djqueue.worker.process import timeouts

SOON = 60


@pytest.fixture
def ticking():
    found = timeouts.Timeouts(pytest.fail)
    found.start()
    yield found
    found.stop()


def spin(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass


def test_a_timeout_is_raised_in_what_runs_too_long(ticking):
    slot = timeouts.Slot()
    ticking.slots.append(slot)
    timed_out: list[bool] = []

    def wait() -> None:
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            time.sleep(0.01)

    with pytest.raises(TaskTimeout):
        ticking.call(slot, 0.01, wait, lambda: timed_out.append(True))
    assert timed_out == [True]


def test_a_timeout_that_fired_and_was_not_yet_raised_is_taken_back():
    """The thread is inside a C call all the while, where nothing can be raised."""
    slots: list[timeouts.Slot] = []
    inside, lock = threading.Event(), threading.Lock()

    def block() -> str:
        slots.append(timeouts.Slot())
        inside.set()
        with lock:
            pass
        spin(4 * timeouts.RESOLUTION)
        return "untouched"

    with ThreadPoolExecutor(1) as pool:
        with lock:
            blocked = pool.submit(block)
            assert inside.wait(SOON)
            time.sleep(0.05)  # until it waits for the lock, which cannot be observed
            [slot] = slots
            slot.deadline = time.monotonic()
            slot.fire()
            assert slot.disarm() is True
        assert blocked.result(SOON) == "untouched"


def test_a_timeout_that_fires_while_its_job_ends_hits_no_later_job(ticking, monkeypatch):
    """The job is at its end, and waits for the lock, while the timeout is in the act of firing."""
    firing, ending = threading.Event(), threading.Event()
    inject = timeouts._inject

    def inject_late(thread_id: int, kind: type[BaseException] | None) -> None:
        if kind is not None and not ending.is_set():
            firing.set()
            assert ending.wait(SOON)
            time.sleep(0.05)  # until the job waits for the lock, which cannot be observed
        inject(thread_id, kind)

    monkeypatch.setattr(timeouts, "_inject", inject_late)
    timed_out: list[str] = []

    def run_three_jobs() -> None:
        slot = timeouts.Slot()
        ticking.slots.append(slot)

        def end_while_it_fires() -> None:
            assert firing.wait(SOON)
            ending.set()

        try:
            ticking.call(slot, 0.01, end_while_it_fires, lambda: timed_out.append("first"))
        except TaskTimeout:
            pass  # also a right answer, as long as it is raised here
        ticking.call(slot, None, lambda: spin(4 * timeouts.RESOLUTION), lambda: timed_out.append("second"))
        ticking.call(slot, SOON, lambda: spin(4 * timeouts.RESOLUTION), lambda: timed_out.append("third"))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_three_jobs).result(3 * SOON)
    assert timed_out == ["first"]


def test_a_thread_whose_timeout_was_taken_back_has_a_timeout_again(ticking):
    """Each of many short jobs ends by itself or by its timeout, and the last one, which is endless, by its own."""

    def run_jobs() -> tuple[int, int]:
        slot = timeouts.Slot()
        ticking.slots.append(slot)
        ended = timed_out = 0
        for number in range(40):
            try:
                ticking.call(slot, 0.01, lambda: spin(0.01 + number % 5 * timeouts.RESOLUTION / 4), lambda: None)
                ended += 1
            except TaskTimeout:
                timed_out += 1
            spin(0.005)  # what the thread does between two jobs is never hit
        with pytest.raises(TaskTimeout):
            ticking.call(slot, 0.01, lambda: spin(SOON), lambda: None)
        return ended, timed_out

    with ThreadPoolExecutor(1) as pool:
        ended, timed_out = pool.submit(run_jobs).result(3 * SOON)
    assert ended + timed_out == 40
    assert timed_out > 0


def test_a_timeout_that_is_raised_on_entry_to_the_disarming_leaves_nothing_armed(ticking):
    """Ten thousand jobs end about when their timeout comes; each finds its slot disarmed, and none is hit later."""

    def run_jobs() -> int:
        slot = timeouts.Slot()
        passed = 0
        stop = threading.Event()

        def fire() -> None:
            while not stop.is_set():
                slot.fire()

        firing = threading.Thread(target=fire)
        firing.start()
        try:
            for _ in range(10_000):
                try:
                    ticking.call(slot, 0.0001, lambda: spin(0.0001), lambda: None)
                except TaskTimeout:
                    passed += 1
                assert (slot.deadline, slot.fired) == (None, False)
        finally:
            stop.set()
            firing.join()
        return passed

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_jobs).result(6 * SOON) > 0
