"""enqueue, cancel, requeue, pause, resume and sweep, on every database."""

from __future__ import annotations

from uuid import uuid4

import pytest

import djqueue
from djqueue.core.uuid7 import uuid7
from djqueue.management.terminal import selection
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.testing import worker
from tests.app import tasks
from tests.conftest import PLAIN
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, KVFactory, QueueStateFactory, ago
from tests.tools import live, rows, statements_sent

pytestmark = pytest.mark.databases(*PLAIN)


def test_enqueue_creates_a_job_with_options(database, run):
    printed = run(
        *("enqueue", tasks.repeat.name, "--args", '["x"]', "--kwargs", '{"times": 3}', "--queue", "email"),
        *("--priority", "5", "--delay", "5m", "--max-attempts", "9", "--timeout", "30s", "--dedup-key", "once"),
    )
    assert printed.code == 0
    job = live(printed.out.strip())
    assert (job.task, job.args, job.kwargs, job.queue) == (tasks.repeat.name, ["x"], {"times": 3}, "email")
    assert (job.priority, job.max_attempts, job.timeout, job.status) == (5, 9, 30.0, "scheduled")
    assert (job.run_at - job.enqueued_at).total_seconds() == pytest.approx(300, abs=1)
    again = run("enqueue", tasks.repeat.name, "--args", '["x", 1]', "--queue", "email", "--dedup-key", "once")
    assert again.out == printed.out
    assert "No job was created" in again.err
    as_json = run("enqueue", tasks.add.name, "--json", "--run-at", "2099-01-31T09:00+01:00").json
    assert as_json["created"] is True
    assert live(as_json["id"]).run_at.isoformat() == "2099-01-31T08:00:00+00:00"


def test_arguments_of_other_types_are_given_as_they_are_stored(database, run):
    printed = run("enqueue", tasks.echo.name, "--args", '[{"$decimal": "9.90"}]')
    assert str(live(printed.out.strip()).args[0]) == "9.90"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["tests.app.tasks.ad"], "Did you mean tests.app.tasks.add"),
        (["add"], "Did you mean tests.app.tasks.add"),
        (["nonsense"], "No task nonsense is registered."),
        ([tasks.add.name, "--args", "[1"], "--args is not valid JSON"),
        ([tasks.add.name, "--args", "{}"], "--args must be a JSON list"),
        ([tasks.add.name, "--kwargs", "[]"], "--kwargs must be a JSON object"),
        ([tasks.add.name, "--kwargs", '{"bb": 1}'], "did you mean 'b'?"),
        ([tasks.add.name, "--args", '[{"$decimal": "x"}]'], "--args is not valid JSON"),
        ([tasks.add.name, "--args", "[1, 2, 3]"], "at most 2 positional arguments"),
        ([tasks.add.name, "--queue", "a b"], "which is not allowed"),
        ([tasks.add.name, "--delay", "soon"], "--delay must be a duration"),
        ([tasks.add.name, "--delay", "1", "--run-at", "2099-01-01T00:00Z"], "set either delay or run_at"),
        ([tasks.add.name, "--run-at", "soon"], "--run-at must be"),
        ([tasks.add.name, "--wait", "soon"], "--wait must be a duration"),
    ],
)
@pytest.mark.databases("sqlite")
def test_a_wrong_call_is_refused_and_nothing_is_written(database, run, arguments, error):
    printed = run("enqueue", *arguments)
    assert printed.code == 2
    assert error in printed.err
    assert rows(Job).count() == 0


def test_wait_reports_the_outcome(database, run):
    with worker(threads=1):
        done = run("enqueue", tasks.add.name, "--args", "[1, 2]", "--wait", "60")
        dead = run("enqueue", tasks.pay.name, "--args", "[1]", "--kwargs", '{"card": "4111-1111"}', "--wait")
        shown = run("enqueue", tasks.add.name, "--wait", "60", "--json")
    assert (done.code, done.lines[1]) == (0, "done: 3")
    assert dead.code == 1
    assert dead.lines[1].startswith("dead after 1 attempt: ")
    assert "4111" not in dead.out
    assert (shown.code, shown.json["status"], shown.json["result"]) == (0, "done", 0)


def test_wait_gives_up_after_its_time(database, run):
    printed = run("enqueue", tasks.add.name, "--wait", "0")
    assert (printed.code, printed.lines[1]) == (1, "timed out: the job is pending")


