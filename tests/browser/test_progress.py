"""{% djqueue_progress %} in Chromium: a visitor who is not logged in follows and cancels jobs of a real worker."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

import djqueue
from djqueue import kv
from djqueue.models import Job
from tests.browser.test_overview import hide, with_and_without_scripts
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory
from tests.tools import eventually, rows
from tests.worker import tasks

pytestmark = [pytest.mark.browser, pytest.mark.databases("postgresql")]
LIGHT_AND_DARK = ["light", "dark"]


def follow(visitor, *jobs, **options: str) -> None:
    """Open a page with the bars of these jobs, which notes the events of its bars."""
    visitor.page.add_init_script("""
        window.finished = [];
        addEventListener("djqueue:finished", event => window.finished.push(event.detail));
    """)
    query = [("job", str(job.id)) for job in jobs] + list(options.items())
    visitor.page.goto(f"{visitor.server}/bars/?{urlencode(query)}")


def said(visitor) -> str:
    return visitor.page.locator("[role=status]").first.inner_text()


def wait_for(visitor, text: str) -> None:
    visitor.page.locator("[role=status]").first.filter(has_text=text).wait_for(timeout=60_000)


def value(visitor) -> float | None:
    shown = visitor.page.locator("progress").first.get_attribute("value")
    return None if shown is None else float(shown)


def finished(visitor) -> list[str]:
    return [job["status"] for job in visitor.page.evaluate("window.finished")]


def polls(visitor) -> list[str]:
    found: list[str] = []
    visitor.page.on("request", lambda one: found.append(one.url) if "/djqueue/progress/" in one.url else None)
    return found


def test_the_bar_moves_and_ends(visitor, worker):
    handle = tasks.report_and_wait_for.enqueue("go")
    follow(visitor, handle, done_url="/ready/")
    wait_for(visitor, "In progress")
    visitor.reads("25%")
    visitor.reads("working")
    assert value(visitor) == 25
    assert finished(visitor) == []
    assert not visitor.shows("Continue")
    kv.set("go", True)
    wait_for(visitor, "Done.")
    assert value(visitor) == 100
    assert not visitor.shows("working")
    assert finished(visitor) == ["done"]
    requests = polls(visitor)
    visitor.press("Continue")
    visitor.reads("Here is your export")
    assert requests == []


def test_a_finished_job_can_lead_to_the_next_page(visitor, worker):
    follow(visitor, tasks.work_in_steps.enqueue(100, 0.01), done_url="/ready/", redirect="1")
    visitor.reads("Here is your export")


def test_a_job_that_was_done_before_leads_to_the_next_page_but_not_to_its_own(visitor):
    job = DoneJobFactory()
    follow(visitor, job, done_url="/ready/", redirect="1")
    visitor.reads("Here is your export")
    loads: list[str] = []
    visitor.page.on("load", lambda page: loads.append(page.url))
    follow(visitor, job, done_url="#here", redirect="1")
    visitor.page.wait_for_load_state("networkidle")
    assert len(loads) == 1
    assert finished(visitor) == []


def test_a_failed_job_ends_the_bar(visitor, worker):
    follow(visitor, tasks.raise_it.enqueue("permanent"), done_url="/ready/", redirect="1")
    wait_for(visitor, "Failed.")
    assert finished(visitor) in ([], ["dead"])
    assert not visitor.shows("Continue")
    assert not visitor.shows("never")


def test_a_running_job_is_cancelled_from_the_page(visitor, worker):
    handle = tasks.work_in_steps.enqueue(60_000, 0.01)
    follow(visitor, handle, cancel="1", done_url="/ready/")
    wait_for(visitor, "In progress")
    visitor.press("Cancel")
    wait_for(visitor, "Cancelled.")
    assert handle.status() == "cancelled"
    assert finished(visitor) == ["cancelled"]
    assert visitor.page.get_by_role("button").count() == 0
    assert visitor.page.evaluate("document.activeElement.role") == "status"  # the focus was on the button
    assert "/bars/" in visitor.page.url
    assert not visitor.shows("Continue")


@with_and_without_scripts
def test_a_waiting_job_is_cancelled_with_and_without_scripts(visitor):
    handle = JobFactory()
    follow(visitor, handle, cancel="1")
    assert said(visitor) == "Waiting…"
    visitor.press("Cancel")
    wait_for(visitor, "Cancelled.")
    assert djqueue.get_job(handle.id).status == "cancelled"
    assert "/bars/?job=" in visitor.page.url


@pytest.mark.parametrize("visitor", [False], indirect=True)
def test_without_scripts_the_page_is_reloaded_by_hand(visitor):
    job = JobFactory(claimed=True, progress={"done": 1, "total": 4, "message": "Invoices"})
    follow(visitor, job)
    assert visitor.page.inner_text("djqueue-progress").split() == ["In", "progress…", "25%", "Invoices", "Reload"]
    rows(Job).update(progress={"done": 2, "total": 4, "message": "Reminders"})
    visitor.press("Reload")
    assert visitor.page.inner_text("djqueue-progress").split() == ["In", "progress…", "50%", "Reminders", "Reload"]


def test_a_job_that_is_not_kept_ends_the_bar(visitor):
    job = JobFactory(claimed=True)
    follow(visitor, job, done_url="/ready/")
    wait_for(visitor, "In progress")
    rows(Job).all().delete()
    wait_for(visitor, "Finished.")
    assert (value(visitor), finished(visitor)) == (100, ["unknown"])
    assert visitor.shows("Continue")


def test_a_job_that_appears_after_the_page_is_followed(visitor):
    made = JobFactory.build()
    held: list[Any] = []
    visitor.page.route("**/djqueue/progress/**", lambda route: held.append(route), times=1)
    follow(visitor, made)
    eventually(lambda: visitor.page.wait_for_timeout(50) or held)
    assert said(visitor).startswith("Not found.")
    JobFactory(id=made.id)
    held[0].continue_()
    wait_for(visitor, "Waiting…")
    rows(Job).all().delete()
    wait_for(visitor, "Finished.")


def test_markup_in_a_message_is_shown_as_text(visitor):
    job = JobFactory(claimed=True)
    follow(visitor, job)
    hostile = "<img src=x onerror=alert(1)><b>bold</b>"
    rows(Job).update(progress={"done": 1, "total": 4, "message": hostile})
    visitor.reads(hostile)
    assert visitor.page.locator("djqueue-progress img, djqueue-progress b").count() == 0


def test_bars_that_are_added_later_are_followed_and_removed_ones_are_not(visitor):
    first, second = JobFactory(claimed=True), JobFactory(claimed=True)
    follow(visitor, first)
    visitor.page.evaluate(
        """url => fetch(url).then(answer => answer.text()).then(html => {
            const fresh = new DOMParser().parseFromString(html, "text/html").querySelector("djqueue-progress");
            document.querySelector("djqueue-progress").outerHTML = fresh.outerHTML;
        })""",
        f"/bars/?job={second.id}",
    )
    requests = polls(visitor)
    rows(Job).filter(pk=second.pk).update(progress={"done": 1, "total": 2, "message": "second"})
    visitor.reads("second")
    assert requests
    assert all(second.id.hex in one for one in requests)


def test_several_bars_do_not_disturb_each_other(visitor):
    jobs = [JobFactory(claimed=True), JobFactory(claimed=True), DoneJobFactory()]
    follow(visitor, *jobs)
    rows(Job).filter(pk=jobs[1].pk).update(progress={"done": 3, "total": 4, "message": ""})
    visitor.reads("75%")
    assert visitor.page.locator("[role=status]").all_inner_texts() == ["In progress…", "In progress…", "✔ Done."]
    assert visitor.page.locator("script").count() == 1


def test_a_hidden_page_does_not_poll(visitor):
    requests = polls(visitor)
    visitor.page.clock.install()
    follow(visitor, JobFactory(claimed=True))
    visitor.page.clock.run_for(600)
    eventually(lambda: polled(visitor, requests, 1))
    hide(visitor, True)
    count = len(requests)
    visitor.page.clock.run_for(300_000)
    assert len(requests) == count
    hide(visitor, False)
    visitor.page.clock.run_for(10)  # polls at once
    eventually(lambda: polled(visitor, requests, count + 1))


def polled(visitor, requests: list[str], count: int) -> bool:
    visitor.page.wait_for_load_state("networkidle")
    return len(requests) >= count


def test_long_jobs_are_polled_less_often(visitor):
    visitor.page.clock.install(time=0)
    visitor.page.clock.pause_at(1000)
    follow(visitor, JobFactory(claimed=True))
    visitor.page.evaluate("""() => {
        const set = setTimeout;
        window.delays = [];
        window.setTimeout = (call, delay) => { delays.push(delay); return set(call, delay); };
    }""")
    planned = [next_delay(visitor, passed) for passed in (600, 60_000, 60_000, 600_000)]
    expected = [500, 6_060, 10_000, 10_000]
    assert all(0.9 <= delay / usual <= 1.11 for delay, usual in zip(planned, expected, strict=True)), planned


def next_delay(visitor, passed: int) -> float:
    """Let milliseconds pass, in which there is one poll; return the delay that is planned after its answer."""
    before = len(visitor.page.evaluate("delays"))
    visitor.page.clock.fast_forward(passed)
    return eventually(lambda: visitor.page.evaluate("delays")[before:])[0]


def test_a_server_that_is_away_is_said_and_awaited(visitor):
    job = JobFactory(claimed=True)
    follow(visitor, job)
    wait_for(visitor, "In progress")
    visitor.page.route("**/djqueue/progress/**", lambda route: route.abort("connectionrefused"))
    wait_for(visitor, "The server does not answer. Trying again…")
    visitor.page.unroute("**/djqueue/progress/**")
    wait_for(visitor, "In progress")
    assert all("ERR_CONNECTION_REFUSED" in one for one in visitor.complaints)
    visitor.complaints.clear()


def test_an_expired_page_says_so_and_stops(visitor, settings):
    follow(visitor, JobFactory(claimed=True))
    settings.SECRET_KEY = "another"
    wait_for(visitor, "This page is out of date.")
    requests = polls(visitor)
    assert visitor.page.evaluate("document.querySelector('djqueue-progress').over")
    visitor.press("Reload")
    wait_for(visitor, "In progress")
    assert requests or eventually(lambda: polled(visitor, requests, 1))
    visitor.complaints.clear()  # the 404


@pytest.mark.parametrize("scheme", LIGHT_AND_DARK)
@pytest.mark.parametrize("width", [390, 1440])
def test_bars_fit_and_can_be_read(visitor, scheme, width):
    long = "Invoices of the customer Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
    jobs = [
        JobFactory(scheduled=True),
        JobFactory(claimed=True),
        JobFactory(claimed=True, progress={"done": 5, "total": 8, "message": long}),
        JobFactory(claimed=True, cancel_requested=True, progress={"done": 5, "total": 8, "message": "Reminders"}),
        DoneJobFactory(),
        DeadJobFactory(progress={"done": 5, "total": 8, "message": ""}),
        DoneJobFactory(cancelled=True),
    ]
    visitor.page.emulate_media(color_scheme=scheme)
    visitor.page.set_viewport_size({"width": width, "height": 900})
    follow(visitor, *jobs, cancel="1", done_url="#ready", label="Export of July")
    assert visitor.overflows() == []
    visitor.shoot(f"progress-{scheme}-{width}")
