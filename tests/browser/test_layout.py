"""Every page fits into wide and narrow windows, whatever the length of names, arguments and errors."""

from __future__ import annotations

import pytest

from djqueue.models import Job
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    KVFactory,
    LimitKeyFactory,
    QueueStateFactory,
    ScheduleFactory,
    WorkerFactory,
    ago,
)

pytestmark = [pytest.mark.browser, pytest.mark.databases("postgresql")]

TASK = "warehouse.integrations.suppliers.synchronisation.tasks.import_all_the_price_lists_of_a_supplier"
QUEUE = "warehouse-integrations-suppliers-synchronisation-with-a-very-long-name-that-does-not-break"
WORKER = "kubernetes-node-eu-central-1a-0042.internal.example.com:4711:5c3a9f2e7b1d4c8e"
WORD = "x" * 300
ERROR = f"HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded with url: /{WORD}"
TRACEBACK = f'Traceback (most recent call last):\n  File "{WORD}", line 1, in <module>\nValueError: {ERROR}\n'


@pytest.fixture
def long_rows(server):
    """Create rows with long texts in every column of every table, and return the paths of their pages."""
    entry = {"exception": f"{TASK}.ServiceUnavailable", "message": ERROR, "duration": 10.02, "traceback": TRACEBACK}
    errors = [
        {**entry, "attempt": 1, "at": ago(700).isoformat(), "worker": WORKER, "before_requeue": True},
        {**entry, "attempt": 1, "at": ago(90).isoformat(), "worker": WORKER},
    ]
    job = {
        "task": TASK,
        "queue": QUEUE,
        "args": [WORD, 12345678901234567890],
        "kwargs": {"a_supplier_with_a_long_name": "a text of several words, and more", WORD: WORD},
        "headers": {"request": WORD},
        "last_error": ERROR,
        "errors": errors,
        "worker_ids": [WORKER] * 3,
        "dedup_key": WORD[:200],
        "progress": {"done": 1, "total": 3, "message": WORD},
        "enqueued_at": ago(800_000),
        "run_at": ago(90_000),
        "started_at": ago(700),
        "claimed_at": ago(90),
    }
    waiting = {"dedup_key": None, "claimed_at": None}
    held = {"status": "claimed", "worker": WORKER, "lease_expires_at": ago(-30), "cancel_requested": True}
    paths = {
        "job": JobFactory(**job | held),
        "deadjob": DeadJobFactory(**job, failed_at=ago(80)),
        "donejob": DoneJobFactory(**job, completed_at=ago(60), result={"supplier": WORD}),
        "worker": WorkerFactory(
            identity=WORKER,
            name=WORKER,
            supervisor=WORKER,
            host=WORKER[:60],
            queues=[QUEUE, "a", QUEUE],
            finished=12_345_678,
            memory=180_000_000,
            samples=[[60 * number, 90_000_000 + 1_000_000 * (number * 7 % 90)] for number in range(120)],
            loops={"claimer": 0.4, "completer": 0, "leases": 0.1, "reaper": 3 * 3600, "scheduler": 2.5, "sweeps": 12},
            started_at=ago(7200),
            heartbeat_at=ago(-600),  # alive until its buttons are pressed
            request="drain",
            requested_at=ago(3),
        ),
        "schedule": ScheduleFactory(name=f"every {WORD[:200]}", task=TASK, args=[WORD], queue=QUEUE, problem=ERROR),
        "kv": KVFactory(key=WORD[:250], value={"a": WORD}),
        "limitkey": LimitKeyFactory(key=WORD[:250], concurrency=1000, rate=10.0, burst=100, held_until=ago(-6000)),
    }
    JobFactory(**job | waiting | {"status": "scheduled", "run_at": ago(-700_000)})
    for status in ("pending", "blocked"):
        JobFactory(**job | waiting | {"status": status, "limit_key": WORD[:250]})
    for task in ("shop.charge", "tests.app.tasks.add"):
        call = {"task": task, "args": [WORD], "kwargs": {"a_long_name": "a text of several words, and more"}}
        JobFactory(**call)
        DeadJobFactory(**call, last_error="no answer", failed_at=ago(300))
        DoneJobFactory(**call, status="cancelled", completed_at=ago(10))
    WorkerFactory(name=f"{WORKER} quarantine", supervisor=WORKER, host=WORKER[:60], quiet=True)
    QueueStateFactory(queue=QUEUE, paused=True, paused_at=ago(100_000))
    return {model: row.pk for model, row in paths.items()}


def visit_every_page(visitor, pks, check) -> None:
    for model, pk in pks.items():
        visitor.open(f"{model}/")
        check(f"{model}-list")
        visitor.open(f"{model}/{pk}/change/")
        check(f"{model}-page")
        visitor.open(f"{model}/{pk}/history/")
        check(f"{model}-history")
    for path in (
        "overview/",
        "job/?status=scheduled&o=6",
        "deadjob/?q=nothing",
        "queuestate/",
        "schedule/add/",
        "kv/add/",
    ):
        visitor.open(path)
        check(path.partition("?")[0].strip("/").replace("/", "-") + ("-filtered" if "?" in path else ""))
    confirmations = {"job": ["Cancel", "Change priority or time"], "deadjob": ["Requeue", "Delete"]}
    confirmations |= {"donejob": ["Enqueue again"], "worker": ["Quiet", "Drain"]}
    confirmations |= {"limitkey": ["Hold", "Release", "Set numbers", "Clear numbers"]}
    confirmations["deadjob"] += ["Requeue with other arguments"]
    waiting = Job.objects.using("postgresql").get(status="scheduled").pk
    for model, buttons in confirmations.items():
        for button in buttons:
            visitor.open(f"{model}/{waiting if model == 'job' else pks[model]}/change/")
            visitor.page.get_by_role("button", name=f"{button} …", exact=True).click()
            visitor.page.wait_for_selector(".djq-confirm")
            check(f"{model}-{button.lower().replace(' ', '-')}")
    visitor.open("queuestate/")
    visitor.page.get_by_role("button", name=f"Resume {QUEUE}").click()
    visitor.page.wait_for_selector(".djq-confirm")
    check("queuestate-resume")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_is_wider_than_the_window(visitor, long_rows, width, theme):
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.page.emulate_media(color_scheme=theme)
    visitor.log_in()
    wrong = {}

    def check(name: str) -> None:
        visitor.shoot(f"layout-{name}-{width}-{theme}")
        if found := visitor.overflows() or visitor.clipped() or (width >= 1440 and visitor.cut_columns()):
            wrong[name] = found

    visit_every_page(visitor, long_rows, check)
    assert wrong == {}
