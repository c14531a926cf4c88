"""The page of a job in a real browser: the reason, the estimate, the links and the chart."""

from __future__ import annotations

import random

import pytest

import djqueue
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
)

pytestmark = [pytest.mark.browser, pytest.mark.databases("postgresql")]


@pytest.fixture
def waiting(server):
    """Create a job with a past: 120 jobs ahead, finished jobs of its task, a worker and a schedule."""
    dice = random.Random(1)
    worker = WorkerFactory(identity="web-1:4711:5c3a9f2e", threads=4, heartbeat_at=ago(-600))
    ScheduleFactory(name="nightly")
    ThroughputFactory(done=100, run_sum=200.0, run_bucket=8)
    for number in range(18):
        took = dice.uniform(0.5, 4)
        end = ago(60 * (number + 1))
        factory, column = (DeadJobFactory, "failed_at") if number in (4, 11) else (DoneJobFactory, "completed_at")
        factory(**{column: end}, claimed_at=ago(60 * (number + 1) + took))
    for _ in range(4):
        JobFactory(claimed=True, worker=worker.identity)
    for _ in range(120):
        JobFactory()
    return JobFactory(schedule="nightly", worker_ids=[worker.identity, "gone:1:x"], attempts=2)


@pytest.mark.parametrize("visitor", [True, False], indirect=True, ids=["with JavaScript", "without JavaScript"])
def test_a_waiting_job_is_explained_and_leads_to_its_neighbours(visitor, waiting):
    visitor.log_in()
    visitor.open(f"job/{waiting.pk}/change/")
    visitor.reads("The job waits for its turn: 120 jobs are ahead of it in the queue “default”")
    visitor.reads("Estimated start: in about")
    visitor.reads("Run times of the latest 18 jobs")
    visitor.shoot("job-waiting")
    visitor.page.locator(".djq-chart a").nth(13).click()  # the fifth from the end
    visitor.reads("The job became dead at")
    visitor.open(f"job/{waiting.pk}/change/")
    visitor.press("web-1:4711:5c3a9f2e")
    visitor.page.wait_for_url("**/djqueue/worker/**")
    visitor.open(f"job/{waiting.pk}/change/")
    visitor.press("nightly")
    visitor.page.wait_for_url("**/djqueue/schedule/**")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_fits_its_window(visitor, waiting, theme, width):
    visitor.log_in()
    visitor.page.emulate_media(color_scheme=theme)
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.open(f"job/{waiting.pk}/change/")
    visitor.reads("Latest jobs of this task")
    visitor.shoot(f"job-explained-{theme}-{width}")
    assert visitor.overflows() == []


def test_pausing_the_queue_changes_the_reason(visitor, waiting):
    visitor.log_in()
    djqueue.Queue("default").pause()
    visitor.open(f"job/{waiting.pk}/change/")
    visitor.reads("The queue “default” has been paused since")
    visitor.shoot("job-paused")
    assert not visitor.shows("Estimated start")
