"""Which queues a process claims from."""

from __future__ import annotations

from djqueue.worker.options import Options
from djqueue.worker.process.claim_marks import ClaimMarks
from djqueue.worker.process.queues import ClaimableQueues
from tests.app.tasks import add


def test_a_process_that_has_nothing_claims_from_the_queue_of_a_wakeup_without_looking(database):
    queues = ClaimableQueues(Options(), ClaimMarks())
    assert queues.in_order() == []
    add.using(queue="other").enqueue(1, 2)
    queues.claim_from({"named"})
    assert (queues.in_order(), queues.is_fresh) == (["named"], False)


def test_a_queue_that_wakes_the_process_again_and_again_does_not_hide_another(database):
    queues = ClaimableQueues(Options(), ClaimMarks())
    assert queues.in_order() == []
    add.using(queue="busy").enqueue(1, 2)
    add.using(queue="other").enqueue(1, 2)
    found: set[str] = set()
    for _ in range(5):
        queues.claim_from({"busy"})
        found |= set(queues.in_order())
        queues.names_until = 0.0  # LOOK_AGAIN seconds later
    assert found == {"busy", "other"}
