"""stats, jobs, show, workers, schedules: what they print, on every database."""

from __future__ import annotations

from datetime import datetime

import pytest

import djqueue
from djqueue.models import DeadJob, Job
from djqueue.operations import summary
from tests.app import tasks
from tests.conftest import PLAIN
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    QueueStateFactory,
    ScheduleFactory,
    ThroughputFactory,
    WorkerFactory,
    ago,
    now,
)
from tests.tools import rows, statements_sent

pytestmark = pytest.mark.databases(*PLAIN)


def test_stats_of_an_empty_queue(database, run):
    assert run("stats").lines == [
        "There are no queues yet.",
        "",
        "No worker is running. Start one with manage.py runworker.",
    ]
    assert run("stats", "--json").json == {"queues": [], "workers": []}


def test_stats_shows_queues_rates_and_workers(database, run):
    JobFactory(queue="email", enqueued_at=ago(240), run_at=ago(240))
    JobFactory(queue="email", scheduled=True)
    JobFactory(queue="reports")
    DeadJobFactory(queue="email")
    QueueStateFactory(queue="slow", paused=True)
    this_minute = now().replace(second=0, microsecond=0)
    ThroughputFactory(queue="email", minute=this_minute, done=1234, failed=2, run_bucket=8, wait_bucket=2)
    WorkerFactory(name="web-1", queues=["email"], running=1, threads=4, memory=50 * 1024 * 1024)
    printed = run("stats")
    assert printed.code == 0
    words = [line.split() for line in printed.lines]
    assert words[0] == ["QUEUE", "PENDING", "SCHEDULED", "RUNNING", "DEAD", "DONE", "OLDEST", "STATE"]
    assert words[1] == ["email", "1", "1", "0", "1", "1,234", "4", "min", "ok"]
    assert words[2][:6] == ["reports", "1", "0", "0", "0", "0"]
    assert words[2][-2:] == ["no", "worker"]
    assert words[3] == ["slow", "0", "0", "0", "0", "0", "-", "paused"]
    assert words[6][:5] == ["QUEUE", "5", "MIN", "60", "MIN"]
    assert words[7][:5] == ["email", "1,234", "1,234", "2", "2"]
    assert printed.lines[7].endswith("s")
    assert words[10][:5] == ["web-1", "alive", "email", "1/4", "0"]


def test_numbers_are_aligned_to_the_right(database, run):
    JobFactory(queue="a")
    ThroughputFactory(queue="a", done=1_234_567)
    ThroughputFactory(queue="b", done=7)
    head, first, second, *_ = run("stats").lines
    end = head.index("DONE") + len("DONE")
    assert first[:end].endswith(" 1.2M")
    assert second[:end].endswith("    7")


def test_stats_as_json_is_the_summary(database, run):
    JobFactory(queue="email")
    DeadJobFactory(queue="other")
    WorkerFactory(name="web-1")
    shown = run("stats", "--json").json
    expected = summary.as_json()
    for each in (*shown["queues"], *expected["queues"]):
        each.pop("oldest_pending_seconds")
    for each in (*shown["workers"], *expected["workers"]):
        each.pop("heartbeat_seconds")
    assert shown == expected
    assert [queue["queue"] for queue in run("stats", "--json", "--queue", "email").json["queues"]] == ["email"]
    assert [line.split()[0] for line in run("stats", "--queue", "other").lines[:2]] == ["QUEUE", "other"]


def test_jobs_lists_every_state(database, run, monkeypatch):
    job = JobFactory(queue="email", enqueued_at=ago(120), run_at=ago(120))
    running = JobFactory(claimed=True)
    JobFactory(scheduled=True)
    done = DoneJobFactory()
    dead = DeadJobFactory(last_error="ValueError: no\nmore lines")
    assert max(map(len, run("jobs").lines)) <= 80
    assert max(map(len, run("jobs", "--status", "dead").lines)) <= 80
    monkeypatch.setenv("COLUMNS", "120")
    printed = run("jobs")
    assert printed.lines[0].split() == ["ID", "STATUS", "TASK", "QUEUE", "AGE", "ERROR"]
    found = {line.split()[0]: line.split()[1:] for line in printed.lines[1:]}
    assert len(found) == 5
    assert found[str(job.pk)][0] == "pending"
    assert "2 min" in " ".join(found[str(job.pk)])
    assert found[str(running.pk)][0] == "running"
    assert found[str(done.pk)][0] == "done"
    assert found[str(dead.pk)][-2:] == ["ValueError:", "no"]


