"""The list and the page of workers: who is alive, who is lost, and what they run."""

from __future__ import annotations

import pytest

from djqueue.admin.display import MARKS
from djqueue.models import Worker
from djqueue.worker.options import Options
from djqueue.worker.supervisor.heartbeats import Heartbeats, ProcessStatus, delete_old
from tests.admin.tools import words
from tests.factories import JobFactory, WorkerFactory, ago
from tests.tools import rows

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")


def beat(options: Options | None = None, **status: object) -> Worker:
    """Write the row of a worker process as its supervisor does."""
    status = {"identity": "here", "pid": 1} | status
    Heartbeats(options or Options(), "").beat([ProcessStatus(**status)])
    return rows(Worker).get(pk=status["identity"])


def column(boss, name: str) -> str:
    """The text of one column of the only worker in the list."""
    response = boss.get("worker")
    [row] = response.context["cl"].result_list
    shown = str(getattr(response.context["cl"].model_admin, name)(row))
    assert shown in response.content.decode()
    return shown


STATES = {
    "alive": {},
    "quiet": {"quiet": True},
    "draining": {"draining": True},
    "quiet while it drains, draining": {"quiet": True, "draining": True},
    "silent for two intervals, alive": {"silent_for": 10},
    "silent for more than three, lost": {"silent_for": 16},
    "silent while it drains, lost": {"silent_for": 16, "draining": True},
    "stopped": {"stopped": True},
    "stopped after a silence": {"stopped": True, "silent_for": 100},
}


@pytest.mark.parametrize("case", STATES)
def test_a_worker_is_alive_until_three_heartbeats_are_missing(boss, case):
    beat(**STATES[case], running=2)
    state = case.split(", ")[-1].split()[0]
    assert f"</span> {state}</span>" in column(boss, "state_column")
    assert column(boss, "running_column") == ("2/4" if state in ("alive", "quiet", "draining") else "-")
    assert f"here {MARKS[state]} {state} " in words(boss.page("worker", "here"))


def test_the_last_heartbeat_is_shown_as_its_age(boss):
    beat(silent_for=200)
    assert "3 min 20 s ago" in column(boss, "heartbeat_column")


def test_the_age_of_a_heartbeat_is_measured_by_the_clock_that_wrote_it(boss, monkeypatch):
    """The clock of the web server may be wrong."""
    from datetime import timedelta

    from django.utils import timezone

    beat(silent_for=2)
    now = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(hours=1))
    assert "alive" in column(boss, "state_column")
    assert " s ago" in column(boss, "heartbeat_column")


def test_the_row_of_a_stopped_worker_has_no_running_jobs_and_keeps_its_count(boss):
    beat(running=2, finished=7)
    row = beat(running=2, finished=7, stopped=True)
    assert (row.running, row.finished) == (0, 7)
    assert row.stopped_at is not None
    assert column(boss, "finished_column") == "7"


QUEUES = {
    "all": Options(),
    "a, b": Options(queues={"a": None, "b": 2}),
    "all except c": Options(exclude=["c"]),
    "a except c": Options(queues={"a": None}, exclude=["c"]),
}


@pytest.mark.parametrize("shown", QUEUES)
def test_the_queues_of_a_worker(boss, shown):
    beat(QUEUES[shown])
    assert column(boss, "queues_column") == shown
    assert f"Queues {shown} " in words(boss.page("worker", "here"))


def test_the_quarantine_claims_from_no_queue(boss):
    row = beat(quarantine=True)
    assert (row.threads, row.name) == (1, "quarantine")
    assert column(boss, "queues_column") == "none (quarantine)"


@pytest.mark.parametrize("queues", ["x", 7, {"queues": "x"}, {"exclude": 3}, {}, [1, None], True])
def test_queues_that_were_written_by_hand_are_shown(boss, queues):
    WorkerFactory(queues=queues)
    assert boss.get("worker").status_code == 200
    assert boss.get("queuestate").status_code == 200


def test_workers_that_are_lost_for_a_day_are_deleted(boss):
    WorkerFactory(identity="yesterday", heartbeat_at=ago(86_000))
    WorkerFactory(identity="before", heartbeat_at=ago(86_500))
    assert delete_old() == 1
    assert [row.identity for row in rows(Worker)] == ["yesterday"]


def test_a_claimed_job_is_running_once_it_has_started(boss):
    running, held = JobFactory(claimed=True, claimed_at=ago(90)), JobFactory(claimed=True, started=False)
    for job, state, run_time in ((running, "▶ running", "1 min 3"), (held, "▶ claimed", "-")):
        assert state in words(boss.page("job", job.pk))
        page = boss.get("job", q=job.pk)
        assert state in words(page)
        [row] = page.context["cl"].result_list
        assert page.context["cl"].model_admin.run_column(row).startswith(run_time)


def test_the_filter_offers_the_states_that_the_list_shows(boss):
    [states] = [one for one in boss.get("job").context["cl"].filter_specs if one.title == "state"]
    assert states.lookup_choices == [
        ("scheduled", "scheduled"),
        ("blocked", "blocked"),
        ("pending", "pending"),
        ("claimed", "claimed or running"),
        ("running", "running"),
    ]
