"""The overview in Chromium: it moves while a real worker runs, and its buttons work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from django.db import connections

import djqueue
from djqueue import schedules
from djqueue.admin.overview import snapshot
from djqueue.models import DoneJob, Worker
from tests.factories import (
    DeadJobFactory,
    JobFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
    now,
)
from tests.tools import eventually, rows
from tests.worker import tasks

pytestmark = [pytest.mark.browser, pytest.mark.databases("postgresql")]

with_and_without_scripts = pytest.mark.parametrize("visitor", [True, False], indirect=True, ids=["scripts", "none"])


@pytest.fixture(autouse=True)
def fresh(server):
    snapshot.forget()
    snapshot.THE_DAY.forget()


def part(visitor, name: str) -> str:
    return visitor.page.inner_text(f"#djq-{name}")


def wait_for(visitor, name: str, text: str, seconds: float = 100) -> None:
    """Wait for a text in a part; on a busy machine, a part is kept for up to a minute."""
    deadline = time.monotonic() + seconds
    while text not in part(visitor, name):
        assert time.monotonic() < deadline, f"{text!r} did not appear: {part(visitor, name)}"
        visitor.page.wait_for_timeout(100)


def test_the_overview_moves_while_a_worker_runs(visitor, worker):
    visitor.log_in()
    visitor.page.get_by_role("link", name="Overview", exact=True).first.click()
    visitor.reads("Needs attention")
    assert "There are no queues yet." in part(visitor, "queues")
    running = tasks.work_in_steps.using(queue="reports").enqueue(60_000, 0.01)
    tasks.double.using(queue="mail").enqueue(1)
    wait_for(visitor, "queues", "mail")
    wait_for(visitor, "workers", "tests.worker.tasks.work_in_steps")
    wait_for(visitor, "throughput", "Done: 1")
    visitor.page.locator("#djq-workers").get_by_role("link", name="work_in_steps").click()
    visitor.reads(str(running.id))
    running.cancel()


def test_a_job_is_found_by_its_id(visitor):
    job = DeadJobFactory(last_error="no money left")
    visitor.log_in()
    visitor.open("overview/")
    visitor.page.fill("#djq-find", str(job.pk))
    visitor.press("Find the job")
    visitor.reads("no money left")
    assert visitor.page.url.endswith(f"/deadjob/{job.pk}/change/")


@with_and_without_scripts
def test_pausing_from_the_overview_stops_claims(visitor, worker):
    tasks.double.using(queue="mail").enqueue(1).wait(60)
    visitor.log_in()
    visitor.open("overview/")
    visitor.press("Pause mail")
    visitor.confirm()
    visitor.reads("1 paused, 0 skipped.")
    assert "/overview/" in visitor.page.url
    assert "paused" in part(visitor, "queues")
    waiting = tasks.double.using(queue="mail").enqueue(2)
    assert not waiting.wait(1).completed
    visitor.press("Resume mail")
    visitor.confirm()
    visitor.reads("1 resumed, 0 skipped.")
    assert waiting.wait(60).record.result == 4


def test_a_button_of_a_refreshed_part_still_works(visitor, worker):
    tasks.double.using(queue="mail").enqueue(1).wait(60)
    visitor.log_in()
    visitor.open("overview/")
    before = visitor.page.get_attribute("#djq-queues", "data-version")
    snapshot.forget()
    eventually(lambda: changed(visitor, "queues", before), 120)
    visitor.press("Pause mail")
    visitor.confirm()
    visitor.reads("1 paused, 0 skipped.")
    assert djqueue.Queue("mail").paused


def changed(visitor, name: str, version: str) -> bool:
    visitor.page.wait_for_timeout(100)
    return visitor.page.get_attribute(f"#djq-{name}", "data-version") != version


def test_a_killed_worker_turns_up_as_lost(visitor, server, database):
    name = str(connections[database].settings_dict["NAME"])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.worker.main", database, name],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        visitor.log_in()
        visitor.open("overview/")
        wait_for(visitor, "workers", "alive")
        os.killpg(process.pid, signal.SIGKILL)
        killed = time.monotonic()
        # Three heartbeats are missing after 12 seconds; the rest is for the refresh, and for a busy machine.
        wait_for(visitor, "workers", "lost")
        print(f"lost after {time.monotonic() - killed:.1f} s")
        wait_for(visitor, "attention", "has sent no heartbeat")
        visitor.shoot("overview-lost-worker")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        rows(Worker).all().delete()


def test_a_hidden_page_does_not_poll(visitor):
    polls: list[str] = []
    visitor.page.on("request", lambda request: polls.append(request.url) if "fragment=" in request.url else None)
    visitor.log_in()
    visitor.page.clock.install()
    visitor.open("overview/")
    visitor.page.clock.run_for(11_000)
    eventually(lambda: polls_after(visitor, polls, 1))
    hide(visitor, True)
    count = len(polls)
    visitor.page.clock.run_for(300_000)
    assert len(polls) == count
    hide(visitor, False)  # refreshes at once
    eventually(lambda: polls_after(visitor, polls, count + 1))


def polls_after(visitor, polls: list[str], count: int) -> bool:
    visitor.page.wait_for_load_state("networkidle")
    return len(polls) >= count


def hide(visitor, hidden: bool) -> None:
    visitor.page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_refresh_is_paused_and_resumed(visitor):
    polls: list[str] = []
    visitor.page.on("request", lambda request: polls.append(request.url) if "fragment=" in request.url else None)
    visitor.log_in()
    visitor.page.clock.install()
    visitor.open("overview/")
    visitor.press("Pause refresh")
    visitor.reads("Refresh is paused.")
    count = len(polls)  # one, if it took long to press the button
    visitor.page.clock.run_for(120_000)
    assert len(polls) == count
    visitor.press("Resume refresh")
    eventually(lambda: polls_after(visitor, polls, count + 1))
    assert not visitor.shows("Refresh is paused.")


def test_a_refresh_keeps_focus_and_scroll_position(visitor):
    for number in range(40):
        JobFactory(queue=f"q{number:02}")
    visitor.page.set_viewport_size({"width": 800, "height": 700})
    visitor.log_in()
    visitor.open("overview/")
    button = visitor.page.locator("button[name=pause][value=q30]")
    button.focus()
    visitor.page.evaluate("document.querySelector('#djq-queues .djq-scroll').scrollLeft = 120")
    top = visitor.page.evaluate("window.scrollY")
    before = visitor.page.get_attribute("#djq-queues", "data-version")
    snapshot.forget()
    eventually(lambda: changed(visitor, "queues", before), 120)
    assert visitor.page.evaluate("document.activeElement.value") == "q30"
    assert visitor.page.evaluate("document.querySelector('#djq-queues .djq-scroll').scrollLeft") == 120
    assert abs(visitor.page.evaluate("window.scrollY") - top) < 5


def test_an_ended_session_is_said_and_no_login_page_is_shown(visitor):
    JobFactory(queue="mail")
    visitor.log_in()
    visitor.open("overview/")
    visitor.page.context.clear_cookies()
    visitor.reads("Your session has ended.")
    assert "mail" in part(visitor, "queues")
    assert visitor.page.locator("#id_password").count() == 0


def test_a_silent_server_is_said_and_asked_less_often(visitor):
    visitor.log_in()
    visitor.open("overview/")
    visitor.page.route("**/overview/?fragment=*", lambda route: route.abort("connectionrefused"))
    visitor.reads("The server does not answer. This page is out of date; trying again in 20 s.")
    visitor.page.unroute("**/overview/?fragment=*")
    eventually(lambda: gone(visitor, "The server does not answer."), 120)
    assert all("ERR_CONNECTION_REFUSED" in one for one in visitor.complaints)
    visitor.complaints.clear()


def gone(visitor, text: str) -> bool:
    visitor.page.wait_for_timeout(100)
    return not visitor.shows(text)


def a_busy_shop() -> None:
    """Create what an operator sees on a bad day."""
    chance = random.Random(7)
    minute = now().replace(second=0, microsecond=0)
    sizes = {"default": 40, "money": 12, "email": 90, "reports": 2}
    for queue, size in sizes.items():
        for ago_minutes in range(60):
            done = round(size * chance.uniform(0.6, 1.3))
            failed = chance.randrange(4) if queue == "money" and ago_minutes < 25 else 0
            ThroughputFactory(
                queue=queue,
                task=f"shop.{queue}",
                minute=minute - timedelta(minutes=ago_minutes),
                done=done,
                failed=failed,
                wait_bucket=chance.randrange(2, 9),
                run_bucket=chance.randrange(3, 8),
            )
    for quarter in range(5, 95):
        ThroughputFactory(minute=minute - timedelta(minutes=15 * quarter), done=round(2500 * chance.uniform(0.3, 1.2)))
    w1 = WorkerFactory(identity="web-1:4711:5c3a", name="web-1", host="web-1", pid=4711, threads=8, running=3)
    rows(Worker).filter(pk=w1.pk).update(memory=184_000_000, queues=["default", "money", "reports"])
    WorkerFactory(identity="web-2:815:77aa", name="web-2", host="web-2", pid=815, heartbeat_at=ago(95), threads=8)
    for task, seconds in (("shop.build_report", 1900), ("shop.charge", 4), ("shop.charge", 1)):
        JobFactory(claimed=True, worker=w1.pk, task=task, claimed_at=ago(seconds), queue="reports")
    for number in range(320):
        JobFactory(queue="money", task="shop.charge", enqueued_at=ago(300 + number), run_at=ago(300 + number))
    for _ in range(85):
        JobFactory(queue="email", task="shop.send_invoice", enqueued_at=ago(1100), run_at=ago(1100))
    JobFactory(queue="default")
    QueueStateFactory(queue="reports", paused=True, paused_at=ago(2400))
    JobFactory(queue="reports", task="shop.build_report")
    for number in range(23):
        declined = number % 4 == 3
        DeadJobFactory(
            task="shop.charge",
            queue="money",
            last_error=f"order {4000 + number}: card {'declined' if declined else 'company does not answer'}",
            errors=[{"attempt": 3, "exception": "shop.CardDeclined" if declined else "builtins.ConnectionError"}],
            failed_at=ago(60 + 50 * number),
        )
    for number in range(6):
        JobFactory(
            scheduled=True,
            task="shop.charge",
            queue="money",
            run_at=ago(-20 * number - 5),
            failed_at=ago(20 * number),
            last_error=f"order {5000 + number}: card company does not answer",
            errors=[{"attempt": 1, "exception": "builtins.ConnectionError"}],
        )
    schedules.create("nightly report", task="tests.app.tasks.add", cron="30 2 * * mon-fri", timezone="Europe/Berlin")
    schedules.create("refresh prices", task="tests.app.tasks.add", cron="*/5 * * * *")
    schedules.create("heartbeat", task="tests.app.tasks.add", every=90)
    ScheduleFactory(name="old import", enabled=False, problem="no task named 'shop.import' is registered")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_overview_fits_wide_and_narrow_windows(visitor, width, theme):
    a_busy_shop()
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.page.emulate_media(color_scheme=theme)
    visitor.log_in()
    visitor.open("overview/")
    visitor.reads("Needs attention")
    visitor.shoot(f"overview-{width}-{theme}")
    assert visitor.overflows() == []
    if width >= 1440:
        assert visitor.cut_columns() == []


def test_screenshot_of_a_schedule(visitor):
    schedules.create("nightly report", task="tests.app.tasks.add", cron="30 2 * * mon-fri", timezone="America/New_York")
    job = schedules.run_now("nightly report")
    djqueue.Queue("default").claim()[0].ack()
    assert rows(DoneJob).filter(pk=job.id).exists()
    broken = ScheduleFactory(name="old import", enabled=False, problem="no task named 'shop.import' is registered")
    visitor.log_in()
    visitor.open("schedule/")
    visitor.page.get_by_role("link", name="nightly report").click()
    visitor.reads("At 02:30, Monday to Friday")
    visitor.shoot("schedule-page")
    visitor.press("Disable …")
    visitor.confirm()
    visitor.reads("disabled by ada")
    visitor.open(f"schedule/{broken.pk}/change/")
    visitor.reads("no task named 'shop.import' is registered")
    visitor.shoot("schedule-page-problem")
    visitor.open("schedule/")
    visitor.shoot("schedule-list-disabled")