def test_jobs_are_filtered_as_in_the_admin(database, run):
    first = DeadJobFactory(queue="email", task="shop.charge", last_error="Timeout after 30 s", failed_at=ago(7200))
    second = DeadJobFactory(queue="email", last_error="connection to db-3 was 100% refused", failed_at=ago(60))
    live = JobFactory(queue="other")
    DoneJobFactory(queue="email", completed_at=ago(7200))

    def found(*arguments: str) -> set[str]:
        return {job["id"] for job in run("jobs", "--json", *arguments).json["jobs"]}

    assert found("--status", "dead") == {str(first.pk), str(second.pk)}
    assert found("--status", "dead", "--status", "pending") == {str(first.pk), str(second.pk), str(live.pk)}
    assert found("--task", "shop.charge") == {str(first.pk)}
    assert found("--queue", "other") == {str(live.pk)}
    assert found("--error", "TIMEOUT") == {str(first.pk)}
    assert found("--error", "to db-# was") == {str(second.pk)}
    assert found("--error", "100% r") == {str(second.pk)}
    assert found("--error", "100_ r") == set()
    assert found("--since", "1h") == {str(second.pk), str(live.pk)}
    assert found("--since", ago(3600).isoformat()) == {str(second.pk), str(live.pk)}
    assert found("--since", "0001-01-01") == {*found(), str(first.pk)}
    assert found("--error", "\x00") == set()
    assert run("jobs", "--task", "shop.chrage").out.strip().endswith("Did you mean shop.charge?")


def test_jobs_are_limited_and_read_with_few_statements(database, run):
    for _ in range(6):
        JobFactory()
        DeadJobFactory()
    printed = run("jobs", "--limit", "5")
    assert (len(printed.lines), printed.err) == (6, "There are more than 5. Show more with --limit.\n")
    shown = run("jobs", "--json", "--limit", "12").json
    assert (len(shown["jobs"]), shown["more"]) == (12, False)
    assert [job["id"] for job in shown["jobs"]] == sorted((job["id"] for job in shown["jobs"]), reverse=True)
    with statements_sent() as sent:
        run("jobs", "--json")
    assert len(sent) == 3


@pytest.mark.parametrize(
    "arguments", [("--limit", "0"), ("--limit", "x"), ("--since", "soon"), ("--since", ""), ("--status", "odd")]
)
def test_bad_filters_are_bad_arguments(database, run, arguments):
    assert run("jobs", *arguments).code in (1, 2)  # argparse raises a CommandError in a call from Python


def test_the_json_of_a_job(database, run):
    job = DeadJobFactory(args=[1], kwargs={"b": 2})
    [shown] = run("jobs", "--json").json["jobs"]
    assert (shown["id"], shown["status"], shown["args"], shown["kwargs"]) == (str(job.pk), "dead", [1], {"b": 2})
    assert datetime.fromisoformat(shown["failed_at"]) == rows(DeadJob).get().failed_at
    assert shown["completed_at"] is None


def test_sensitive_arguments_are_never_printed(database, run):
    secret = "my-secret-word"
    entry = {"attempt": 1, "message": f"bad {secret}", "traceback": f"Traceback\n  {secret}\n"}
    known = DeadJobFactory(
        task=tasks.log_in.name, args=["ada", secret], last_error=f"bad {secret}", errors=[entry], headers={"h": secret}
    )
    unknown = DeadJobFactory(task="gone.task", args=[secret], kwargs={"a": secret}, last_error=secret, errors=[entry])
    for job in (known, unknown):
        for arguments in (["jobs"], ["jobs", "--json"], ["show", job.pk], ["show", job.pk, "--json"]):
            printed = run(*arguments)
            assert printed.code == 0
            assert secret not in printed.out + printed.err
    assert run("show", known.pk, "--json").json["args"] == ["ada", "********"]
    assert "hidden because this task is not registered" in run("show", unknown.pk).out


