from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connections, transaction

import djqueue
from djqueue.conf import config
from djqueue.lifecycle import settle
from djqueue.models import DeadJob, DoneJob, Job, Throughput
from djqueue.sql.columns import MAX_ERRORS
from djqueue.states import Outcome, Verdict
from tests.app.tasks import add, eager_retry, echo, fragile, log_in, steady
from tests.conftest import PLAIN
from tests.factories import DeadJobFactory, DoneJobFactory
from tests.tools import claim_one, database_now, in_threads, live, places, rows, statements_sent


def test_ack_moves_the_job_to_the_done_ones(database):
    handle = add.using(headers={"h": 1}, dedup_key="k", dedup_until="done").enqueue(1, b=2)
    job = claim_one()
    job.progress(1, 2)
    job.ack({"sum": 3})
    assert places(handle.id) == ["DoneJob"]
    record = handle.job()
    assert (record.status, record.result) == ("done", {"sum": 3})
    assert (record.args, record.kwargs, record.headers) == ([1], {"b": 2}, {"h": 1})
    assert (record.attempts, record.worker_ids, record.errors, record.last_error) == (1, [job.worker], [], "")
    assert record.enqueued_at <= record.started_at <= record.completed_at
    assert record.claimed_at == job.claimed_at
    assert record.lease_expires_at is None
    assert record.progress == {"done": 1, "total": 2, "message": ""}


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": None}, "ü😀", 1.5])
def test_results_come_back(database, result):
    add.enqueue(1)
    job = claim_one()
    job.ack(result)
    assert djqueue.get_job(job.id).result == result


class Hostile:
    """A result whose repr() does the worst that it can."""

    def __init__(self, text: object) -> None:
        self.text = text

    def __repr__(self) -> str:
        if isinstance(self.text, BaseException):
            raise self.text
        return self.text


