"""The admin in Chromium, under a strict content security policy, with a real worker."""

from __future__ import annotations

import pytest
from django.contrib.admin.utils import quote

import djqueue
from djqueue import kv
from djqueue.models import DoneJob, Schedule, Worker
from tests.factories import DeadJobFactory, KVFactory, ScheduleFactory, WorkerFactory, ago
from tests.tools import eventually, places, rows
from tests.worker import tasks

pytestmark = [pytest.mark.browser, pytest.mark.databases("postgresql")]

with_and_without_scripts = pytest.mark.parametrize("visitor", [True, False], indirect=True, ids=["scripts", "none"])


def dead_letters() -> None:
    """Create a realistic list of dead jobs."""
    for number in range(23):
        declined = number % 4 == 3
        DeadJobFactory(
            task="shop.charge",
            queue="money",
            kwargs={"order_id": 4000 + number},
            args=[],
            last_error=f"order {4000 + number}: card {'declined' if declined else 'company does not answer'}",
            errors=[{"attempt": 3, "exception": "shop.CardDeclined" if declined else "builtins.ConnectionError"}],
            failed_at=ago(60 + 37 * number),
        )
    for number in range(6):
        DeadJobFactory(
            task="shop.send_invoice",
            queue="email",
            args=[f"customer{number}@example.com"],
            last_error="[Errno 111] Connection refused",
            errors=[{"attempt": 3, "exception": "builtins.ConnectionRefusedError"}],
            failed_at=ago(400 + 91 * number),
        )


@with_and_without_scripts
def test_dead_job_is_inspected_requeued_and_done(visitor, worker):
    handle = tasks.fail_once.using(max_attempts=1, queue="money", headers={"request": "7f3a"}).enqueue(order_id=42)
    eventually(lambda: handle.status() == "dead")
    dead_letters()
    visitor.log_in()
    visitor.open("deadjob/")
    visitor.reads("By task and error")
    visitor.shoot("dead-list")
    visitor.page.locator("#result_list").get_by_role("link", name="tests.worker.tasks.fail_once").click()
    visitor.reads("ConnectionError")
    visitor.reads("Traceback (most recent call last)")
    visitor.reads("the card company does not answer for order 42")
    visitor.shoot("dead-job")
    visitor.press("Requeue …")
    visitor.reads("Go back")
    assert visitor.page.get_by_role("button", name="Requeue 1 job", exact=True).is_visible()
    assert places(handle.id) == ["DeadJob"]
    visitor.shoot("requeue-confirmation")
    visitor.confirm()
    visitor.reads("1 requeued, 0 skipped.")
    visitor.reads("Result", reloading=True)
    assert "/donejob/" in visitor.page.url
    visitor.reads("paid order 42")
    visitor.shoot("requeued-done")
    assert handle.status() == "done"


def test_a_running_job_is_cancelled(visitor, worker):
    handle = tasks.work_in_steps.enqueue(60_000, 0.01)
    visitor.log_in()
    eventually(lambda: (record := handle.job()) and record.progress)
    visitor.open(f"job/{handle.id}/change/")
    visitor.reads("Progress")
    visitor.shoot("running-job")
    visitor.press("Cancel …")
    visitor.reads("Keep it")
    visitor.shoot("cancel-confirmation")
    visitor.confirm()
    visitor.reads("0 cancelled, 1 asked to stop, 0 skipped.")
    visitor.reads("cancelled", reloading=True)
    visitor.reads("ran for", reloading=True)
    visitor.shoot("cancelled-job")
    assert handle.status() == "cancelled"


@with_and_without_scripts
def test_a_queue_is_paused_and_resumed(visitor, worker):
    tasks.double.using(queue="mail").enqueue(1).wait(60)
    visitor.log_in()
    visitor.open("queuestate/")
    visitor.press("Pause mail")
    visitor.confirm()
    visitor.reads("1 paused, 0 skipped.")
    waiting = tasks.double.using(queue="mail").enqueue(2)
    visitor.page.reload()
    visitor.shoot("queues-paused")
    assert djqueue.Queue("mail").paused
    assert not waiting.wait(1).completed
    visitor.press("Resume mail")
    visitor.confirm()
    visitor.reads("1 resumed, 0 skipped.")
    assert waiting.wait(60).record.result == 4
    visitor.page.reload()
    visitor.shoot("queues-resumed")


def own_row(worker) -> Worker:
    """Return the row of the only process of a worker."""
    return eventually(lambda: rows(Worker).filter(stopped_at=None).first(), 60)