def test_show_has_everything_about_a_dead_job(database, run):
    errors = [
        {"attempt": number, "message": f"boom {number}", "exception": "ValueError", "at": ago(60).isoformat()}
        | {"traceback": f"Traceback (most recent call last):\n  line of {number}\nValueError: boom {number}\n"}
        for number in (1, 2, 3)
    ]
    job = DeadJobFactory(queue="email", errors=errors, last_error="boom 3", kwargs={"b": [2]}, dedup_key="once")
    printed = run("show", job.pk)
    assert printed.lines[0] == f"tests.app.tasks.add {job.pk}"
    assert printed.lines[1].startswith("dead: The job became dead at")
    assert " ahead" not in printed.out
    assert printed.lines[1][-60:] == djqueue.explain(job.pk).text[-60:]
    for text in ("Queue             email", "Attempts          3 of 3", "Dedup key         once", "Timeline:", "died"):
        assert text in printed.out
    assert "line of 3" in printed.out
    assert "line of 2" not in printed.out
    assert "ValueError: boom 2" in printed.out
    assert "line of 1" in run("show", job.pk, "--traceback").out
    shown = run("show", job.pk, "--json").json
    assert shown["explanation"]["code"] == "dead"
    assert "boom 3" in shown["explanation"]["text"]
    assert set(shown["estimate"]) == {"ahead", "p50", "p90"}
    assert [error["number"] for error in shown["errors"]] == ["3", "2", "1"]
    assert {"enqueued", "attempt 3 failed", "died"} <= {moment["label"] for moment in shown["timeline"]}


def test_show_says_why_a_job_waits(database, run):
    QueueStateFactory(queue="default", paused=True)
    JobFactory()
    job = JobFactory()
    printed = run("show", job.pk)
    assert "paused" in printed.lines[1]
    assert printed.lines[2].startswith("1 job ahead")


def test_show_of_a_job_that_does_not_exist(database, run):
    job = JobFactory()
    rows(Job).all().delete()
    printed = run("show", job.pk)
    assert (printed.code, printed.err) == (1, f"Job {job.pk} does not exist, or is no longer kept.\n")
    assert run("show", "7").code == 2


def test_workers(database, run):
    assert run("workers").out.startswith("No worker is running.")
    WorkerFactory(name="a", queues={"queues": [], "exclude": ["slow"]}, running=3, threads=4, finished=1234)
    WorkerFactory(name="b", heartbeat_at=ago(300), queues=["email"])
    WorkerFactory(name="c", stopped_at=ago(10))
    a, b = (line.split() for line in run("workers").lines[1:])
    assert a[:6] == ["a", "alive", "all", "except", "slow", "3/4"]
    assert (b[1], b[3], b[-3:]) == ("lost", "-", ["5", "min", "ago"])
    assert {worker["name"]: worker["state"] for worker in run("workers", "--all", "--json").json["workers"]} == {
        "a": "alive",
        "b": "lost",
        "c": "stopped",
    }


def test_schedules(database, run):
    assert run("schedules").out.startswith("There are no schedules.")
    ScheduleFactory(name="nightly", cron="0 3 * * *", timezone="Europe/Berlin", next_at=ago(-7200), last_at=ago(79200))
    ScheduleFactory(name="broken", enabled=False, problem="no slot is left\nat all")
    ScheduleFactory(name="often", cron="", every=300.0)
    printed = run("schedules")
    assert printed.lines[0].split() == ["NAME", "RULE", "ZONE", "NEXT", "LAST", "ENABLED"]
    nightly = next(line for line in printed.lines if line.startswith("nightly"))
    assert nightly.split()[1:] == [*"0 3 * * *".split(), "Europe/Berlin", "in", "2.0", "h", "22.0", "h", "ago", "yes"]
    assert "every 5 min" in printed.out
    assert printed.lines[-1] == "broken: no slot is left"
    shown = {schedule["name"]: schedule for schedule in run("schedules", "--json").json["schedules"]}
    assert shown["nightly"]["timezone"] == "Europe/Berlin"
    assert datetime.fromisoformat(shown["nightly"]["next_at"]).tzinfo is not None
    assert shown["broken"]["problem"] == "no slot is left\nat all"