def test_requeue_by_ids_reports_those_that_it_refuses(database, run):
    dead, waiting, gone = DeadJobFactory(), JobFactory(), uuid4()
    printed = run("requeue", dead.pk, waiting.pk, gone, dead.pk, "--yes")
    assert (printed.code, printed.out) == (1, "1 requeued.\n")
    assert printed.err.splitlines() == [
        f"{waiting.pk} is not dead, but pending.",
        f"{gone} does not exist, or is no longer kept.",
    ]
    assert live(dead.pk).attempts == 0
    shown = run("requeue", waiting.pk, "--yes", "--json")
    assert (shown.code, shown.json["requeued"], shown.json["interrupted"]) == (1, 0, False)
    assert shown.json["refused"] == [{"id": str(waiting.pk), "reason": "is not dead, but pending"}]


def test_requeue_by_filters_in_batches(database, run, monkeypatch):
    monkeypatch.setattr(selection, "BATCH", 2)
    monkeypatch.setattr(selection, "WINDOW", 3)
    for number in range(7):
        DeadJobFactory(queue="email", last_error=f"timeout {number}")
    other, different = DeadJobFactory(queue="other", last_error="timeout 1"), DeadJobFactory(queue="email")
    dry = run("requeue", "--queue", "email", "--error", "timeout", "--dry-run")
    assert dry.out == '7 dead jobs of queue email with the error "timeout" would be requeued.\n'
    assert run("requeue", "--queue", "email", "--error", "timeout", "--dry-run", "--json").json == {"matched": 7}
    assert rows(Job).count() == 0
    printed = run("requeue", "--queue", "email", "--error", "timeout", "--yes")
    assert (printed.code, printed.out) == (0, "7 requeued.\n")
    assert rows(Job).count() == 7
    assert {job.pk for job in rows(DeadJob).all()} == {other.pk, different.pk}
    assert run("requeue", "--all", "--yes").out == "2 requeued.\n"
    assert run("requeue", "--all", "--yes").out == "There are no dead jobs.\n"


def test_a_job_that_dies_again_is_not_requeued_again(database, run, monkeypatch):
    """A requeue that runs beside workers must end, also if every job fails at once."""
    monkeypatch.setattr(selection, "BATCH", 1)
    monkeypatch.setattr(selection, "WINDOW", 1)
    for _ in range(3):
        DeadJobFactory()
    requeue_many = selection.statements().requeue
    died = []

    def requeue_and_die(self, items):
        records = requeue_many(items)
        for record in records:
            rows(Job).filter(pk=record.id).delete()
            died.append(DeadJobFactory(id=record.id))
        return records

    monkeypatch.setattr(type(selection.statements()), "requeue", requeue_and_die)
    assert run("requeue", "--all", "--yes").out == "3 requeued.\n"
    assert len(died) == 3


def test_requeue_says_that_a_queue_is_paused(database, run):
    QueueStateFactory(queue="email", paused=True)
    DeadJobFactory(queue="email")
    assert "Paused queues, whose jobs run when they are resumed: email." in run("requeue", "--all", "--yes").err


def test_cancel_removes_waiting_jobs_and_asks_running_ones(database, run):
    waiting, running, done = JobFactory(), JobFactory(claimed=True), DoneJobFactory()
    printed = run("cancel", waiting.pk, running.pk, done.pk, "--yes")
    assert (printed.code, printed.out) == (1, "1 cancelled, 1 asked to stop.\n")
    assert printed.err == f"{done.pk} is not live, but done.\n"
    assert rows(DoneJob).get(pk=waiting.pk).status == "cancelled"
    assert live(running.pk).cancel_requested


def test_cancel_by_filters(database, run):
    JobFactory(queue="email", scheduled=True)
    kept = [JobFactory(queue="email"), JobFactory(scheduled=True)]
    printed = run("cancel", "--queue", "email", "--status", "scheduled", "--yes", "--json")
    assert printed.json == {"cancelled": 1, "asked_to_stop": 0, "refused": [], "interrupted": False}
    assert {job.pk for job in rows(Job).all()} == {job.pk for job in kept}
    assert run("cancel", "--task", "tests.app.tasks.ad", "--yes").out.startswith("There are no live jobs of task")


