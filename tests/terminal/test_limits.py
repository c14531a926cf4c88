"""limits and limit, on every database."""

from __future__ import annotations

import pytest

import djqueue
from djqueue.models import LimitKey
from tests.conftest import PLAIN
from tests.factories import JobFactory, LimitKeyFactory, ago
from tests.lifecycle.limited import call_api, sync
from tests.tools import rows

pytestmark = pytest.mark.databases(*PLAIN)


def three():
    return [sync.enqueue(1) for _ in range(3)]


def test_limits_lists_the_keys_in_use(database, run):
    three()
    djqueue.maintenance.admit()
    sync.enqueue(2)
    djqueue.limits.set("api:stripe", rate="100/m")
    djqueue.limits.hold("api:stripe", 600)
    printed = run("limits")
    assert printed.code == 0
    assert printed.lines[0].split() == ["KEY", "ALLOWS", "SET", "ADMITTED", "BLOCKED", "HELD"]
    assert printed.lines[1].split() == ["api:stripe", "100/m", "(burst", "1)", "yes", "0", "0", "for", "10", "min"]
    assert printed.lines[2].split() == ["tenant:1", "2", "at", "once", "no", "2", "1", "-"]
    assert printed.lines[3].split() == ["tenant:2", "2", "at", "once", "no", "0", "1", "-"]


def test_limits_as_json(database, run):
    three()
    djqueue.maintenance.admit()
    djqueue.limits.set("tenant:1", concurrency=4, rate="10/s", burst=20)
    assert run("limits", "--json").json == {
        "limits": [
            {
                "key": "tenant:1",
                "task": sync.name,
                "known": True,
                "concurrency": 4,
                "rate": "10/s",
                "burst": 20,
                "set": True,
                "admitted": 2,
                "running": 0,
                "blocked": 1,
                "held_until": None,
                "rate_left": 18,  # two jobs are admitted and not claimed
            }
        ],
        "more": False,
    }


def test_limits_without_any(database, run):
    printed = run("limits")
    assert printed.code == 0
    assert printed.out.startswith("No limit key is in use.")


def test_limits_shows_so_many(database, run):
    for number in range(3):
        LimitKeyFactory(key=f"key:{number}")
    printed = run("limits", "--limit", "2")
    assert len(printed.lines) == 3
    assert "There are more than 2." in printed.err
    assert run("limits", "--limit", "0").code == 2
    assert run("limits", "--limit", "2", "--json").json["more"] is True


def test_limit_shows_one_key(database, run):
    jobs = three()
    djqueue.maintenance.admit()
    djqueue.Queue("default").claim(1)
    printed = run("limit", "tenant:1")
    assert printed.code == 0
    assert printed.lines[:5] == [
        "tenant:1",
        "Allows            2 at once",
        f"Numbers of        {sync.name}",
        "Admitted          2, of which 1 claimed",
        "Blocked           1",
    ]
    assert "Hold a permit:" in printed.out
    assert printed.out.index(str(jobs[0].id)) < printed.out.index("Next in line:") < printed.out.index(str(jobs[2].id))
    shown = run("limit", "tenant:1", "--json").json
    assert [job["status"] for job in shown["holders"]] == ["running", "pending"]
    assert [job["id"] for job in shown["waiting"]] == [str(jobs[2].id)]


def test_limit_shows_a_rate_and_a_hold(database, run):
    call_api.enqueue("x")
    djqueue.limits.hold("api:x", 600)
    printed = run("limit", "api:x")
    assert "Rate left         3" in printed.out
    assert "Held              until " in printed.out


def test_hold_and_release(database, run):
    jobs = three()
    djqueue.maintenance.admit()
    printed = run("limit", "tenant:1", "--hold", "10m")
    assert printed.code == 0
    assert printed.out.startswith("Held tenant:1 until ")
    assert {str(job.status()) for job in jobs} == {"blocked"}
    assert run("limit", "tenant:1", "--release").out == "Released tenant:1.\n"
    assert djqueue.limits.get("tenant:1").held_until is None
    assert run("limit", "tenant:1", "--release").out == "tenant:1 was not held.\n"


