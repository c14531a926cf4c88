"""Admin actions: permissions, confirmation, counts, log entries, and jobs held by a worker."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.test import Client

import djqueue
from djqueue import kv
from djqueue.admin.actions import ActingAdmin
from djqueue.admin.kv import digest as kv_digest
from djqueue.admin.schedule_form import digest
from djqueue.models import KV, DeadJob, DoneJob, Job, LimitKey, QueueState, Schedule, Worker
from tests.admin.tools import SCHEDULE, Cells, Person, words
from tests.app.tasks import add
from tests.factories import (
    DeadJobFactory,
    DoneJobFactory,
    JobFactory,
    KVFactory,
    LimitKeyFactory,
    ScheduleFactory,
    WorkerFactory,
    ago,
)
from tests.test_signals import heard  # noqa: F401 - a fixture
from tests.tools import claim_one, in_thread, places, rows

pytestmark = pytest.mark.databases("postgresql", "sqlite", "mysql")


class Case:
    """One action: how to run it, how to check that it happened, and its log entry."""

    def __init__(self, model, permission, view, make, do, done, entry):
        self.model, self.permission, self.view = model, permission, view
        self.make, self.do, self.done, self.entry = make, do, done, entry


def action(model, name, **more):
    return lambda person, row: person.do(model, name, row.pk, **more)


def switch(name):
    return lambda person, row: person.client.post(
        person.url("queuestate"), {"act": name, "queue": "mail", "confirmed": "yes"}, follow=True
    )


def on_page(model, **data):
    return lambda person, row: person.client.post(
        person.url(model, f"{row.pk}/change/"), {"confirmed": "yes", **data}, follow=True
    )


def paused_queue():
    JobFactory(queue="mail")
    djqueue.Queue("mail").pause()
    return QueueState(queue="mail")


def mail():
    JobFactory(queue="mail")
    return QueueState(queue="mail")


def save(model, **data):
    return lambda person, row: person.client.post(person.url(model, f"{row.pk}/change/"), data | seen(row), follow=True)


def seen(row):
    return {"seen": digest(row) if isinstance(row, Schedule) else kv_digest(row.value)}


ACTS = {
    "run now": Case(
        "job",
        "run_now_job",
        "view_job",
        lambda: JobFactory(scheduled=True),
        action("job", "run_now"),
        lambda row: rows(Job).get(pk=row.pk).status == "pending",
        (CHANGE, "Set to run now."),
    ),
    "cancel": Case(
        "job",
        "cancel_job",
        "view_job",
        JobFactory,
        action("job", "cancel"),
        lambda row: places(row.pk) == ["DoneJob"],
        (CHANGE, "Cancelled."),
    ),
    "cancel a claimed one": Case(
        "job",
        "cancel_job",
        "view_job",
        lambda: JobFactory(claimed=True),
        action("job", "cancel"),
        lambda row: rows(Job).get(pk=row.pk).cancel_requested,
        (CHANGE, "Asked to stop."),
    ),
    "change priority": Case(
        "job",
        "reschedule_job",
        "view_job",
        JobFactory,
        action("job", "reschedule", priority="7"),
        lambda row: rows(Job).get(pk=row.pk).priority == 7,
        (CHANGE, "Changed priority or time."),
    ),
    "requeue": Case(
        "deadjob",
        "requeue_deadjob",
        "view_deadjob",
        DeadJobFactory,
        action("deadjob", "requeue"),
        lambda row: places(row.pk) == ["Job"],
        (CHANGE, "Requeued."),
    ),
    "requeue with other arguments": Case(
        "deadjob",
        "change_arguments_deadjob",
        "view_deadjob",
        DeadJobFactory,
        action("deadjob", "requeue_edited", args="[2]", kwargs='{"b": 3}'),
        lambda row: [(job.args, job.kwargs) for job in rows(Job).all()] == [([2], {"b": 3})],
        (CHANGE, "Requeued with other arguments."),
    ),
    "enqueue again": Case(
        "donejob",
        "add_job",
        "view_donejob",
        DoneJobFactory,
        action("donejob", "enqueue_again"),
        lambda row: places(row.pk) == ["DoneJob"] and rows(Job).count() == 1,
        (CHANGE, "Enqueued again."),
    ),
    "delete dead": Case(
        "deadjob",
        "delete_deadjob",
        "view_deadjob",
        DeadJobFactory,
        action("deadjob", "delete"),
        lambda row: places(row.pk) == [],
        (DELETION, "Deleted."),
    ),
    "pause": Case(
        "queuestate",
        "pause_queuestate",
        "view_queuestate",
        mail,
        switch("pause"),
        lambda row: djqueue.Queue("mail").paused,
        (CHANGE, "Paused."),
    ),
    "resume": Case(
        "queuestate",
        "resume_queuestate",
        "view_queuestate",
        paused_queue,
        switch("resume"),
        lambda row: not djqueue.Queue("mail").paused,
        (CHANGE, "Resumed."),
    ),
    "edit kv": Case(
        "kv",
        "change_kv",
        "view_kv",
        lambda: KVFactory(key="colour", value="blue"),
        save("kv", content='"red"'),
        lambda row: kv.get("colour") == "red",
        (CHANGE, json.dumps([{"changed": {"fields": ["Value"]}}])),
    ),
    "delete kv": Case(
        "kv",
        "delete_kv",
        "view_kv",
        lambda: KVFactory(key="colour", value="blue"),
        action("kv", "delete"),
        lambda row: kv.get("colour") is None,
        (DELETION, "Deleted."),
    ),
    "edit a schedule": Case(
        "schedule",
        "change_schedule",
        "view_schedule",
        ScheduleFactory,
        save("schedule", **SCHEDULE | {"cron": "0 3 * * *"}),
        lambda row: rows(Schedule).get(pk=row.pk).cron == "0 3 * * *",
        (CHANGE, json.dumps([{"changed": {"fields": ["Cron rule"]}}])),
    ),
    "edit the switch of a schedule from code": Case(
        "schedule",
        "change_schedule",
        "view_schedule",
        lambda: ScheduleFactory(from_code=True),
        save("schedule"),
        lambda row: not rows(Schedule).get(pk=row.pk).enabled,
        (CHANGE, json.dumps([{"changed": {"fields": ["Enabled"]}}])),
    ),
    "enable a schedule": Case(
        "schedule",
        "change_schedule",
        "view_schedule",
        lambda: ScheduleFactory(enabled=False),
        action("schedule", "enable"),
        lambda row: rows(Schedule).get(pk=row.pk).next_at is not None,
        (CHANGE, "Enabled."),
    ),
    "disable a schedule": Case(
        "schedule",
        "change_schedule",
        "view_schedule",
        ScheduleFactory,
        action("schedule", "disable"),
        lambda row: not rows(Schedule).get(pk=row.pk).enabled,
        (CHANGE, "Disabled."),
    ),
    "run a schedule now": Case(
        "schedule",
        "run_schedule",
        "view_schedule",
        lambda: ScheduleFactory(args=[1]),
        action("schedule", "run_now"),
        lambda row: [job.args for job in rows(Job).filter(schedule=row.name)] == [[1]],
        (CHANGE, "Enqueued a job now."),
    ),
    "delete a schedule": Case(
        "schedule",
        "delete_schedule",
        "view_schedule",
        ScheduleFactory,
        action("schedule", "delete"),
        lambda row: not rows(Schedule).filter(pk=row.pk).exists(),
        (DELETION, "Deleted."),
    ),
    "quiet a worker": Case(
        "worker",
        "control_worker",
        "view_worker",
        WorkerFactory,
        action("worker", "quiet"),
        lambda row: rows(Worker).get(pk=row.pk).request == "quiet",
        (CHANGE, "Asked to be quiet."),
    ),
    "resume a worker": Case(
        "worker",
        "control_worker",
        "view_worker",
        lambda: WorkerFactory(quiet=True),
        action("worker", "resume"),
        lambda row: rows(Worker).get(pk=row.pk).request == "resume",
        (CHANGE, "Asked to resume."),
    ),
    "drain a worker": Case(
        "worker",
        "control_worker",
        "view_worker",
        WorkerFactory,
        action("worker", "drain"),
        lambda row: rows(Worker).get(pk=row.pk).request == "drain",
        (CHANGE, "Asked to drain."),
    ),
    "hold a limit": Case(
        "limitkey",
        "hold_limitkey",
        "view_limitkey",
        LimitKeyFactory,
        action("limitkey", "hold", hold="60"),
        lambda row: djqueue.limits.get(row.key).held_until is not None,
        (CHANGE, "Held for 1 min."),
    ),
    "release a limit": Case(
        "limitkey",
        "hold_limitkey",
        "view_limitkey",
        lambda: LimitKeyFactory(held_until=ago(-60)),
        on_page("limitkey", act="release"),
        lambda row: djqueue.limits.get(row.key).held_until is None,
        (CHANGE, "Released."),
    ),
    "set a limit": Case(
        "limitkey",
        "change_limitkey",
        "view_limitkey",
        LimitKeyFactory,
        on_page("limitkey", act="set", concurrency="3"),
        lambda row: djqueue.limits.get(row.key).concurrency == 3,
        (CHANGE, "Set to 3 at once."),
    ),
    "clear a limit": Case(
        "limitkey",
        "change_limitkey",
        "view_limitkey",
        lambda: LimitKeyFactory(concurrency=3),
        action("limitkey", "clear"),
        lambda row: djqueue.limits.get(row.key).concurrency is None,
        (CHANGE, "Cleared."),
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_superuser_can_act(people, name):
    may(people(), ACTS[name])


@pytest.mark.parametrize("name", ACTS)
def test_staff_with_the_permission_can_act(people, name):
    case = ACTS[name]
    may(people(case.view, case.permission), case)


def may(person: Person, case: Case) -> None:
    row = case.make()
    assert not case.done(row)
    response = case.do(person, row)
    assert response.status_code == 200
    assert case.done(row)
    [(pk, flag, message)] = person.log()
    assert (pk, flag, message.partition(f" {row.pk} → ")[0]) == (str(row.pk), *case.entry)


@pytest.mark.parametrize("name", ACTS)
def test_staff_without_the_permission_cannot_act(people, name):
    """Even if they have all other permissions of the model."""
    case = ACTS[name]
    others = {other.permission for other in ACTS.values() if other.model == case.model} - {case.permission}
    for person in (people(case.view), people(case.view, *others)):
        row = case.make()
        response = case.do(person, row)
        assert response.status_code == 403
        assert not case.done(row)
        assert person.log() == []
        for model in (Job, DeadJob, DoneJob, KV, LimitKey, QueueState, Schedule, Worker):
            rows(model).all().delete()


@pytest.mark.parametrize("name", ACTS)
def test_staff_without_view_permission_are_refused(people, name):
    case = ACTS[name]
    person = people("view_throughput", superuser=False)
    row = case.make()
    assert case.do(person, row).status_code == 403
    assert person.get(case.model).status_code == 403
    assert not case.done(row)
    assert person.log() == []


@pytest.mark.parametrize("name", ACTS)
def test_anonymous_users_are_redirected_to_the_login(people, name):
    case = ACTS[name]
    row = case.make()
    response = case.do(Person(Client(), None), row)
    assert response.redirect_chain[0][0].startswith("/admin/login/")
    assert not case.done(row)


@pytest.mark.parametrize("name", ACTS)
def test_actions_need_a_csrf_token(people, name):
    case = ACTS[name]
    person = people()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(person.user)
    row = case.make()
    assert case.do(Person(strict, person.user), row).status_code == 403
    assert not case.done(row)


@pytest.mark.parametrize("name", [name for name in ACTS if not name.startswith("edit")])
def test_nothing_happens_before_the_confirmation(boss, name):
    case = ACTS[name]
    row = case.make()
    client_post = boss.client.post

    def without_confirmation(path, data, **kwargs):
        return client_post(path, {key: value for key, value in data.items() if key != "confirmed"}, **kwargs)

    boss.client.post = without_confirmation
    page = case.do(boss, row)
    assert str(page.context["decline"]) in words(page)
    buttons = [
        attrs["value"]
        for tag, attrs in Cells(page.content.decode()).tags
        if tag == "input" and attrs["type"] == "submit"
    ]
    assert buttons == [str(page.context["confirm"])]
    assert not case.done(row)
    assert boss.log() == []


def test_actions_are_offered_only_with_the_permission(people):
    job = DeadJobFactory()
    looking = people("view_deadjob")
    assert "requeue" not in looking.get("deadjob").content.decode().lower()
    assert "Requeue" not in words(looking.page("deadjob", job.pk))
    acting = people("view_deadjob", "requeue_deadjob")
    assert "Requeue selected dead jobs" in words(acting.get("deadjob"))
    page = words(acting.page("deadjob", job.pk))
    assert "Requeue …" in page
    assert "Delete" not in page


@pytest.mark.parametrize(
    ("rows", "texts"),
    [(1, ("1 dead job", "Delete 1 job", "Keep it")), (3, ("3 dead jobs", "Delete 3 jobs", "Keep them"))],
)
def test_confirmation_names_the_number_of_rows(boss, rows, texts):
    jobs = [DeadJobFactory() for _ in range(rows)]
    page = boss.ask("deadjob", "delete", *(job.pk for job in jobs))
    assert (page.context["rows"], page.context["confirm"], page.context["decline"]) == texts


def test_confirmation_of_more_rows_than_are_counted(boss, monkeypatch):
    monkeypatch.setattr("djqueue.admin.actions.CAP", 2)
    for _ in range(3):
        DeadJobFactory()
    page = boss.ask("deadjob", "requeue")
    assert (page.context["rows"], page.context["confirm"]) == ("2+ dead jobs", "Requeue 2+ jobs")


# Rows that an action must not change


def test_cancel_reports_cancelled_and_requested_jobs(boss):
    waiting, running = JobFactory(), JobFactory(claimed=True)
    response = boss.do("job", "cancel", waiting.pk, running.pk)
    assert boss.messages(response) == ["1 cancelled, 1 asked to stop, 0 skipped."]
    assert places(running.pk) == ["Job"]
    assert rows(Job).get().token == running.token
    assert boss.log() == [(str(waiting.pk), CHANGE, "Cancelled."), (str(running.pk), CHANGE, "Asked to stop.")]


def test_cancel_is_not_offered_again_to_a_running_job(boss):
    job = JobFactory(claimed=True, worker="web-1:7:ab")
    assert "Cancel …" in words(boss.page("job", job.pk))
    response = boss.do("job", "cancel", job.pk, from_page=str(job.pk))
    page = words(response)
    assert boss.messages(response) == ["0 cancelled, 1 asked to stop, 0 skipped."]
    assert "Cancel …" not in page
    assert "A cancel was requested. The task decides when to stop" in page
    assert "restart the worker web-1:7:ab" in page
    assert boss.messages(boss.do("job", "cancel", job.pk)) == ["0 cancelled, 0 asked to stop, 1 skipped."]
    assert len(boss.log()) == 1


def test_a_job_that_waits_again_after_a_cancel_request_can_be_cancelled(boss):
    job = JobFactory(cancel_requested=True)
    page = words(boss.page("job", job.pk))
    assert "Cancel …" in page
    assert "no longer held by a worker" in page
    assert boss.messages(boss.do("job", "cancel", job.pk)) == ["1 cancelled, 0 asked to stop, 0 skipped."]
    assert places(job.pk) == ["DoneJob"]
    assert "A cancel was requested" not in words(boss.page("donejob", job.pk))


@pytest.mark.parametrize("act", ["run_now", "reschedule"])
def test_jobs_held_by_a_worker_are_skipped(boss, act):
    running = JobFactory(claimed=True)
    response = boss.do("job", act, running.pk, priority="1")
    [message] = boss.messages(response)
    assert "1 skipped" in message
    after = rows(Job).get()
    assert (after.status, after.priority, after.token) == ("claimed", 1000, running.token)
    assert boss.log() == []


def test_job_requeued_meanwhile_is_skipped(boss):
    job = DeadJobFactory()
    confirmation = boss.ask("deadjob", "requeue", job.pk)
    djqueue.requeue(job.pk)
    assert confirmation.status_code == 200
    response = boss.do("deadjob", "requeue", job.pk)
    assert boss.messages(response) == ["0 requeued, 1 skipped."]
    assert boss.log() == []


def test_invalid_id_in_a_selection_is_reported(boss):
    for model, name in (("job", "cancel"), ("deadjob", "requeue")):
        assert "The selection contains an invalid id." in words(boss.do(model, name, "nonsense"))


def test_actions_beside_running_workers_lose_and_duplicate_no_job(boss, database):
    """Cancel, requeue and delete all rows while workers claim and settle: each job ends up in exactly one table."""
    handles = add.enqueue_many([djqueue.call(n) for n in range(100)])
    stop = threading.Event()

    def work(number: int) -> int:
        done = 0
        while not stop.is_set():
            for job in djqueue.Queue("default").claim(5):
                with suppress(djqueue.LeaseLost):
                    job.dead_letter("no") if random.random() < 0.6 else job.ack()
                    done += 1
            stop.wait(0.01)
        return done

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(in_thread, work, number) for number in range(3)]
        try:
            for _ in range(4):
                boss.do("deadjob", "requeue")
                boss.do("job", "cancel", query={"q": f"a:{random.randrange(100)}"})
                boss.do("job", "reschedule", priority=str(random.randrange(100)))
                boss.do("deadjob", "delete", query={"q": f"a:{random.randrange(100)}"})
        finally:
            stop.set()
        assert sum(future.result() for future in futures) > 0
    deleted = " ".join(f"{entry[0]} {entry[2]}" for entry in boss.log() if entry[1] == DELETION)
    for handle in handles:
        assert len(places(handle.id)) == (0 if str(handle.id) in deleted else 1)


def test_holder_of_a_cancelled_job_settles_it_as_cancelled(boss):
    """A cancel in the admin only requests it from the holder, which still settles the job."""
    handle = djqueue.enqueue("tests.app.tasks.add", args=[1])
    job = claim_one()
    boss.do("job", "cancel", handle.id)
    job.nack("gave up")
    assert handle.status() == "cancelled"


# Requeue


def test_requeue_from_the_job_page_redirects_to_the_live_job(boss):
    job = DeadJobFactory()
    response = boss.do("deadjob", "requeue", job.pk, from_page=str(job.pk))
    assert response.redirect_chain[-1][0] == f"/admin/djqueue/job/{job.pk}/change/"
    assert "1 requeued, 0 skipped." in words(response)


def test_history_shows_entries_from_all_tables(boss):
    job = DeadJobFactory()
    boss.do("deadjob", "requeue", job.pk)
    boss.do("job", "cancel", job.pk)
    history = words(boss.get("donejob", f"{job.pk}/history/"))
    assert "Requeued." in history
    assert "Cancelled." in history


def test_requeue_of_many_jobs_is_one_recent_action(boss, monkeypatch):
    monkeypatch.setattr(ActingAdmin, "action_batch", 90)
    jobs = [DeadJobFactory() for _ in range(200)]
    boss.do("deadjob", "requeue")
    [(pk, flag, message)] = boss.log()
    assert (pk, flag, message.split("\n")[0]) == (None, CHANGE, "Requeued.")
    assert set(message.split("\n")[1:]) == {str(job.pk) for job in jobs}
    index = words(boss.client.get("/admin/"))
    assert index.count("200 dead jobs: Requeued.") == 1
    for job in (jobs[0], jobs[99], jobs[199]):
        history = words(boss.get("job", f"{job.pk}/history/"))
        assert f"{boss.user.username} Requeued." in history
        assert str(jobs[1].pk) not in history


def test_log_entry_of_many_jobs_is_not_endless(boss, monkeypatch):
    monkeypatch.setattr(ActingAdmin, "action_batch", 4)
    monkeypatch.setattr("djqueue.admin.log.MOST_JOBS", 8)
    jobs = [DeadJobFactory() for _ in range(11)]
    boss.do("deadjob", "delete")
    messages = [message.split("\n") for _, _, message in boss.log()]
    assert [len(lines) - 1 for lines in messages] == [8, 3]
    assert {line for lines in messages for line in lines[1:]} == {str(job.pk) for job in jobs}


def test_confirmation_shows_arguments(boss):
    job = DeadJobFactory(task="shop.charge", kwargs={"order": 42}, args=[])
    secret = DeadJobFactory(task="tests.app.tasks.log_in", args=["ada", "hunter2"])
    long = DeadJobFactory(args=["x" * 3000])
    page = words(boss.ask("deadjob", "requeue", job.pk, secret.pk, long.pk))
    assert "shop.charge ( order=42 )" in page
    assert 'tests.app.tasks.log_in ( "ada", "********" )' in page
    assert "hunter2" not in page
    assert "(too long to show)" in page


@pytest.mark.parametrize("model", ["deadjob", "donejob", "job"])
def test_a_paused_queue_is_named_before_and_after(boss, model):
    act = {"deadjob": "requeue", "donejob": "enqueue_again", "job": "run_now"}[model]
    make = {"deadjob": DeadJobFactory, "donejob": DoneJobFactory, "job": lambda **k: JobFactory(scheduled=True, **k)}
    for queue in ("mail", "mail", "other"):
        make[model](queue=queue)
    assert "paused" not in words(boss.ask(model, act))
    djqueue.Queue("mail").pause()
    djqueue.Queue("elsewhere").pause()
    note = "2 jobs are in the queue “mail”, which is paused. They run when the queue is resumed."
    assert note in words(boss.ask(model, act))
    assert "elsewhere" not in words(boss.ask(model, act))
    assert note in boss.messages(boss.do(model, act))
    if model == "deadjob":
        assert "paused" not in words(boss.ask(model, "delete"))


def test_requeue_with_empty_arguments(boss):
    job = DeadJobFactory(args=[1], kwargs={"b": 2})
    boss.do("deadjob", "requeue_edited", job.pk, args="", kwargs="")
    assert (rows(Job).get().args, rows(Job).get().kwargs) == ([], {})


# Enqueue again


def test_a_bulk_cancel_is_undone(boss):
    jobs = [JobFactory(args=[n], queue="mail", priority=7, headers={"n": n}, scheduled=n == 2) for n in range(3)]
    boss.do("job", "cancel")
    assert rows(Job).count() == 0
    response = boss.do("donejob", "enqueue_again", query={"status": "cancelled"})
    assert boss.messages(response) == ["3 enqueued again, 0 skipped."]
    copies = rows(Job).order_by("id")
    assert [(job.args, job.headers, job.queue, job.priority) for job in copies] == [
        ([n], {"n": n}, "mail", 7) for n in range(3)
    ]
    assert [job.status for job in copies] == ["pending", "pending", "scheduled"]
    assert copies[2].run_at == jobs[2].run_at
    assert not {job.pk for job in copies} & {job.pk for job in jobs}
    assert rows(DoneJob).count() == 3
    for old, new in zip(jobs, copies, strict=True):
        for model, pk in (("donejob", old.pk), ("job", new.pk)):
            assert f"Enqueued again. {old.pk} → {new.pk}" in words(boss.get(model, f"{pk}/history/"))


def test_one_job_is_enqueued_again_from_its_page(boss):
    job = DoneJobFactory(task="tests.app.tasks.log_in", args=["ada", "hunter2"])
    assert "hunter2" not in words(boss.ask("donejob", "enqueue_again", job.pk, from_page=str(job.pk)))
    response = boss.do("donejob", "enqueue_again", job.pk, from_page=str(job.pk))
    copy = rows(Job).get()
    assert copy.args == ["ada", "hunter2"]
    assert f"/admin/djqueue/job/{copy.pk}/change/" in response.content.decode()
    assert "hunter2" not in response.content.decode()


def test_job_whose_dedup_key_is_held_is_not_enqueued_again(boss):
    DoneJobFactory(status="cancelled", dedup_key="k")
    other = JobFactory(dedup_key="k")
    response = boss.do("donejob", "enqueue_again")
    assert boss.messages(response) == ["0 enqueued again, 1 skipped."]
    assert [job.pk for job in rows(Job).all()] == [other.pk]
    assert boss.log() == []


def test_requeue_sends_its_signal(boss, heard):  # noqa: F811
    boss.do("deadjob", "requeue", DeadJobFactory().pk)
    assert heard.names == ["queued"]


def test_requeue_spread_over_time(boss):
    for _ in range(30):
        DeadJobFactory()
    before = datetime.now(UTC)
    boss.do("deadjob", "requeue", spread="60")
    times = sorted(rows(Job).values_list("run_at", flat=True))
    assert len(times) == 30
    assert before - timedelta(seconds=5) <= times[0]
    assert times[-1] <= before + timedelta(minutes=61)
    assert times[-1] - times[0] > timedelta(minutes=10)


def test_invalid_confirmation_form_is_shown_again(boss):
    job = DeadJobFactory()
    response = boss.do("deadjob", "requeue", job.pk, spread="-3")
    assert "greater than or equal to 0" in words(response)
    assert places(job.pk) == ["DeadJob"]


def test_only_jobs_that_match_the_filter_are_requeued(boss):
    for queue in ("a", "b"):
        for _ in range(7):
            DeadJobFactory(queue=queue)
    page = boss.ask("deadjob", "requeue", query={"queue": "a"})
    assert "7 dead jobs" in words(page)
    response = boss.do("deadjob", "requeue", query={"queue": "a"})
    assert boss.messages(response) == ["7 requeued, 0 skipped."]
    assert {job.queue for job in rows(Job).all()} == {"a"}
    assert rows(DeadJob).count() == 7


def test_actions_run_in_batches(boss, monkeypatch):
    monkeypatch.setattr(ActingAdmin, "action_batch", 4)
    for _ in range(11):
        DeadJobFactory()
    assert boss.messages(boss.do("deadjob", "requeue")) == ["11 requeued, 0 skipped."]
    assert len(boss.log()) == 1


def test_time_limit_of_a_request_is_reported(boss, monkeypatch):
    monkeypatch.setattr(ActingAdmin, "action_batch", 4)
    monkeypatch.setattr(ActingAdmin, "action_seconds", 0)
    for _ in range(8):
        DeadJobFactory()
    [message] = boss.messages(boss.do("deadjob", "delete"))
    assert message == ("4 deleted, 0 skipped. The time limit was reached. Run the action again for the remaining rows.")
    assert rows(DeadJob).count() == 4
    [message] = boss.messages(boss.do("deadjob", "delete"))
    assert message == "4 deleted, 0 skipped."


def test_requeue_with_other_arguments_takes_one_job(boss):
    jobs = [DeadJobFactory(), DeadJobFactory()]
    response = boss.do("deadjob", "requeue_edited", *(job.pk for job in jobs), args="[]", kwargs="{}")
    assert "Select exactly one job" in words(response)
    assert rows(DeadJob).count() == 2


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"args": "[1", "kwargs": "{}"}, "Invalid JSON: Expecting ',' delimiter (line 1, column 3)."),
        ({"args": "{}", "kwargs": "{}"}, "Enter a JSON list"),
        ({"args": "[]", "kwargs": "[]"}, "Enter a JSON object"),
        ({"args": "[NaN]", "kwargs": "{}"}, "which JSON cannot represent"),
        ({"args": '["\\u0000"]', "kwargs": "{}"}, "NUL character"),
        ({"args": f'["{"x" * 2_000_000}"]', "kwargs": "{}"}, "MAX_PAYLOAD_SIZE"),
    ],
)
def test_invalid_arguments_are_explained(boss, given, problem):
    job = DeadJobFactory()
    assert problem in words(boss.do("deadjob", "requeue_edited", job.pk, **given))
    assert places(job.pk) == ["DeadJob"]


def test_edited_arguments_keep_masked_values(boss):
    job = DeadJobFactory(task="tests.app.tasks.log_in", args=["ada", "hunter2"])
    form = boss.ask("deadjob", "requeue_edited", job.pk).context["form"]
    args = json.loads(form["args"].value())
    assert args == ["ada", "********"]
    boss.do("deadjob", "requeue_edited", job.pk, args=json.dumps(["grace", args[1]]), kwargs="{}")
    assert rows(Job).get().args == ["grace", "hunter2"]


def test_mask_without_a_stored_value_is_refused(boss):
    job = DeadJobFactory(task="tests.app.tasks.log_in", args=["ada"])
    response = boss.do("deadjob", "requeue_edited", job.pk, args='["ada", "********"]', kwargs="{}")
    assert "password is masked" in words(response)


def test_a_job_of_an_unknown_task_can_be_requeued_with_other_arguments(boss):
    job = DeadJobFactory(task="gone.away", args=["ada", "hunter2"], kwargs={"pin": "4711"})
    response = boss.ask("deadjob", "requeue_edited", job.pk)
    assert "The arguments are hidden because this task is not registered." in words(response)
    form = response.context["form"]
    given = {"args": json.loads(form["args"].value()), "kwargs": json.loads(form["kwargs"].value())}
    assert given == {"args": ["********", "********"], "kwargs": {"pin": "********"}}
    boss.do("deadjob", "requeue_edited", job.pk, args='["grace", "********"]', kwargs=json.dumps(given["kwargs"]))
    assert (rows(Job).get().args, rows(Job).get().kwargs) == (["grace", "hunter2"], {"pin": "4711"})


# Change time


def test_time_is_read_in_the_time_zone_of_the_site(boss):
    job = JobFactory()
    boss.do("job", "reschedule", job.pk, run_at_0="2030-01-02", run_at_1="03:04:05")
    after = rows(Job).get()
    assert after.status == "scheduled"
    assert after.run_at == datetime(2030, 1, 2, 2, 4, 5, tzinfo=UTC)  # winter time in Berlin


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "Enter a priority, a time, or both."),
        ({"priority": "x"}, "Enter a whole number."),
        ({"priority": str(2**63)}, "less than or equal"),
        ({"run_at_0": "9999-01-01", "run_at_1": "00:00"}, "before the year"),
        ({"run_at_0": "2030-01-01"}, "Enter a valid time"),
    ],
)
def test_invalid_priority_or_time_is_explained(boss, given, problem):
    job = JobFactory()
    assert problem in words(boss.do("job", "reschedule", job.pk, **given))
    assert rows(Job).get().priority == 1000


# Queues


def test_pausing_a_paused_queue_is_skipped(boss):
    JobFactory(queue="mail")
    switch("pause")(boss, None)
    assert boss.messages(switch("pause")(boss, None)) == ["0 paused, 1 skipped."]
    assert len(boss.log()) == 1
    assert boss.client.get(boss.url("queuestate", "mail/change/"), follow=True).status_code == 200


@pytest.mark.parametrize("data", [{}, {"act": "explode", "queue": "x"}])
def test_invalid_post_to_the_queue_list_is_refused(boss, data):
    assert boss.client.post(boss.url("queuestate"), data).status_code == 400


def test_invalid_queue_name_is_explained(boss):
    data = {"act": "pause", "queue": "a b", "confirmed": "yes"}
    assert "contains the character" in words(boss.client.post(boss.url("queuestate"), data, follow=True))


# KV


def test_kv_entry_is_added_through_the_api(boss):
    response = boss.client.post(boss.url("kv", "add/"), {"key": "n", "content": '{"a": [1, "42"]}'}, follow=True)
    assert response.status_code == 200
    assert kv.get("n") == {"a": [1, "42"]}
    assert [entry[:2] for entry in boss.log()] == [("n", ADDITION)]
    again = boss.client.post(boss.url("kv", "add/"), {"key": "n", "content": "1"})
    assert "An entry with this key already exists." in words(again)


def test_adding_kv_needs_its_permission(people):
    data = {"key": "n", "content": "1"}
    for person in (people("view_kv", "change_kv"), people("view_kv", "delete_kv")):
        assert person.client.post(person.url("kv", "add/"), data).status_code == 403
    assert kv.get("n") is None
    adding = people("view_kv", "add_kv")
    adding.client.post(adding.url("kv", "add/"), data)
    assert kv.get("n") == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{'a': 1}", "Invalid JSON"),
        ("null", "An entry cannot be null"),
        ("NaN", "which JSON cannot represent"),
        ("", "Enter a value"),
        (f'"{"x" * 300_000}"', "KV value too large: 300002 bytes encoded (maximum 262144)"),
    ],
)
def test_invalid_kv_values_are_explained(boss, content, problem):
    row = KVFactory(key="colour", value="blue")
    assert problem in words(save("kv", content=content)(boss, row))
    assert kv.get("colour") == "blue"


def test_string_value_stays_a_string(boss):
    row = KVFactory(key="n", value="x")
    save("kv", content='"42"')(boss, row)
    assert kv.get("n") == "42"


def test_kv_edit_refuses_to_overwrite_a_concurrent_change(boss):
    row = KVFactory(key="n", value=1)
    kv.set("n", 2)
    assert "This entry has changed since you opened it." in words(save("kv", content="3")(boss, row))
    assert kv.get("n") == 2


def test_kv_edit_keeps_the_expiry(boss):
    kv.set("n", 1, expires_in=3600)
    row = rows(KV).get()
    save("kv", content="2")(boss, row)
    after = rows(KV).get()
    assert (after.value, after.expires_at) == (2, row.expires_at)


def test_viewer_sees_the_kv_value(people):
    row = KVFactory(key="n", value={"a": 1})
    looking = people("view_kv")
    response = looking.page("kv", row.pk)
    assert '{ "a": 1 }' in words(response)
    assert "Save" not in words(response)


def test_done_jobs_have_no_actions(boss):
    job = DoneJobFactory()
    for name in ("requeue", "delete", "cancel", "delete_selected"):
        boss.do("donejob", name, job.pk)
    assert places(job.pk) == ["DoneJob"]
    assert boss.log() == []