@pytest.mark.parametrize("act", ["cancel", "requeue"])
def test_without_a_terminal_nothing_is_done_unless_yes_is_given(database, run, act, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    job = JobFactory() if act == "cancel" else DeadJobFactory()
    printed = run(act, job.pk)
    assert (printed.code, printed.out) == (1, "")
    assert "There is no terminal to confirm this. Nothing was changed. Repeat it with --yes." in printed.err
    assert rows(Job).count() == (1 if act == "cancel" else 0)


@pytest.mark.parametrize("act", ["cancel", "requeue"])
@pytest.mark.parametrize("arguments", [[], ["7"], ["--all", str(uuid7())], ["--queue", "x", str(uuid7())]])
@pytest.mark.databases("sqlite")
def test_an_unclear_selection_is_a_bad_argument(database, run, act, arguments):
    with statements_sent() as sent:
        assert run(act, *arguments, "--yes").code == 2
    assert sent == []


def test_pause_and_resume(database, run):
    JobFactory(queue="email")
    JobFactory(queue="email", claimed=True)
    assert run("pause", "email").out == "Paused email: 1 pending job will wait, 1 claimed job will continue.\n"
    assert djqueue.Queue("email").paused
    assert run("resume", "email").out == "Resumed email: 1 pending job.\n"
    assert not djqueue.Queue("email").paused
    assert run("resume", "email").out == "email was not paused: 1 pending job.\n"


def test_a_queue_that_was_never_seen_is_not_paused(database, run):
    JobFactory(queue="email")
    for act in ("pause", "resume"):
        printed = run(act, "email", "emial")
        assert printed.code == 1
        assert printed.err.startswith("No queue emial is known")
        assert "Did you mean email?" in printed.err
    assert not djqueue.Queue("email").paused
    assert run("pause", "emial", "--yes").code == 0
    assert djqueue.Queue("emial").paused
    assert run("pause", "a b").code == 2


def test_queues_of_tasks_and_settings_are_known(configure, run):
    configure(QUEUES={"configured": {"max_attempts": 1}})
    assert run("pause", "configured", "money", "default").code == 0  # shop.charge has the queue money


def test_sweep_deletes_what_is_no_longer_kept(configure, run):
    configure(KEEP_DONE=3600, KEEP_DEAD=7200, QUEUES={"short": {"keep_done": 60}})
    old = [
        DoneJobFactory(completed_at=ago(3700)),
        DoneJobFactory(completed_at=ago(100), queue="short"),
        DeadJobFactory(failed_at=ago(7300)),
    ]
    KVFactory(expires_at=ago(1))
    kept = [DoneJobFactory(completed_at=ago(3500)), DeadJobFactory(failed_at=ago(7100)), KVFactory()]
    dry = run("sweep", "--dry-run")
    assert dry.out == "2 done jobs, 1 dead job and 1 KV entry would be deleted.\n"
    assert run("sweep", "--dry-run", "--json").json == {"matched": {"done": 2, "dead": 1, "kv": 1}}
    assert run("sweep", "--queue", "short").out == "1 done job, 0 dead jobs and 0 KV entries deleted.\n"
    printed = run("sweep", "--json")
    assert printed.json == {"deleted": {"done": 1, "dead": 1, "kv": 1}, "interrupted": False}
    left = [*rows(DoneJob).all(), *rows(DeadJob).all()]
    assert {job.pk for job in left} == {job.pk for job in kept[:2]}
    assert not {job.pk for job in left} & {job.pk for job in old}


def test_sweep_refuses_the_name_of_a_queue_that_cannot_exist(database, run):
    printed = run("sweep", "--queue", "a\udfff")  # as the shell passes a byte that is not UTF-8
    assert printed.code == 2
    assert "not allowed" in printed.err


def test_sweep_with_an_age_of_its_own_is_confirmed(database, run, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    DoneJobFactory(completed_at=ago(100))
    DeadJobFactory(failed_at=ago(100))
    assert run("sweep", "--dead-older-than", "1m").code == 1
    assert rows(DeadJob).count() == 1
    assert run("sweep", "--dead-older-than", "1m", "--yes").out == "0 done jobs, 1 dead job and 0 KV entries deleted.\n"
    assert run("sweep", "--done-older-than", "1m", "--yes", "--queue", "other").out.startswith("0 done jobs")
    assert run("sweep", "--done-older-than", "x").code == 2
    assert rows(DoneJob).count() == 1