@with_and_without_scripts
def test_draining_a_worker_from_its_page_ends_it(visitor, worker):
    running = tasks.wait_for.using(queue="money").enqueue("go")
    eventually(lambda: running.status() == "claimed", 60)
    done = [tasks.double.enqueue(number) for number in range(3)]
    assert [handle.wait(60).completed for handle in done] == [True] * 3
    visitor.log_in()
    visitor.open(f"worker/{quote(own_row(worker).pk)}/change/")
    visitor.reads("tests.worker.tasks.wait_for", reloading=True)
    visitor.reads("Among the newest")
    narrow = visitor.page.evaluate("[...document.querySelectorAll('.djq-worker td')].map(one => one.clientWidth)")
    assert min(narrow) > 50, "no column has one letter per line"
    visitor.shoot("worker")
    visitor.press("Drain …")
    visitor.reads("a service manager must start them again")
    visitor.shoot("drain-confirmation")
    visitor.confirm()
    visitor.reads("1 asked to drain, 0 skipped.")
    visitor.shoot("worker-drain-requested")
    visitor.reads("◒ draining", reloading=True)
    assert worker.poll() is None
    kv.set("go", True)
    assert worker.wait(120) == 0
    assert running.status() == "done"
    visitor.reads("■ stopped", reloading=True)
    visitor.shoot("worker-stopped")


@with_and_without_scripts
def test_a_worker_is_quieted_and_resumed_from_its_page(visitor, worker):
    assert tasks.double.enqueue(1).wait(60).completed
    visitor.log_in()
    visitor.open(f"worker/{quote(own_row(worker).pk)}/change/")
    visitor.press("Quiet …")
    visitor.confirm()
    visitor.reads("1 asked to be quiet, 0 skipped.")
    visitor.reads("◌ quiet", reloading=True)
    visitor.shoot("worker-quiet")
    waiting = tasks.double.enqueue(2)
    assert not waiting.wait(1).completed
    visitor.press("Resume …")
    visitor.confirm()
    assert waiting.wait(60).record.result == 4
    visitor.reads("● alive", reloading=True)


@with_and_without_scripts
def test_all_matching_jobs_are_requeued(visitor):
    dead_letters()
    visitor.log_in()
    visitor.open("deadjob/")
    visitor.page.get_by_role("link", name="order #: card company does not answer").click()
    visitor.press("Requeue …")
    visitor.reads("18 dead jobs")
    visitor.page.fill("#id_spread", "10")
    visitor.confirm()
    visitor.reads("18 requeued, 0 skipped.")
    assert djqueue.stats("money").dead == 5
    assert djqueue.stats("email").dead == 6


def test_action_on_selected_jobs(visitor):
    dead_letters()
    visitor.log_in()
    visitor.open("deadjob/?queue=email")
    visitor.page.check("#action-toggle")
    visitor.page.select_option("select[name=action]", "delete")
    visitor.page.click("button[name=index]")
    visitor.reads("6 dead jobs")
    assert visitor.page.get_by_role("button", name="Delete 6 jobs", exact=True).is_visible()
    visitor.reads("Keep them")
    visitor.shoot("delete-confirmation")
    visitor.confirm()
    visitor.reads("6 deleted, 0 skipped.")
    assert djqueue.stats("email").dead == 0


def test_requeue_with_other_arguments_and_remaining_pages(visitor):
    job = DeadJobFactory(task="tests.app.tasks.log_in", args=["ada", "hunter2"])
    WorkerFactory(name="web-1", queues=["money", "email"], threads=4, running=2, finished=12345, memory=180_000_000)
    WorkerFactory(heartbeat_at=ago(400))
    ScheduleFactory(name="nightly report", cron="0 3 * * *", next_at=ago(-3600), last_at=ago(80000))
    KVFactory(key="colour", value="blue")
    tasks.double.using(delay=3600).enqueue(1)
    tasks.double.enqueue(2)
    visitor.log_in()
    visitor.open(f"deadjob/{job.pk}/change/")
    visitor.press("Requeue with other arguments …")
    visitor.reads("Named arguments")
    assert not visitor.shows("hunter2")
    visitor.page.fill("#id_args", '["grace", "********"')
    visitor.confirm()
    visitor.reads("Invalid JSON")
    visitor.shoot("other-arguments")
    visitor.page.fill("#id_args", '["grace", "********"]')
    visitor.confirm()
    assert djqueue.get_job(job.pk).args == ["grace", "hunter2"]
    for path in ("job/", "donejob/", "worker/", "schedule/", "kv/", "kv/colour/change/"):
        visitor.open(path)
        visitor.shoot(path.strip("/").replace("/", "-"))
    visitor.page.fill("#id_content", '"red"')
    visitor.press("Save")
    assert kv.get("colour") == "red"


@with_and_without_scripts
def test_a_schedule_is_added_and_fires(visitor, worker):
    visitor.log_in()
    visitor.open("schedule/add/")
    visitor.page.fill("#id_name", "pulse")
    visitor.page.select_option("#id_task", "tests.worker.tasks.double")
    visitor.page.fill("#id_args", "[21")
    visitor.page.fill("#id_every", "1")
    visitor.press("Save")
    visitor.reads("Invalid JSON")
    visitor.shoot("schedule-mistake")
    visitor.page.fill("#id_args", "[21]")
    visitor.page.get_by_role("button", name="Save", exact=True).click()
    visitor.reads("was added successfully")
    eventually(lambda: [job.result for job in rows(DoneJob).filter(schedule="pulse")][:1] == [42])
    visitor.open(f"schedule/{rows(Schedule).get().pk}/change/")
    visitor.shoot("schedule")
    visitor.page.uncheck("#id_enabled")
    visitor.page.get_by_role("button", name="Save", exact=True).click()
    visitor.reads("was changed successfully")
    assert not rows(Schedule).get().enabled
    visitor.open("schedule/")
    visitor.shoot("schedules")


