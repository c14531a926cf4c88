from __future__ import annotations

import pytest

import djqueue
from djqueue.operations import summary
from tests.conftest import PLAIN
from tests.factories import DeadJobFactory, JobFactory, QueueStateFactory, ThroughputFactory, WorkerFactory, ago
from tests.tools import statements_sent


@pytest.mark.databases(*PLAIN)
def test_a_queue_is_summed_up(database):
    JobFactory(queue="email", enqueued_at=ago(300), run_at=ago(300))
    JobFactory(queue="email", priority=5, enqueued_at=ago(9000), run_at=ago(100))  # delayed until 100 s ago
    JobFactory(queue="email", scheduled=True)
    JobFactory(queue="email", claimed=True)
    DeadJobFactory(queue="email")
    ThroughputFactory(queue="email", done=7)
    QueueStateFactory(queue="paused", paused=True)
    WorkerFactory(queues=["email"])
    WorkerFactory(queues=[], quiet=True)
    email, paused = summary.queues()
    assert (email.pending, email.scheduled, email.blocked, email.claimed, email.dead, email.done) == (2, 1, 0, 1, 1, 7)
    assert 299 < email.oldest_pending_seconds < 310
    assert (email.paused, email.consumed) == (False, True)
    assert (paused.queue, paused.paused, paused.consumed, paused.oldest_pending_seconds) == (
        "paused",
        True,
        False,
        None,
    )


@pytest.mark.databases(*PLAIN)
def test_the_oldest_job_of_any_priority_counts(database):
    for number in range(60):
        JobFactory(priority=1, enqueued_at=ago(50 - number / 10), run_at=ago(50 - number / 10))
    JobFactory(priority=9, enqueued_at=ago(500), run_at=ago(500))
    JobFactory(priority=9, queue="other")
    oldest = {row.queue: row.oldest_pending_seconds for row in summary.queues()}
    assert 499 < oldest["default"] < 510
    assert oldest["other"] < 10


@pytest.mark.databases(*PLAIN)
def test_states_of_workers(database):
    states = {
        "alive": WorkerFactory(loops={"claimer": 0.5}),
        "quiet": WorkerFactory(quiet=True),
        "draining": WorkerFactory(quiet=True, draining=True),
        "lost": WorkerFactory(heartbeat_at=ago(13), draining=True),
        "stopped": WorkerFactory(heartbeat_at=ago(20), stopped_at=ago(20)),
    }
    found = {row.identity: row for row in summary.all_workers(stopped=True)}
    assert {name: found[row.identity].state for name, row in states.items()} == {name: name for name in states}
    assert {name for name, row in states.items() if found[row.identity].alive} == {"alive", "quiet", "draining"}
    assert 0.5 <= found[states["alive"].identity].loops["claimer"] < 5
    assert states["stopped"].identity not in {row.identity for row in summary.all_workers()}


@pytest.mark.databases(*PLAIN)
def test_the_json_has_the_documented_keys(database):
    djqueue.enqueue("tests.app.tasks.add", args=[1])
    WorkerFactory(name="w1")
    found = summary.as_json()
    [queue], [worker] = found["queues"], found["workers"]
    assert list(queue) == [
        *("queue", "pending", "scheduled", "blocked", "claimed", "dead", "done", "paused", "oldest_pending_seconds"),
    ]
    assert list(worker) == ["name", "host", "pid", "queues", "running", "alive", "heartbeat_seconds"]
    assert (worker["name"], worker["alive"]) == ("w1", True)


@pytest.mark.databases(*PLAIN)
def test_the_number_of_statements_does_not_depend_on_the_number_of_queues(database):
    for number in range(30):
        JobFactory(queue=f"q{number}")
        WorkerFactory(queues=[f"q{number}"])
    with statements_sent() as sent:
        summary.as_json()
    assert len(sent) <= 6
