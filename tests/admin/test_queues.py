"""The list of queues says which of them a worker consumes."""

from __future__ import annotations

import pytest

from tests.factories import JobFactory, QueueStateFactory, WorkerFactory, ago

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")


def states(boss) -> dict[str, str]:
    found = boss.get("queuestate").context["queues"]
    return {row["name"]: str(row["state"]).removesuffix("</span>").rpartition("</span> ")[2] for row in found}


def fill() -> None:
    for name in ("a", "b", "c"):
        JobFactory(queue=name)
    QueueStateFactory(queue="held", paused=True, paused_at=ago(60))


@pytest.mark.parametrize(
    ("worker", "consumed"),
    [
        ({"queues": []}, "abc"),
        ({"queues": ["a", "b"]}, "ab"),
        ({"queues": {"queues": [], "exclude": ["a"]}}, "bc"),
        ({"queues": {"queues": ["a", "b"], "exclude": ["a"]}}, "b"),
        ({"queues": False}, ""),
        ({"seconds": 10}, "abc"),
        ({"seconds": 16}, ""),
        ({"draining": True}, ""),
        ({"stopped_at": ago(1)}, ""),
    ],
)
def test_a_queue_that_no_live_worker_consumes_says_so(boss, worker, consumed):
    fill()
    WorkerFactory(heartbeat_at=ago(worker.get("seconds", 0)), **{k: v for k, v in worker.items() if k != "seconds"})
    expected = {name: "running" if name in consumed else "no worker" for name in "abc"}
    assert states(boss) == expected | {"held": "paused"}


def test_without_a_worker_no_queue_is_running(boss):
    fill()
    assert states(boss) == {"a": "no worker", "b": "no worker", "c": "no worker", "held": "paused"}


def test_two_workers_together_consume_what_each_of_them_does(boss):
    fill()
    WorkerFactory(queues=["a"])
    WorkerFactory(queues=["c"])
    assert states(boss) == {"a": "running", "b": "no worker", "c": "running", "held": "paused"}


def test_the_count_of_blocked_jobs_links_to_them(boss):
    JobFactory(status="blocked", limit_key="tenant:1")
    JobFactory()
    [row] = boss.get("queuestate").context["queues"]
    count, link = row["counts"][2]
    assert count == 1
    [job] = boss.client.get(link).context["cl"].result_list
    assert job.status == "blocked"


def test_the_count_of_claimed_jobs_links_to_claimed_and_running_ones(boss):
    JobFactory(claimed=True)
    JobFactory(claimed=True, started=False)
    [row] = boss.get("queuestate").context["queues"]
    count, link = row["counts"][3]
    assert count == 2
    assert boss.client.get(link).context["cl"].result_count == 2
