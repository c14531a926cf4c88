"""How much a process claims, as a table: options, jobs in hand, average run time and queues give what to claim."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from djqueue.lifecycle.claim import MOST
from djqueue.worker.held_jobs import CAPACITY
from djqueue.worker.options import Options
from djqueue.worker.process.budget import COROUTINES, MOST_IN_HAND, Budget
from djqueue.worker.process.in_hand import Counts

LONG, SHORT = 10.0, 0.001  # run times in seconds


def budget(options: dict, in_hand: dict, average: float = LONG) -> Budget:
    """`in_hand` is fields of Counts; `busy_for` is the seconds since a thread last started a job."""
    fields = dict(in_hand)
    last_start = time.monotonic() - fields.pop("busy_for", 0.0)
    fields["by_queue"] = Counter(fields.get("by_queue", {}))
    return Budget(Options(**{"threads": 4} | options), Counts(average=average, last_start=last_start, **fields))


def waiting_or_running(queue: str, threads: int = 0, loop: int = 0, **fields: object) -> dict:
    """Jobs of one queue, all of them running."""
    known = {"coroutine_queues": {queue} if loop else set(), "plain_queues": {queue} if threads else set()}
    return {
        "total": threads + loop,
        "by_queue": {queue: threads + loop},
        "for_threads": threads,
        "for_loop": loop,
        "running": threads + loop,
        "running_in_threads": threads,
        "running_in_loop": loop,
        **known,
        **fields,
    }


CLAIMS = [
    # options, in hand, average run time, queues, what to claim
    ("long jobs: one per thread", {}, {}, LONG, ["a"], {"a": 4}),
    ("short jobs: work for 50 ms is claimed ahead", {}, {}, SHORT, ["a"], {"a": 4 + 200}),
    ("very short jobs: not more than MOST_IN_HAND ahead", {}, {}, 0.0, ["a"], {"a": 4 + MOST_IN_HAND}),
    ("no queue has anything", {}, {}, LONG, [], {}),
    ("equal shares, the first queues get the remainder", {}, {}, LONG, ["a", "b", "c"], {"a": 2, "b": 1, "c": 1}),
    ("more queues than room", {"threads": 2}, {}, LONG, ["a", "b", "c"], {"a": 1, "b": 1}),
    (
        "an order of preference: one for each, the rest for the first",
        {"queues": {"a": None, "b": None}},
        {},
        LONG,
        ["a", "b"],
        {"a": 3, "b": 1},
    ),
    ("the concurrency of a queue", {"queues": {"a": 3, "b": None}}, {}, LONG, ["a", "b"], {"a": 3, "b": 1}),
    (
        "the concurrency counts what is in hand",
        {"queues": {"a": 3}},
        waiting_or_running("a", threads=2),
        LONG,
        ["a"],
        {"a": 1},
    ),
    (
        "a queue whose permits are taken leaves its share to the others",
        {"queues": {"a": 1, "b": None}},
        waiting_or_running("a", threads=1),
        LONG,
        ["a", "b"],
        {"b": 3},
    ),
    ("threads that are busy leave room for the rest", {}, waiting_or_running("a", threads=3), LONG, ["a"], {"a": 1}),
    ("all threads are busy with plain functions", {}, waiting_or_running("a", threads=4), LONG, ["a"], {}),
    (
        "beside busy threads, one job of a queue of which nothing is known",
        {},
        waiting_or_running("a", threads=4),
        LONG,
        ["a", "b", "c"],
        {"b": 1, "c": 1},
    ),
    (
        "beside busy threads, a few jobs of a mixed queue",
        {},
        waiting_or_running("a", threads=4, coroutine_queues={"a"}),
        LONG,
        ["a"],
        {"a": 4},
    ),
    (
        "beside busy threads and too much that waits for them, none of a mixed queue",
        {},
        waiting_or_running("a", threads=8, coroutine_queues={"a"}),
        LONG,
        ["a"],
        {},
    ),
    (
        "coroutines need no thread",
        {},
        waiting_or_running("a", threads=4, coroutine_queues={"b"}),
        LONG,
        ["a", "b"],
        {"b": COROUTINES},
    ),
    (
        "coroutines up to their limit",
        {},
        waiting_or_running("b", loop=COROUTINES - 10),
        LONG,
        ["b"],
        {"b": 10},
    ),
    ("no room for coroutines", {}, waiting_or_running("b", loop=COROUTINES), LONG, ["b"], {}),
    (
        "short coroutines: work for 50 ms is claimed ahead",
        {},
        waiting_or_running("b", loop=20, loop_average=SHORT, running_in_loop=0),
        LONG,
        ["b"],
        {"b": COROUTINES + 50 - 20},
    ),
    (
        "short coroutines behind one that blocks the loop: nothing is claimed ahead any more",
        {},
        waiting_or_running("b", loop=20, loop_average=SHORT, running_in_loop=1, last_start_in_loop=-1e9),
        LONG,
        ["b"],
        {"b": COROUTINES - 20},
    ),
    (
        "beside a mixed queue, short coroutines are not claimed ahead",
        {},
        waiting_or_running("b", loop=20, loop_average=SHORT, plain_queues={"c"}, coroutine_queues={"b", "c"}),
        LONG,
        ["b"],
        {"b": COROUTINES - 20},
    ),
    (
        "very short coroutines: more than half of what was claimed ahead is left",
        {},
        waiting_or_running("b", loop=301, loop_average=0.0, running_in_loop=0),
        LONG,
        ["b"],
        {},
    ),
    (
        "short coroutines behind as many long ones as may run: nothing is claimed ahead any more",
        {},
        waiting_or_running("b", loop=COROUTINES, loop_average=SHORT, last_start_in_loop=-1e9),
        LONG,
        ["b"],
        {},
    ),
    ("more than half of what was claimed ahead is left", {}, waiting_or_running("a", threads=150), SHORT, ["a"], {}),
    (
        "half of what was claimed ahead is left",
        {},
        waiting_or_running("a", threads=100),
        SHORT,
        ["a"],
        {"a": 104},
    ),
    (
        "short jobs behind one that takes long: nothing is claimed ahead any more",
        {"threads": 1},
        waiting_or_running("a", threads=1, busy_for=1.0),
        SHORT,
        ["a"],
        {},
    ),
    ("not more than --max-jobs", {"max_jobs": 3}, {"finished": 1}, LONG, ["a"], {"a": 2}),
    (
        "--max-jobs counts what is in hand and not yet settled",
        {"max_jobs": 10},
        {"finished": 7, "total": 2},
        LONG,
        ["a"],
        {"a": 1},
    ),
    ("--max-jobs are done", {"max_jobs": 3}, {"finished": 3}, LONG, ["a"], {}),
    (
        "not more than the shared memory can list",
        {},
        {"total": CAPACITY - 2},
        SHORT,
        ["a"],
        {"a": 2},
    ),
    ("the shared memory is full", {}, {"total": CAPACITY}, SHORT, ["a"], {}),
]


@pytest.mark.parametrize(
    ("options", "in_hand", "average", "queues", "wants"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS]
)
def test_what_to_claim(options, in_hand, average, queues, wants):
    found = budget(options, in_hand, average)
    assert found.wants(queues, *found.room()) == wants


def test_the_concurrency_of_the_settings_applies_where_the_command_line_gives_none(configure):
    configure(QUEUES={"a": {"concurrency": 2}})
    found = budget({}, waiting_or_running("a", threads=1))
    assert found.wants(["a", "b"], *found.room()) == {"a": 1, "b": 1}
    found = budget({"queues": {"a": 3}}, waiting_or_running("a", threads=1))
    assert found.wants(["a"], *found.room()) == {"a": 2}


@pytest.mark.parametrize(
    ("in_hand", "average", "wants", "count"),
    [
        pytest.param({}, LONG, ["a"], 4, id="as many as threads are free"),
        pytest.param(waiting_or_running("a", threads=3), LONG, ["a"], 1, id="one thread is free"),
        pytest.param(waiting_or_running("a", threads=9), LONG, ["a"], 0, id="no thread is free"),
        pytest.param({}, SHORT, ["a"], MOST, id="all short jobs"),
        pytest.param(waiting_or_running("a", loop=1), LONG, ["a"], MOST, id="all coroutines"),
        pytest.param(waiting_or_running("a", loop=1), LONG, ["a", "b"], 4, id="coroutines and unknown jobs"),
    ],
)
def test_how_many_claimed_jobs_are_marked_as_started(in_hand, average, wants, count):
    assert budget({}, in_hand, average).start_at_once(wants) == count


@pytest.mark.parametrize(
    ("in_hand", "are_stuck"),
    [
        pytest.param(waiting_or_running("a", threads=4, busy_for=9.0), False, id="nothing waits"),
        pytest.param({"for_threads": 6, "running_in_threads": 4, "busy_for": 0.1}, False, id="waits for a moment"),
        pytest.param({"for_threads": 6, "running_in_threads": 4, "busy_for": 0.6}, True, id="waits for too long"),
        pytest.param({"for_threads": 6, "running_in_threads": 3, "busy_for": 0.6}, False, id="a thread is free"),
        pytest.param({"for_threads": 20, "running_in_threads": 4}, False, id="as many as are claimed"),
        pytest.param({"for_threads": 21, "running_in_threads": 4}, True, id="claimed when jobs were shorter"),
    ],
)
def test_when_waiting_jobs_are_given_back(in_hand, are_stuck):
    assert budget({}, in_hand).threads_are_stuck is are_stuck


@pytest.mark.parametrize("threads", [1, 4, 64])
@pytest.mark.parametrize("average", [0.0, 0.0001, 0.001, 0.01, 0.02, 0.05, 0.5, LONG])
def test_what_is_claimed_is_not_given_back_at_once(threads, average):
    """Else the same jobs would be claimed and given back without end; the threads are busy, and a queue is mixed."""
    known = {"coroutine_queues": {"a"}, "plain_queues": {"a"}}
    counts = waiting_or_running("a", threads=threads, **known)
    found = budget({"threads": threads}, counts, average)
    claimed = sum(found.wants(["a"], 0, COROUTINES).values()) or sum(found.wants(["a"], *found.room()).values())
    counts["for_threads"] += claimed + found.room()[0]
    assert not budget({"threads": threads}, counts, average).threads_are_stuck


def test_a_moment_without_a_start_does_not_count():
    """All threads may have waited for Python's lock while the claimer held it."""
    at_once, soon = (
        budget({}, waiting_or_running("a", threads=4, busy_for=seconds), SHORT).room()[0] for seconds in (0.0, 0.015)
    )
    assert at_once == soon == 200


@pytest.mark.parametrize(
    ("fields", "is_stuck"),
    [
        pytest.param({"running_in_loop": 100}, True, id="as many run as may"),
        pytest.param({"running_in_loop": 99}, False, id="the loop has room"),
        pytest.param({"running_in_loop": 100, "coroutine_queues": {"a"}, "plain_queues": {"b"}}, True, id="own queues"),
        pytest.param({"running_in_loop": 100, "coroutine_queues": {"a"}, "plain_queues": {"a"}}, False, id="mixed"),
    ],
)
def test_when_waiting_coroutines_are_given_back(fields, is_stuck):
    assert budget({}, {"for_loop": 150, "last_start_in_loop": -1e9, **fields}).loop_is_stuck is is_stuck


def test_a_process_that_has_run_its_jobs_is_spent():
    assert not budget({}, {"finished": 1000}).is_spent
    assert not budget({"max_jobs": 10}, {"finished": 9}).is_spent
    assert budget({"max_jobs": 10}, {"finished": 10}).is_spent