@with_and_without_scripts
def test_a_schedule_is_added_with_the_default_or_empty_arguments(visitor):
    visitor.log_in()
    for name, emptied in (("default", False), ("emptied", True)):
        visitor.open("schedule/add/")
        visitor.page.fill("#id_name", name)
        visitor.page.select_option("#id_task", "tests.worker.tasks.look_at_itself")
        visitor.page.fill("#id_every", "3600")
        for field in ("#id_args", "#id_kwargs") if emptied else ():
            visitor.page.fill(field, "")
        visitor.page.get_by_role("button", name="Save", exact=True).click()
        visitor.reads("was added successfully")
        assert (rows(Schedule).get(name=name).args, rows(Schedule).get(name=name).kwargs) == ([], {})
    rows(Schedule).filter(name="default").update(args=[1])
    visitor.open(f"schedule/{rows(Schedule).get(name='default').pk}/change/")
    visitor.page.fill("#id_args", "")
    visitor.page.get_by_role("button", name="Save", exact=True).click()
    visitor.reads("was changed successfully")
    assert rows(Schedule).get(name="default").args == []


@with_and_without_scripts
def test_a_bulk_cancel_is_undone(visitor, worker):
    djqueue.Queue("mail").pause()
    tasks.double.using(queue="mail").enqueue_many([djqueue.call(number) for number in range(3)])
    visitor.log_in()
    visitor.open("job/")
    for name in visitor.page.locator("input.action-select").all():
        name.check()
    visitor.page.select_option("select[name=action]", "cancel")
    visitor.page.click("button[name=index]")
    visitor.reads("Keep them")
    visitor.confirm()
    visitor.reads("3 cancelled, 0 asked to stop, 0 skipped.")
    visitor.open("donejob/?status=cancelled&since=hour")
    for name in visitor.page.locator("input.action-select").all():
        name.check()
    visitor.page.select_option("select[name=action]", "enqueue_again")
    visitor.page.click("button[name=index]")
    visitor.reads("3 jobs are in the queue “mail”, which is paused.")
    visitor.shoot("enqueue-again-confirmation")
    visitor.confirm()
    visitor.reads("3 enqueued again, 0 skipped.")
    visitor.reads("3 jobs are in the queue “mail”, which is paused.")
    djqueue.Queue("mail").resume()
    eventually(lambda: rows(DoneJob).filter(status="done").count() == 3)
    visitor.page.goto(f"{visitor.server}/admin/")
    assert visitor.page.inner_text("#recent-actions-module").count("3 ") == 2
    visitor.shoot("recent-actions")


TRACEBACK = """Traceback (most recent call last):
  File "shop/tasks.py", line 31, in charge
    answer = cards.charge(order.total, token)
  File "shop/cards.py", line 88, in charge
    raise ConnectionError("the card company does not answer")
ConnectionError: the card company does not answer
"""


def test_screenshots_for_the_readme(visitor):
    dead_letters()
    entry = {"exception": "builtins.ConnectionError", "message": "the card company does not answer", "duration": 10.02}
    entry |= {"traceback": TRACEBACK, "worker": "web-1:4711:5c3a"}
    job = DeadJobFactory(
        task="shop.charge",
        queue="money",
        args=[],
        kwargs={"order_id": 4023},
        headers={"request": "7f3a"},
        enqueued_at=ago(240),
        run_at=ago(60),
        started_at=ago(230),
        claimed_at=ago(30),
        failed_at=ago(20),
        last_error="the card company does not answer",
        worker_ids=["web-1:4711:5c3a"] * 3,
        errors=[
            {**entry, "attempt": number, "at": ago(at).isoformat()} for number, at in ((1, 220), (2, 120), (3, 20))
        ],
    )
    visitor.log_in()
    visitor.open("deadjob/?queue=money")
    visitor.reads("By task and error")
    visitor.shoot("readme-dead-list", full_page=False)
    visitor.open(f"deadjob/{job.pk}/change/")
    visitor.reads("Failed attempts")
    visitor.shoot("readme-dead-job")


def test_dark_mode_of_the_admin_applies(visitor):
    dead_letters()
    visitor.page.emulate_media(color_scheme="dark")
    visitor.log_in()
    visitor.open("deadjob/")
    background = visitor.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(18, 18, 18)"  # --body-bg of the admin's dark_mode.css
    visitor.shoot("dead-list-dark")