ENDLESS: list = []
ENDLESS.append(ENDLESS)
UNSTORABLE = {
    "of another type": (Hostile("<it>"), "tests.lifecycle.test_settle.Hostile", "<it>", "result is of type Hostile"),
    "with a part of another type": ({"a": [{1}]}, "dict", "{'a': [{1}]}", "result.a[0] is of type set"),
    "too large": ("x" * 20_000, "str", f"'{'x' * 499}\n… 19002", "result too large: 20002 of 20002 bytes"),
    "with a NUL": ("a\x00b", "str", r"'a\x00b'", "result contains a NUL character"),
    "too deep": (ENDLESS, "list", "[[...]]", "nested deeper than 100 levels"),
    "whose repr raises": (
        Hostile(SystemExit()),
        "tests.lifecycle.test_settle.Hostile",
        "<Hostile whose __repr__ raised SystemExit>",
        "is of type Hostile",
    ),
    "whose repr is huge": (Hostile("y" * 10**6), "tests.lifecycle.test_settle.Hostile", "y" * 500, "Hostile"),
    "whose repr cannot be stored": (Hostile("\x00\ud800"), "tests.lifecycle.test_settle.Hostile", "��", "Hostile"),
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_a_result_that_cannot_be_stored_is_replaced_by_a_marker(configure, name):
    configure(MAX_PAYLOAD_SIZE=10_000)
    result, kind, shown, problem = UNSTORABLE[name]
    handle = add.enqueue(1)
    claim_one().ack(result)
    record = handle.job()
    assert record.status == "done"
    assert isinstance(record.result, djqueue.UnstorableResult)
    assert record.result.type == kind
    assert record.result.repr.startswith(shown)
    assert len(record.result.repr) < 1100
    assert problem in record.result.problem


def test_the_warning_for_an_unstorable_result_is_logged_once_per_task(database, caplog):
    settle._warned.clear()
    for task, result in [(add, {1}), (add, {2}), (echo, object())]:
        task.enqueue(1)
        claim_one().ack(result)
    warnings = [record.getMessage() for record in caplog.records if "result cannot be stored" in record.getMessage()]
    assert [text.partition("task=")[2] for text in warnings] == [
        "tests.app.tasks.add type=set",
        "tests.app.tasks.echo type=object",
    ]


def test_the_marker_of_a_result_contains_no_secret(database):
    handle = log_in.enqueue("ada", "hunter2")
    claim_one().ack({"hunter2", 1})
    assert handle.status() == "done"
    assert "hunter2" not in repr(handle.job().result)
    assert "********" in repr(handle.job().result)


def test_without_retention_a_done_job_leaves_nothing_but_its_count(configure):
    configure(KEEP_DONE=0, QUEUES={"kept": {"keep_done": 60}})
    handle = add.enqueue(1)
    claim_one().ack()
    kept = add.using(queue="kept").enqueue(1)
    claim_one("kept").ack()
    assert places(handle.id) == []
    assert places(kept.id) == ["DoneJob"]
    assert djqueue.stats("default").done == djqueue.stats("kept").done == 1


def test_nack_schedules_the_next_attempt_by_the_policy(database):
    handle = steady.enqueue()
    job = claim_one()
    job.nack("no luck")
    record = handle.job()
    assert (record.status, record.attempts, record.last_error) == ("scheduled", 1, "no luck")
    assert timedelta(seconds=30) < record.run_at - database_now() <= timedelta(seconds=60)
    assert record.failed_at is not None
    assert record.claimed_at is record.lease_expires_at is None
    [error] = record.errors
    assert (error["attempt"], error["worker"], error["message"]) == (1, job.worker, "no luck")
    assert error["duration"] >= 0
    assert live(handle.id).token is None


def test_retries_are_spread_by_jitter(configure):
    configure(BACKOFF_BASE=100, BACKOFF_JITTER=0.5)
    for _ in range(30):
        add.enqueue(1)
    for job in djqueue.Queue("default").claim(30):
        job.nack("boom")
    delays = sorted((job.run_at - job.failed_at).total_seconds() for job in rows(Job).all())
    assert 100 <= delays[0] < 120 < delays[-1] <= 150
    assert len(set(delays)) == 30


def test_the_policy_of_the_call_wins_over_the_queue(configure):
    configure(BACKOFF_JITTER=0, BACKOFF_MAX=7, QUEUES={"q": {"backoff_base": 5}})

    def delay() -> float:
        job = claim_one("q")
        job.nack("boom")
        return round((live(job.id).run_at - live(job.id).failed_at).total_seconds(), 1)

    handle = add.using(queue="q").enqueue(1)
    assert delay() == 5
    rows(Job).filter(pk=handle.id).update(status="pending")
    assert delay() == 7
    add.using(queue="q", retry=djqueue.Exponential(base=20, max=30, jitter=0)).enqueue(1)
    assert delay() == 20


def test_a_nack_with_a_delay_of_its_own(database):
    add.enqueue(1)
    job = claim_one()
    job.nack("later", delay=500)
    assert timedelta(seconds=400) < live(job.id).run_at - database_now() <= timedelta(seconds=500)


def test_nack_at_the_last_attempt_is_death(database):
    handle = eager_retry.using(max_attempts=2).enqueue()
    claim_one().nack("one")
    job = claim_one()
    job.nack("two")
    assert places(handle.id) == ["DeadJob"]
    record = handle.job()
    assert (record.status, record.attempts, record.last_error) == ("dead", 2, "two")
    assert [error["message"] for error in record.errors] == ["one", "two"]
    assert record.worker_ids == [job.worker] * 2
    assert abs(record.failed_at - database_now()) < timedelta(seconds=60)


def test_no_retry_wins_over_max_attempts(database):
    handle = fragile.using(max_attempts=5).enqueue()
    claim_one().nack("boom")
    assert handle.status() == "dead"


def test_dead_letter_ignores_attempts(database):
    handle = add.enqueue(1)
    claim_one().dead_letter("never")
    record = handle.job()
    assert (record.status, record.attempts, record.last_error) == ("dead", 1, "never")


def test_snooze_spends_no_attempt(database):
    handle = add.enqueue(1)
    claim_one().snooze(60)
    record = handle.job()
    assert (record.status, record.attempts, record.worker_ids, record.errors) == ("scheduled", 0, [], [])
    assert timedelta(seconds=30) < record.run_at - database_now() <= timedelta(seconds=60)


def test_release_gives_back_at_once_without_an_attempt(database):
    handle = add.using(retry=djqueue.Fixed(0)).enqueue(1)
    claim_one().nack("boom")
    before = handle.job()
    claim_one().release()
    after = handle.job()
    assert (after.status, after.attempts, after.worker_ids) == ("pending", 1, before.worker_ids)
    assert (after.run_at, after.last_error, len(after.errors)) == (before.run_at, "boom", 1)
    assert claim_one().attempt == 2


def test_a_nack_of_a_job_that_should_be_cancelled_ends_as_cancelled(database):
    handle = add.enqueue(1)
    job = claim_one()
    rows(Job).filter(pk=job.id).update(cancel_requested=True)
    job.nack("gave up")
    record = handle.job()
    assert (record.status, record.cancel_requested, record.last_error) == ("cancelled", True, "gave up")
    assert places(handle.id) == ["DoneJob"]


STALE_ACTS = {
    "ack": lambda job: job.ack(),
    "nack": lambda job: job.nack("late"),
    "dead_letter": lambda job: job.dead_letter("late"),
    "snooze": lambda job: job.snooze(5),
    "release": lambda job: job.release(),
    "renew": lambda job: job.renew(5),
    "progress": lambda job: job.progress(1, 2),
}
WAYS_TO_LOSE = {
    "acked": lambda job: job.ack(),
    "dead": lambda job: job.dead_letter("x"),
    "nacked": lambda job: job.nack("x"),
    "snoozed and claimed again": lambda job: (job.snooze(0), claim_one()),
    "released and claimed again": lambda job: (job.release(), claim_one()),
    "reaped and claimed again": lambda job: (
        rows(Job).filter(pk=job.id).update(lease_expires_at=job.claimed_at),
        djqueue.maintenance.reap(),
        claim_one(),
    ),
}


@pytest.mark.parametrize("lost", WAYS_TO_LOSE)
def test_a_stale_holder_changes_nothing(database, lost):
    """Invariant: after the lease is gone, no act of its old holder changes any row."""
    add.enqueue(1)
    job = claim_one()
    WAYS_TO_LOSE[lost](job)

    def everything() -> list[object]:
        return [list(rows(model).order_by("pk").values()) for model in (Job, DoneJob, DeadJob, Throughput)]

    before = everything()
    for act in STALE_ACTS.values():
        with pytest.raises(djqueue.LeaseLost, match=str(job.id)):
            act(job)
    assert everything() == before


def test_settlements_race_and_one_wins(database):
    """Invariant: of many holders of one token, exactly one settles; the others get LeaseLost."""
    for _ in range(10):
        handle = add.enqueue(1)
        job = claim_one()
        acts = [lambda: job.ack(), lambda: job.nack("x"), lambda: job.dead_letter("x"), lambda: job.snooze(100)]

        def attempt(number: int, acts=acts) -> int:
            try:
                acts[number]()
            except djqueue.LeaseLost:
                return 0
            return 1

        assert sum(in_threads(4, attempt)) == 1
        assert len(places(handle.id)) == 1
    total = sum(sum(row) for row in rows(Throughput).values_list("done", "dead"))
    assert total == rows(DoneJob).count() + rows(DeadJob).count()


def test_many_are_settled_at_once_each_by_its_verdict(database):
    handles = [add.enqueue(n) for n in range(6)]
    jobs = djqueue.Queue("default").claim(6)
    jobs[5].ack()
    settled = settle.settle_many(
        [
            settle.ack(jobs[0], "r0"),
            settle.nack(jobs[1], "e1"),
            settle.dead_letter(jobs[2], "e2"),
            settle.snooze(jobs[3], 5),
            settle.cancel(jobs[4]),
            settle.ack(jobs[5]),
        ]
    )
    assert [item.outcome for item in settled] == [
        Outcome.DONE,
        Outcome.RETRYING,
        Outcome.DEAD,
        Outcome.SNOOZED,
        Outcome.CANCELLED,
        Outcome.LOST,
    ]
    assert [handle.status() for handle in handles] == ["done", "scheduled", "dead", "scheduled", "cancelled", "done"]
    assert [handle.job().last_error for handle in handles] == ["", "e1", "e2", "", "", ""]
    assert handles[0].job().result == "r0"


def test_a_result_that_the_database_refuses_is_replaced_by_a_marker(database):
    """The run succeeded: neither its own job nor the other jobs of the group may run again."""
    handles = [add.enqueue(n) for n in range(7)]
    items = [settle.ack(job, "fine") for job in djqueue.Queue("default").claim(7)]
    items[3] = replace(items[3], result='"\ud800"')
    assert {item.outcome for item in settle.settle_many(items)} == {Outcome.DONE}
    assert {handle.status() for handle in handles} == {"done"}
    assert handles[3].job().result == djqueue.UnstorableResult("str", "3 characters of JSON", "refused by the database")
    assert handles[4].job().result == "fine"


def test_a_result_that_the_database_refuses_from_one_caller_is_replaced_too(database):
    handle = add.enqueue(1)
    job = claim_one()
    settle.settle_one(job, replace(settle.ack(job, "fine"), result='"\ud800"'))
    assert handle.status() == "done"
    assert handle.job().result.problem == "refused by the database"


def test_a_batch_refused_for_its_data_loses_only_the_bad_one(database):
    """A text that passed the checks but is refused by the database must not affect the outcomes of other jobs."""
    handles = [add.enqueue(n) for n in range(7)]
    items = [settle.ack(job, "fine") for job in djqueue.Queue("default").claim(7)]
    items[3] = replace(items[3], verdict=Verdict.DEAD_LETTER, result=None, error="\ud800", entry="{}\n")
    settled = settle.settle_many(items)
    assert [isinstance(item, Exception) for item in settled] == [False] * 3 + [True] + [False] * 3
    assert [handle.status() for handle in handles] == ["done"] * 3 + ["claimed"] + ["done"] * 3


def test_settling_nothing_sends_nothing(database):
    assert settle.settle_many([]) == []


def test_a_job_that_ends_again_replaces_its_row_in_the_history(database):
    """A requeued job ends a second time under its id; what is kept is the newer end."""
    handle = add.enqueue(1)
    DoneJobFactory(id=handle.id, args=["old"])
    claim_one().ack("new")
    assert handle.job().result == "new"
    assert rows(DoneJob).get(pk=handle.id).args == [1]
    other = add.enqueue(2)
    DeadJobFactory(id=other.id, last_error="old")
    claim_one().dead_letter("new")
    assert rows(DeadJob).get(pk=other.id).last_error == "new"


def test_a_settlement_rolls_back_with_its_transaction(database):
    handle = add.enqueue(1)
    job = claim_one()
    with pytest.raises(RuntimeError), transaction.atomic(using=database):
        job.ack()
        raise RuntimeError
    assert handle.status() == "claimed"
    assert djqueue.stats("default").done == 0
    job.ack()
    assert djqueue.stats("default").done == 1


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_hostile_errors_are_kept_safely(database):
    def error_of(error: BaseException) -> djqueue.JobRecord:
        add.using(max_attempts=1).enqueue(1)
        job = claim_one()
        try:
            raise error
        except BaseException as caught:
            job.nack(caught)
        return djqueue.get_job(job.id)

    record = error_of(Hostile())
    assert "Hostile" in record.last_error
    assert record.errors[0]["exception"].endswith("Hostile")
    assert "error_of" in record.errors[0]["traceback"]

    record = error_of(ValueError("a\x00b\ud800c"))
    assert record.last_error == "a\ufffdb\ufffdc"

    record = error_of(ValueError("head " + "x" * 10_000_000 + " tail"))
    assert len(record.last_error) < 3000
    assert record.last_error.startswith("head ")
    assert record.last_error.endswith(" tail")
    assert "characters cut" in record.last_error
    assert len(record.errors[0]["traceback"]) < 12_000
    assert record.errors[0]["exception"] == "builtins.ValueError"

    assert error_of(KeyboardInterrupt()).last_error == "KeyboardInterrupt"


def test_the_error_history_of_a_job_is_bounded(database):
    handle = add.using(max_attempts=1000, retry=djqueue.Fixed(0)).enqueue(1)
    for n in range(20):
        claim_one().nack(RuntimeError(f"{n} " + "x" * 60_000))
    record = handle.job()
    assert record.errors[-1]["message"].startswith("19 ")
    assert record.worker_ids == [record.worker_ids[0]] * 20
    rows(Job).filter(pk=handle.id).update(errors=[{"message": "old " + "y" * MAX_ERRORS}, {"message": "kept"}])
    claim_one().nack("new")
    assert [error["message"] for error in handle.job().errors] == ["kept", "new"]


@pytest.mark.parametrize("act", ["nack", "dead_letter"])
@pytest.mark.databases("sqlite", "mysql")
def test_the_error_history_never_exceeds_its_bound(database, act):
    """Oldest entries are dropped whole, as many as the newest one needs."""
    handle = add.using(max_attempts=1000, retry=djqueue.Fixed(0)).enqueue(1)
    lines = [{"message": f"{n} ü " + "y" * 1000} for n in range(5000)]
    rows(Job).filter(pk=handle.id).update(errors=lines)
    getattr(claim_one(), act)("new")
    model = Job if act == "nack" else DeadJob
    kept = rows(model).get(pk=handle.id).errors
    size = len(Job._meta.get_field("errors").get_prep_value(kept))
    assert MAX_ERRORS - 1100 < size <= MAX_ERRORS
    assert kept[-1]["message"] == "new"
    assert kept[:-1] == lines[-len(kept) + 1 :]


def length_of_errors(table: str) -> int:
    with connections[config().database].cursor() as cursor:
        length = "CHAR_LENGTH" if connections[config().database].vendor == "mysql" else "LENGTH"
        cursor.execute(f"SELECT {length}(errors) FROM {table}")
        [[found]] = cursor.fetchall()
        return found


@pytest.mark.parametrize("end", ["nack", "dead_letter", "reap"])
@pytest.mark.parametrize("message", ["x" * 60_000, '\x01\n"' * 20_000], ids=["plain", "escaped"])
@pytest.mark.databases(*PLAIN)
def test_the_error_history_never_passes_its_bound(database, message, end):
    """However many failures there are, however long their texts, and whatever an older release has left."""
    handle = add.using(max_attempts=1000, retry=djqueue.Fixed(0)).enqueue(1)
    for left_behind in (None, [{"message": "y" * 2 * MAX_ERRORS}], [{"message": "y" * MAX_ERRORS}] * 3):
        if left_behind is not None:
            rows(Job).filter(pk=handle.id).update(errors=left_behind)
        for number in range(30 if left_behind is None else 2):
            claim_one().nack(RuntimeError(f"{number} {message}"))
            assert length_of_errors("djqueue_job") <= MAX_ERRORS
        assert handle.job().errors[-1]["message"].startswith(f"{number} ")
    rows(Job).filter(pk=handle.id).update(errors=[{"message": "y" * MAX_ERRORS}] * 2, max_attempts=1)
    job = claim_one(lease=0)
    {
        "nack": lambda: job.nack(RuntimeError(message)),
        "dead_letter": lambda: job.dead_letter(RuntimeError(message)),
        "reap": djqueue.maintenance.reap,
    }[end]()
    assert handle.status() == "dead"
    assert length_of_errors("djqueue_deadjob") <= MAX_ERRORS
    assert handle.job().errors[-1]["attempt"] == job.attempt


class Escaping(Exception):
    def __str__(self) -> str:
        raise SystemExit


Unspeakable = type("Unspeakable", (Exception,), {"__module__": "bad\ud800name" + "x" * 5000})


@pytest.mark.parametrize("error", [None, ValueError, 5, object(), Escaping(), Unspeakable("x"), ""])
def test_any_value_given_as_an_error_ends_the_attempt(database, error):
    for act in ("nack", "dead_letter"):
        handle = add.enqueue(1)
        getattr(claim_one(), act)(error)
        assert handle.status() in ("scheduled", "dead")
        assert len(handle.job().errors) == 1


@pytest.mark.parametrize("verdict", [lambda job: settle.nack(job, "boom", delay=60), settle.release, settle.ack])
def test_many_settlements_take_few_statements(database, verdict):
    add.enqueue_many([djqueue.call(n) for n in range(400)])
    items = [verdict(job) for job in djqueue.Queue("default").claim(400)]
    with statements_sent() as sent:
        settled = settle.settle_many(items)
    assert Outcome.LOST not in [item.outcome for item in settled]
    assert len(sent) <= (1 if database.startswith("postgresql") else 4)


def test_a_release_keeps_unknown_since(database):
    djqueue.enqueue("nobody.knows")
    job = claim_one()
    settle.settle_one(job, settle.snooze(job, 0, unknown=True))
    since = live(job.id).unknown_since
    assert since is not None
    claim_one().release()
    assert live(job.id).unknown_since == since
    job = claim_one()
    settle.settle_one(job, settle.snooze(job, 0, unknown=True))
    assert live(job.id).unknown_since == since


def test_every_model_has_every_field_of_a_record(database):
    from djqueue.core.records import JobRecord
    from tests.factories import JobFactory

    for row in (JobFactory(), DoneJobFactory(), DeadJobFactory()):
        for name in JobRecord.__slots__:
            assert hasattr(row, name), (type(row), name)


@pytest.mark.parametrize("stale_first", [True, False])
def test_of_two_claims_of_one_job_the_stale_one_is_told_that_it_is_lost(database, stale_first):
    """A process may have lost a job and claimed it again before it settles the first run."""
    add.enqueue(1, 2)
    stale = claim_one()
    stale.release()
    current = claim_one()
    claims = [stale, current] if stale_first else [current, stale]
    outcomes = [answer.outcome for answer in settle.settle_many([settle.ack(job) for job in claims])]
    assert outcomes == [Outcome.LOST if job is stale else Outcome.DONE for job in claims]
    assert rows(Throughput).get().done == 1


@pytest.mark.databases("sqlite", "mysql")
def test_a_claim_that_is_twice_in_a_group_is_settled_once(database):
    handle = add.enqueue(1)
    job = claim_one()
    answers = settle.settle_many([settle.ack(job), settle.nack(job, "late")])
    assert [answer.outcome for answer in answers] == [Outcome.DONE, Outcome.LOST]
    assert (handle.status(), places(handle.id)) == ("done", ["DoneJob"])