def test_set_and_clear(database, run):
    three()
    printed = run("limit", "tenant:1", "--set-concurrency", "7", "--set-rate", "100/m", "--set-burst", "5")
    assert printed.out == "Set tenant:1: 7 at once, 100/m (burst 5).\n"
    found = djqueue.limits.get("tenant:1")
    assert (found.concurrency, found.rate, found.burst) == (7, pytest.approx(100 / 60), 5)
    assert "Numbers of        set at run time" in run("limit", "tenant:1").out
    assert run("limit", "tenant:1", "--clear").out == "Cleared tenant:1: 2 at once.\n"
    assert run("limit", "tenant:1", "--clear").out == "No numbers were set for tenant:1.\n"
    assert run("limit", "tenant:1", "--set-rate", "1/s", "--json").json["rate"] == "1/s"


@pytest.mark.parametrize("options", [[], ["--hold", "9"], ["--release"], ["--clear"], ["--set-concurrency", "1"]])
def test_a_key_that_is_not_in_use_is_refused(database, run, options):
    printed = run("limit", "tenant:misspelt", *options)
    assert printed.code == 1
    assert "is not in use" in printed.err
    assert not rows(LimitKey).exists()
    assert run("limit", "tenant:misspelt", *options, "--yes").code == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--hold", "soon"], "--hold must be a duration"),
        (["--set-rate", "often"], "rate must be a number of jobs per second"),
        (["--set-burst", "2"], "a limit needs concurrency, rate or both"),
        (["--set-concurrency", "1", "--set-burst", "2"], "burst has no meaning without rate"),
        (["--set-concurrency", "0"], "concurrency must be"),
        (["--set-concurrency", "1", "--clear"], "Give either numbers to set"),
        (["--set-concurrency", "1", "--hold", "5"], "Give either numbers to set"),
        (["--hold", "5", "--release"], "not allowed with argument"),
    ],
)
@pytest.mark.databases("sqlite")
def test_a_wrong_call_is_refused_and_nothing_is_written(database, run, options, error):
    sync.enqueue(1)
    printed = run("limit", "tenant:1", *options)
    assert error in printed.err
    assert printed.code == 2 or "not allowed" in error
    assert not rows(LimitKey).exists()
    assert run("limit", "x" * 300).code == 2


def test_keys_are_printed_without_control_characters(database, run):
    JobFactory(status="blocked", limit_key="\x1b[31mred")
    assert "\x1b" not in run("limits").out + run("limits", "--json").out


def test_jobs_and_show_know_blocked_jobs(database, run):
    jobs = three()
    djqueue.maintenance.admit()
    assert [job["id"] for job in run("jobs", "--status", "blocked", "--json").json["jobs"]] == [str(jobs[2].id)]
    shown = run("show", jobs[2].id)
    assert "blocked: No worker is alive" in shown.out
    assert "Limit key         tenant:1" in shown.out
    assert "ahead" not in shown.lines[2]
    as_json = run("show", jobs[2].id, "--json").json
    assert (as_json["limit_key"], as_json["status"]) == ("tenant:1", "blocked")
    assert "BLOCKED" in run("stats").out
    assert run("cancel", jobs[2].id, "--yes").out == "1 cancelled.\n"


def test_pause_and_resume_count_blocked_jobs(database, run):
    three()
    djqueue.maintenance.admit()
    assert run("pause", "default").out == (
        "Paused default: 0 pending jobs and 3 blocked jobs will wait, 0 claimed jobs will continue.\n"
    )
    rows(LimitKey).update(held_until=ago(-60))
    assert run("resume", "default").out == "Resumed default: 0 pending jobs and 3 blocked jobs.\n"
