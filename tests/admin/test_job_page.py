"""What a job's page says about its surroundings."""

from __future__ import annotations

from urllib.parse import quote

import pytest

import djqueue
from djqueue.admin import latest_jobs as latest
from tests.admin.tools import Cells, words
from tests.app.tasks import add
from tests.conftest import PLAIN
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
)

pytestmark = pytest.mark.databases(*PLAIN)


def links(page) -> list[str]:
    return [attrs["href"] or "" for tag, attrs in Cells(page.content.decode()).tags if tag == "a" and "href" in attrs]


def test_the_reason_is_at_the_top(boss):
    handle = add.enqueue(1)
    djqueue.Queue("default").pause()
    text = words(boss.page("job", handle.id))
    assert djqueue.explain(handle).text.partition(" since ")[0] in text
    assert text.index("Resume it to run its 1 pending job") < text.index("Details")


@pytest.mark.parametrize("model", ["donejob", "deadjob"])
def test_a_finished_job_says_what_became_of_it(boss, model):
    job = {"donejob": DoneJobFactory, "deadjob": DeadJobFactory}[model](claimed_at=ago(3))
    text = words(boss.page(model, job.pk))
    assert {"donejob": "The job was done at", "deadjob": "The job became dead at"}[model] in text
    assert "Estimated start" not in text


def test_the_estimate_is_shown_for_a_waiting_job(boss):
    ThroughputFactory(done=10, run_sum=20.0, run_bucket=8)
    WorkerFactory(threads=1)
    for _ in range(20):
        JobFactory()
    job = JobFactory()
    text = words(boss.page("job", job.pk))
    assert "Estimated start: in about 40 s, 9 times out of 10 within" in text
    assert "20 jobs ahead" in text


def test_links_to_the_queue_the_workers_and_the_schedule(boss):
    WorkerFactory(identity="host:1:abc")
    schedule = ScheduleFactory(name="nightly")
    job = DoneJobFactory(queue="e&mail", schedule="nightly", worker_ids=["gone:1:x", "host:1:abc"])
    page = boss.page("donejob", job.pk)
    found = links(page)
    assert "/admin/djqueue/job/?queue=e%26mail" in found
    assert f"/admin/djqueue/schedule/{schedule.pk}/change/" in found
    assert any("/worker/host" in url for url in found)
    assert not any("gone" in url for url in found)
    assert "gone:1:x, host:1:abc" in words(page).replace(" ,", ",")
    followed = [boss.client.get(url) for url in found if "worker/host" in url or "?queue=" in url]
    assert [answer.status_code for answer in followed] == [200, 200]


def test_pages_that_the_user_may_not_view_are_not_linked(people):
    WorkerFactory(identity="host:1:abc")
    ScheduleFactory(name="nightly")
    DeadJobFactory()
    job = DoneJobFactory(schedule="nightly", worker_ids=["host:1:abc"], claimed_at=ago(1))
    page = people("view_donejob").page("donejob", job.pk)
    found = links(page)
    assert "host:1:abc" in words(page)
    assert not [url for url in found if any(f"/{name}/" in url for name in ("worker", "schedule", "job", "deadjob"))]
    assert [row.status for row in page.context["latest"].jobs] == ["done"]


def test_latest_jobs_of_the_task(boss):
    others = [DoneJobFactory(task="other", claimed_at=ago(9)) for _ in range(3)]
    for number in range(15):
        DoneJobFactory(claimed_at=ago(100 - number + 2), completed_at=ago(100 - number))
        DeadJobFactory(claimed_at=ago(50 - number + 4), failed_at=ago(50 - number))
    cancelled = DoneJobFactory(cancelled=True, completed_at=ago(1))
    page = boss.page("job", JobFactory().pk)
    found = page.context["latest"]
    assert len(found.jobs) == latest.MOST
    assert found.jobs[0].id == cancelled.pk
    assert found.jobs[0].seconds is None
    assert [row.status for row in found.jobs[:17]] == ["cancelled"] + ["dead"] * 15 + ["done"]
    assert not {row.id for row in found.jobs} & {job.pk for job in others}
    assert found.chart.count("<a ") == 19  # all but the cancelled one, which did not run
    assert "djq-bar-failed" in found.chart
    assert "Run times of the latest 19 jobs, oldest first: from 2.0 s to 4.0 s; median 4.0 s." in words(page)
    assert all(boss.client.get(row.url).status_code == 200 for row in found.jobs[::10])


def test_the_job_itself_is_marked_among_the_latest(boss):
    job = DeadJobFactory(claimed_at=ago(1))
    assert "this job" in words(boss.page("deadjob", job.pk))


def test_rare_tasks_are_searched_in_the_newest_done_jobs(boss, monkeypatch):
    monkeypatch.setattr(latest, "WINDOW", 5)
    DoneJobFactory(task="rare")
    for _ in range(4):
        DoneJobFactory()
    job = JobFactory(task="rare")
    assert len(boss.page("job", job.pk).context["latest"].jobs) == 1
    DoneJobFactory()
    assert boss.page("job", job.pk).context["latest"] is None


def test_rows_edited_by_hand_are_explained(boss):
    for fields in (
        {"status": "claimed"},
        {"status": "claimed", "progress": {"done": [], "total": {}}},
        {"status": "strange"},
        {"status": "scheduled", "run_at": ago(-50), "attempts": 1, "failed_at": ago(5)},
        {"queue": "<b>", "worker_ids": ["<i>", quote("/")]},
    ):
        job = JobFactory(**fields)
        assert boss.page("job", job.pk).status_code == 200
    dead = DeadJobFactory(failed_at=None)
    assert boss.page("deadjob", dead.pk).status_code == 200


def test_sensitive_arguments_stay_masked_in_the_reason(boss):
    job = JobFactory(
        task="tests.app.tasks.log_in",
        args=["ada", "sesame-open"],
        scheduled=True,
        attempts=1,
        failed_at=ago(1),
        last_error="wrong: sesame-open",
    )
    text = words(boss.page("job", job.pk))
    assert "sesame" not in text
    assert "failed at" in text
