"""The page of a worker process: its jobs, its loops, its memory, and requests to the worker."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from djqueue.admin import worker_page
from djqueue.models import Worker
from tests.admin.tools import Cells, words
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, WorkerFactory, ago
from tests.tools import rows

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")
ME = "host:1:abc"


def links(response) -> list[str]:
    return [attrs["href"] or "" for tag, attrs in Cells(response.content.decode()).tags if tag == "a"]


def buttons(response) -> list[str]:
    return [f"{act.button}" for act in response.context["acts"]]


def claimed(**options):
    return JobFactory(claimed=True, worker=ME, worker_ids=[ME], **options)


def test_the_page_lists_the_jobs_that_it_runs_and_since_when(boss):
    WorkerFactory(identity=ME)
    running = claimed(task="shop.charge", queue="money", attempts=2, claimed_at=ago(7200))
    held = claimed(task="shop.mail", started=False, cancel_requested=True)
    other = JobFactory(claimed=True, worker="host:2:xyz")
    waiting = JobFactory()
    page = boss.page("worker", ME)
    assert "shop.charge ▶ running 2 h ago money 2/3" in words(page)
    assert "shop.mail ▶ claimed cancel requested" in words(page)
    shown = " ".join(links(page))
    assert [str(job.pk) in shown for job in (running, held, other, waiting)] == [True, True, False, False]


def test_the_page_of_an_idle_worker(boss):
    WorkerFactory(identity=ME)
    text = words(boss.page("worker", ME))
    assert "It holds no jobs." in text
    assert "None of its jobs is kept." in text
    assert "Other processes" not in text


def test_the_page_lists_the_jobs_that_it_finished_last(boss):
    WorkerFactory(identity=ME, finished=3)
    done = DoneJobFactory(worker_ids=["x", ME], claimed_at=ago(7260), completed_at=ago(7200))
    dead = DeadJobFactory(worker_ids=[ME], claimed_at=ago(3605), failed_at=ago(3600))
    begun_here = DoneJobFactory(worker_ids=[ME, "x"])
    of_another = DoneJobFactory(worker_ids=[f"other-{ME}"])
    never_ran = DoneJobFactory(cancelled=True)
    page = boss.page("worker", ME)
    assert [one["job"].pk for one in page.context["finished"]] == [dead.pk, done.pk]
    assert "✖ dead 1 h ago 5.0 s default" in words(page)
    assert "✔ done 2 h ago 1 min default" in words(page)
    shown = " ".join(links(page))
    assert f"deadjob/{dead.pk}" in shown
    assert f"donejob/{done.pk}" in shown
    assert not any(str(job.pk) in shown for job in (begun_here, of_another, never_ran))


def test_finished_jobs_are_searched_among_the_newest(boss, monkeypatch):
    monkeypatch.setattr(worker_page, "SEARCHED", 3)
    WorkerFactory(identity=ME)
    jobs = [DoneJobFactory(worker_ids=[ME]) for _ in range(4)]
    page = boss.page("worker", ME)
    assert {one["job"].pk for one in page.context["finished"]} == {job.pk for job in jobs[1:]}


def test_a_loop_without_a_good_turn_is_marked(boss):
    WorkerFactory(identity=ME, loops={"claimer": 0.2, "reaper": 3600})
    page = boss.page("worker", ME)
    assert {loop.name: loop.stalled for loop in page.context["loops"]} == {"claimer": False, "reaper": True}
    assert "1 h ago ! stalled" in words(page)
    assert words(page).count("stalled") == 2  # and the explanation


@pytest.mark.parametrize("state", [{"stopped_at": ago(1)}, {"heartbeat_at": ago(60)}])
def test_a_worker_that_is_gone_has_no_buttons_and_no_loops(boss, state):
    WorkerFactory(identity=ME, loops={"claimer": 0.2}, request="drain", requested_at=ago(3), **state)
    page = boss.page("worker", ME)
    assert (buttons(page), page.context["loops"], page.context["requested"]) == ([], [], "")


def test_the_memory_is_drawn_with_its_numbers(boss):
    samples = [[0, 50_000_000], [600, 90_000_000], [1200, 60_000_000]]
    WorkerFactory(identity=ME, memory=70_000_000, samples=samples, started_at=ago(7200))
    page = boss.page("worker", ME)
    text = "now 66.8\xa0MB, lowest 47.7\xa0MB, highest 85.8\xa0MB, over 2 h"
    assert " ".join(text.split()) in words(page)
    [chart] = [attrs for tag, attrs in Cells(page.content.decode()).tags if attrs.get("class") == "djq-chart"]
    assert chart["aria-label"].startswith("Memory: now")


@pytest.mark.parametrize("value", ["x", 7, {"a": 1}, [1, [2], [3, "x"], [4, None]], None, {"claimer": "x"}])
def test_values_that_were_written_by_hand_are_survived(boss, value):
    WorkerFactory(identity=ME, samples=value if value is not None else [], loops=value or {}, memory=0, request="x")
    rows(Worker).update(requested_at=ago(1))
    assert boss.page("worker", ME).status_code == 200
    assert boss.get("worker").status_code == 200


def test_the_other_processes_of_the_worker_are_linked(boss):
    WorkerFactory(identity=ME, supervisor="boss", name="web")
    WorkerFactory(identity="host:2:abc", supervisor="boss", name="web quarantine", draining=True)
    WorkerFactory(identity="host:3:abc", supervisor="another")
    page = boss.page("worker", ME)
    assert "web quarantine host:1 ◒ draining" in words(page)
    assert any("host_3A2_3Aabc" in link for link in links(page))
    assert not any("host_3A3_3Aabc" in link for link in links(page))


STATES = {
    "alive": ({}, ["Quiet", "Drain"]),
    "quiet": ({"quiet": True}, ["Resume", "Drain"]),
    "draining": ({"draining": True}, []),
}


@pytest.mark.parametrize("state", STATES)
def test_buttons_fit_the_state_and_the_permission(people, state):
    row, offered = STATES[state]
    WorkerFactory(identity=ME, **row)
    assert buttons(people("view_worker", "control_worker").page("worker", ME)) == offered
    looking = people("view_worker")
    assert buttons(looking.page("worker", ME)) == []
    assert "Drain" not in looking.get("worker").content.decode()


def test_the_page_needs_the_permission_to_view_workers(people):
    WorkerFactory(identity=ME)
    assert people("view_job").page("worker", ME).status_code == 403
    assert people("view_worker").page("worker", ME).status_code == 200


def test_an_action_without_the_permission_is_refused(people):
    WorkerFactory(identity=ME)
    person = people("view_worker")
    for action in ("quiet", "resume", "drain"):
        assert person.do("worker", action, ME, from_page=ME).status_code == 403
    assert rows(Worker).get().request == ""
    assert person.log() == []


def test_a_drain_is_confirmed_and_names_what_it_means(boss):
    WorkerFactory(identity=ME, supervisor="boss", name="web")
    WorkerFactory(identity="b", supervisor="boss")
    WorkerFactory(identity="gone", supervisor="boss", stopped_at=ago(5))
    page = words(boss.ask("worker", "drain", ME, "gone"))
    assert "exit with code 0" in page
    assert "a service manager must start them again" in page
    assert "1 other process under the same supervisor obeys too." in page
    assert "1 has stopped or is lost, and cannot be asked." in page
    assert rows(Worker).filter(request="drain").count() == 0
    done = boss.do("worker", "drain", ME, "gone", from_page=ME)
    assert boss.messages(done) == ["1 asked to drain, 1 skipped."]
    assert set(rows(Worker).filter(request="drain").values_list("pk", flat=True)) == {ME, "b"}
    assert [(pk, message) for pk, _, message in boss.log()] == [(ME, "Asked to drain.")]
    assert "Drain requested" in words(done), "the page of the worker, from which it was asked"
    assert "Asked to drain." in words(boss.get("worker", f"{ME}/history/"))


def test_the_processes_of_one_worker_are_asked_once(boss):
    for name in ("a", "b", "c"):
        WorkerFactory(identity=name, supervisor="boss")
    assert boss.messages(boss.do("worker", "quiet")) == ["3 asked to be quiet, 0 skipped."]
    assert len(set(rows(Worker).values_list("request", "requested_at"))) == 1


REQUESTS = [
    ("drain", {}, "Drain requested 3"),
    ("drain", {"quiet": True}, "Drain requested 3"),
    ("drain", {"draining": True}, ""),
    ("quiet", {}, "Quiet requested 3"),
    ("quiet", {"quiet": True}, ""),
    ("quiet", {"draining": True}, ""),
    ("resume", {"quiet": True}, "Resume requested 3"),
    ("resume", {}, ""),
]


@pytest.mark.parametrize(("what", "state", "shown"), REQUESTS)
def test_a_request_is_shown_until_it_is_obeyed(boss, what, state, shown):
    WorkerFactory(identity=ME, request=what, requested_at=ago(3), **state)
    requested = boss.page("worker", ME).context["requested"]
    assert requested.startswith(shown)
    assert bool(requested) == bool(shown)


def test_a_request_is_shown_until_all_processes_have_obeyed(boss):
    WorkerFactory(identity=ME, supervisor="boss", quiet=True, request="quiet", requested_at=ago(3))
    WorkerFactory(identity="b", supervisor="boss", request="quiet", requested_at=ago(3))
    assert boss.page("worker", ME).context["requested"].startswith("Quiet requested")
    rows(Worker).update(quiet=True)
    assert boss.page("worker", ME).context["requested"] == ""


def test_the_page_of_a_worker_that_is_no_longer_kept_leads_to_the_list(boss):
    page = boss.page("worker", "gone")
    assert boss.messages(page) == ["Worker gone does not exist, or is no longer kept."]


def test_the_number_of_queries_does_not_depend_on_the_number_of_rows(boss, database):
    WorkerFactory(identity=ME, supervisor="boss", finished=100, memory=5, samples=[[0, 1]])
    for number in range(60):
        WorkerFactory(supervisor="boss")
        claimed()
        DoneJobFactory(worker_ids=[ME])
        DeadJobFactory(worker_ids=[ME])
        JobFactory(queue=f"q{number}")
    boss.page("worker", ME)
    with CaptureQueriesContext(connections[database]) as asked, CaptureQueriesContext(connections["default"]) as aside:
        assert boss.page("worker", ME).status_code == 200
    assert len(asked) <= 7, "\n".join(one["sql"] for one in asked.captured_queries)
    assert not [one["sql"] for one in aside.captured_queries if "djqueue_" in one["sql"]]
