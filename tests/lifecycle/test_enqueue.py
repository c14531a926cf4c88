from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connections, transaction

import djqueue
from djqueue.models import KV, Job
from tests.app.tasks import add, charge, later
from tests.factories import DeadJobFactory, DoneJobFactory
from tests.tools import (
    PATIENCE,
    WITH_ROW_LOCKS,
    claim_one,
    database_now,
    eventually,
    in_thread,
    live,
    rows,
    waits_for_a_lock,
)


def test_enqueue_writes_a_pending_job_with_its_arguments(database):
    handle = add.enqueue(1, b=2)
    record = handle.job()
    assert record.id == handle.id
    assert handle.created is True
    assert (record.task, record.queue, record.status) == ("tests.app.tasks.add", "default", "pending")
    assert (record.args, record.kwargs, record.headers) == ([1], {"b": 2}, {})
    assert (record.attempts, record.max_attempts, record.priority) == (0, 3, 1000)
    assert record.started_at is record.claimed_at is record.completed_at is record.failed_at is None
    assert abs(record.enqueued_at - database_now()) < timedelta(seconds=60)
    assert record.run_at == record.enqueued_at


def test_values_are_read_as_they_were_given(database):
    value = {"z": 1e20, "a": [-0.0, 10**30, "ü€😀\u2028\x85", True, None, {"": []}], "": "'\"\\\n%s"}
    record = later.enqueue(value).job()
    assert record.args == [value]
    assert list(record.args[0]) == ["z", "a", ""]
    assert isinstance(record.args[0]["z"], float)
    assert str(record.args[0]["a"][0]) == "-0.0"


def test_options_of_the_task_are_the_defaults_of_its_jobs(database):
    record = charge.enqueue(1).job()
    assert (record.task, record.queue, record.priority, record.max_attempts) == ("shop.charge", "money", 100, 7)


def test_the_most_specific_option_wins(configure):
    configure(MAX_ATTEMPTS=9, PRIORITY=5, QUEUES={"q": {"max_attempts": 4, "priority": 6}})
    assert (add.enqueue(1).job().max_attempts, add.enqueue(1).job().priority) == (9, 5)
    of_queue = add.using(queue="q").enqueue(1).job()
    assert (of_queue.max_attempts, of_queue.priority) == (4, 6)
    of_task = charge.using(queue="q").enqueue(1).job()
    assert (of_task.max_attempts, of_task.priority) == (7, 100)
    of_call = charge.using(queue="q", max_attempts=1, priority=-3).enqueue(1).job()
    assert (of_call.max_attempts, of_call.priority) == (1, -3)


def test_enqueue_by_name_uses_the_options_of_the_registered_task(database):
    record = djqueue.enqueue("shop.charge", kwargs={"order": 1}, headers={"trace": "t1"}).job()
    assert (record.queue, record.args, record.kwargs, record.headers) == ("money", [], {"order": 1}, {"trace": "t1"})


def test_enqueue_by_name_needs_no_import(database):
    assert djqueue.enqueue("elsewhere.tasks.unheard_of").job().task == "elsewhere.tasks.unheard_of"


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
def test_a_delayed_job_is_scheduled_by_the_clock_of_the_database(database, delay):
    record = add.using(delay=delay).enqueue(1).job()
    assert record.status == "scheduled"
    assert record.run_at - record.enqueued_at == timedelta(seconds=60)
    assert djqueue.Queue("default").claim() == []


def test_a_job_with_a_time_waits_for_it(database):
    when = datetime(2100, 1, 1, 12, tzinfo=UTC)
    record = add.using(run_at=when.astimezone()).enqueue(1).job()
    assert (record.status, record.run_at) == ("scheduled", when)


def test_a_time_in_the_past_is_an_immediate_enqueue(database):
    handle = add.using(run_at=datetime(2001, 1, 1, tzinfo=UTC)).enqueue(1)
    assert handle.status() == "pending"
    assert claim_one().id == handle.id


def test_a_zero_delay_is_an_immediate_enqueue(database):
    assert add.using(delay=0).enqueue(1).status() == "pending"


def test_own_id_is_kept(database):
    own = uuid4()
    assert add.using(id=str(own)).enqueue(1).id == own
    assert live(own).pk == own


@pytest.mark.parametrize("state", ["live", "done", "dead"])
def test_own_id_in_use_is_refused_and_leaves_the_transaction_usable(database, state):
    taken = {
        "live": lambda: add.enqueue(1).id,
        "done": lambda: DoneJobFactory().id,
        "dead": lambda: DeadJobFactory().id,
    }[state]()
    before = rows(Job).count()
    with transaction.atomic(using=database):
        with pytest.raises(djqueue.DuplicateJob, match=str(taken)):
            add.using(id=taken, kv={"written": 1}).enqueue(2)
        other = add.enqueue(3)
    assert rows(Job).count() == before + 1
    assert other.job().args == [3]
    assert not rows(KV).exists()


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_two_enqueues_race_for_one_id(database):
    """While the first transaction is open, the second waits; then it gets DuplicateJob, and stays usable."""
    own = uuid4()

    def second() -> str:
        with transaction.atomic(using=database):
            try:
                add.using(id=own).enqueue(2)
            except djqueue.DuplicateJob:
                add.enqueue(3)
                return "refused"
            except OperationalError:
                return "cannot see the first"
            return "accepted"

    answers = []
    with transaction.atomic(using=database):
        add.using(id=own).enqueue(1)
        thread = threading.Thread(target=lambda: answers.append(in_thread(second)))
        thread.start()
        eventually(lambda: waits_for_a_lock(database))
    thread.join(PATIENCE)
    if database == "postgresql_repeatable":
        assert answers == ["cannot see the first"]
        assert [job.args for job in rows(Job).all()] == [[1]]
    else:
        assert answers == ["refused"]
        assert sorted(job.args for job in rows(Job).all()) == [[1], [3]]


def test_a_rollback_removes_the_job(database):
    for raises in (True, False):
        try:
            with transaction.atomic(using=database):
                with transaction.atomic(using=database):
                    add.enqueue(1)
                if raises:
                    raise RuntimeError
                transaction.set_rollback(True, using=database)
        except RuntimeError:
            pass
    assert not rows(Job).exists()


def test_a_rolled_back_savepoint_removes_only_its_own_jobs(database):
    with transaction.atomic(using=database):
        kept = add.enqueue(1)
        with pytest.raises(RuntimeError), transaction.atomic(using=database):
            add.enqueue(2)
            raise RuntimeError
    assert [job.pk for job in rows(Job).all()] == [kept.id]


def test_a_job_is_invisible_to_others_until_its_commit(database):
    with transaction.atomic(using=database):
        handle = add.enqueue(1)
        assert handle.status() == "pending"
        if database != "sqlite":  # one writer: a claim would wait for us
            assert in_thread(djqueue.Queue("default").claim) == []
        assert in_thread(djqueue.get_job, handle.id) is None
    assert in_thread(djqueue.get_job, handle.id) is not None


def test_on_commit_enqueues_at_the_commit(database):
    with transaction.atomic(using=database):
        handle = add.using(on_commit=True).enqueue(1)
        transaction.on_commit(partial(add.enqueue, 2), using=database)
        assert (handle.created, handle.status()) == (None, None)
    assert handle.status() == "pending"
    assert rows(Job).count() == 2


def test_on_commit_does_nothing_after_a_rollback(database):
    with pytest.raises(RuntimeError), transaction.atomic(using=database):
        add.using(on_commit=True).enqueue(1)
        raise RuntimeError
    assert not rows(Job).exists()


def test_on_commit_follows_another_alias(database):
    with transaction.atomic(using="default"):
        handle = add.using(on_commit="default").enqueue(1)
        assert handle.status() is None
    assert handle.status() == "pending"


def test_on_commit_refuses_bad_arguments_at_once(database):
    with transaction.atomic(using=database), pytest.raises(djqueue.InvalidPayload):
        add.using(on_commit=True).enqueue(object())


def test_kv_is_written_with_the_job(database):
    with pytest.raises(RuntimeError), transaction.atomic(using=database):
        add.using(kv={"a": 1}).enqueue(1)
        raise RuntimeError
    assert not rows(KV).exists()
    add.using(kv={"b": {"x": [1]}, "a": None}).enqueue(1)
    add.using(kv={"b": 2}).enqueue(1)
    assert {entry.key: entry.value for entry in rows(KV).all()} == {"a": None, "b": 2}


BAD = [
    (object(), r"args\[0\] \(value\) is of type object"),
    ({"x": [1, {"y": {1, 2}}]}, r"args\[0\] \(value\)\.x\[1\]\.y is of type set"),
    (float("nan"), r"args\[0\] \(value\) is nan"),
    (float("-inf"), r"args\[0\] \(value\) is -inf"),
    ("a\x00b", r"args\[0\] \(value\) contains a NUL character at position 1"),
    ("\ud83d", r"args\[0\] \(value\) contains a lone surrogate"),
    ({"\x00": 1}, r"args\[0\] \(value\).* contains a NUL character"),
    ({1: 2}, r"args\[0\] \(value\)\[1\] is not a string"),
    (10**5000, r"args\[0\] \(value\) is an integer with more than 640 digits"),
    ("x" * 1024 * 1024, r"args\[0\] \(value\) too large: 1048578 of"),
]


@pytest.mark.parametrize(("value", "message"), BAD, ids=[message[20:45] for _, message in BAD])
@pytest.mark.databases("postgresql", "sqlite")
def test_bad_arguments_are_refused_by_name_before_anything_is_written(database, value, message):
    with transaction.atomic(using=database):
        with pytest.raises(djqueue.InvalidPayload, match=f"tests.app.tasks.later: {message}"):
            later.using(kv={"a": 1}).enqueue(value)
        with pytest.raises(djqueue.InvalidPayload, match="tests.app.tasks.later: kwargs"):
            later.enqueue(value=value)
        with pytest.raises(djqueue.InvalidPayload, match="tests.app.tasks.later: headers"):
            later.using(headers={"h": value}).enqueue()
    assert not rows(Job).exists()
    assert not rows(KV).exists()


@pytest.mark.databases("postgresql")
def test_nesting_too_deep_is_refused(database):
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(djqueue.InvalidPayload, match="nested deeper than 100 levels"):
        later.enqueue(deep)


def test_the_largest_payload_that_is_allowed_passes(database):
    largest = "ü" * (512 * 1024 - 4)  # with the eight characters around it, [""]{}{}, a megabyte in UTF-8
    assert later.enqueue(largest).job().args == [largest]
    with pytest.raises(djqueue.PayloadTooLarge):
        later.enqueue(largest + "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_at": datetime(2026, 1, 1)}, "run_at must be an aware datetime"),
        ({"run_at": 5}, "run_at must be a datetime"),
        ({"delay": -1}, "delay must be between"),
        ({"delay": "1"}, "delay must be seconds or a timedelta"),
        ({"delay": 1, "run_at": datetime(2026, 1, 1, tzinfo=UTC)}, "not both"),
        ({"priority": 2**63}, "priority must be a whole number"),
        ({"priority": True}, "priority must be a whole number"),
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1"),
        ({"queue": ""}, "queue must be a non-empty string, got ''"),
        ({"queue": "a b"}, "contains the character ' '"),
        ({"queue": "x" * 129}, "queue must be at most 128 characters long, got 129"),
        ({"dedup_key": "k\x00"}, "dedup_key .* contains the character"),
        ({"dedup_until": "never"}, "dedup_until must be"),
        ({"id": "123"}, "id must be a UUID"),
        ({"retry": 5}, "retry must be a policy"),
        ({"timeout": 0}, "timeout must be greater than 0"),
        ({"headers": [1]}, "headers must be a dictionary"),
        ({"on_commit": ""}, "on_commit must be True, False or a database alias"),
        ({"on_commit": "nowhere"}, "on_commit must be"),
        ({"prority": 1}, "Unknown option 'prority'. Valid options: queue, priority"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(djqueue.InvalidOption, match=message):
        add.using(**options)


def test_queue_and_dedup_names_are_compared_exactly(database):
    for queue in ("a", "A", "ä"):
        add.using(queue=queue, dedup_key="Key").enqueue(1)
    for key in ("key", "Key ", "KEY", "kéy"):
        assert add.using(queue="a", dedup_key=key).enqueue(1).created
    assert len(djqueue.Queue("a").claim(10)) == 5
    assert len(djqueue.Queue("A").claim(10)) == 1


def test_nothing_goes_to_the_default_database(database):
    def counts() -> list[int]:
        with connections["default"].cursor() as cursor:
            found = []
            for table in ("job", "donejob", "kv", "throughput"):
                cursor.execute(f"SELECT COUNT(*) FROM djqueue_{table}")
                found.append(cursor.fetchone()[0])
            return found

    before = counts()  # tests of the default database may have left something
    add.using(dedup_key="k", kv={"a": 1}).enqueue(1)
    claim_one().ack()
    assert counts() == before


def test_ids_are_uuid_v7(database):
    handle = add.enqueue(1)
    assert isinstance(handle.id, UUID)
    assert handle.id.version == 7


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_extreme_times_are_stored_or_refused(database, hours):
    """A time that one database cannot return would make every claim of its queue fail."""
    zone = timezone(timedelta(hours=hours))
    good = add.enqueue(1)
    past = add.using(run_at=datetime.min.replace(tzinfo=zone)).enqueue(1)
    assert past.status() == "pending"
    for run in (
        lambda: add.using(run_at=datetime.max.replace(tzinfo=zone)).enqueue(1),
        lambda: djqueue.reschedule(good.id, run_at=datetime.max.replace(tzinfo=zone)),
        lambda: djqueue.requeue(DeadJobFactory().pk, run_at=datetime.max.replace(tzinfo=zone)),
    ):
        with pytest.raises(djqueue.InvalidOption, match="run_at must be before the year 9000"):
            run()
    assert len(djqueue.Queue("default").claim(5, lease=0)) == 2
    assert djqueue.maintenance.reap() == 2


def test_an_own_id_with_its_key_sent_twice_is_a_duplicate(database):
    """What a producer that repeats itself sends; on every database the same answer."""
    own = uuid4()
    add.using(id=own, dedup_key="k").enqueue(1)
    with transaction.atomic(using=database):
        for again in (
            lambda: add.using(id=own, dedup_key="k").enqueue(2),
            lambda: add.using(id=own, dedup_key="k", kv={"x": 1}).enqueue(2),
            lambda: add.enqueue_many([djqueue.call(2).using(id=own, dedup_key="k")]),
        ):
            with pytest.raises(djqueue.DuplicateJob):
                again()
    assert [job.args for job in rows(Job).all()] == [[1]]
    assert not rows(KV).exists()


@pytest.mark.databases("postgresql", "postgresql_pool", "postgresql_bound", "postgresql_pgbouncer", "mysql")
def test_an_own_id_that_is_being_settled_is_still_taken(database):
    """The enqueue waits for the settlement, and then finds the id among the kept ones.

    Not under REPEATABLE READ, whose snapshot cannot see them.
    """
    own = uuid4()
    add.using(id=own).enqueue(1)
    answers: list[object] = []

    def again() -> object:
        try:
            return add.using(id=own, kv={"x": 1}).enqueue(2).created
        except djqueue.DuplicateJob as error:
            return error.id

    with transaction.atomic(using=database):
        claim_one().ack()
        thread = threading.Thread(target=lambda: answers.append(in_thread(again)))
        thread.start()
        thread.join(0.2)
    thread.join(30)
    assert answers == [own]
    assert not rows(Job).exists()
    assert not rows(KV).exists()


@pytest.mark.databases(*WITH_ROW_LOCKS)
def test_an_own_id_under_another_key_changes_nothing(database):
    own = uuid4()
    answers: list[object] = []

    def second() -> object:
        try:
            return add.using(id=own, dedup_key="second", kv={"x": 1}).enqueue(2).created
        except djqueue.DuplicateJob as error:
            return error.id

    with transaction.atomic(using=database):
        add.using(id=own, dedup_key="first").enqueue(1)
        thread = threading.Thread(target=lambda: answers.append(in_thread(second)))
        thread.start()
        thread.join(0.2)
    thread.join(30)
    assert answers == [own]
    assert [(job.args, job.dedup_key) for job in rows(Job).all()] == [([1], "first")]
    assert not rows(KV).exists()


def test_the_last_delay_or_run_at_wins(database):
    when = datetime(2100, 1, 1, tzinfo=UTC)
    assert add.using(delay=5).using(run_at=when).enqueue(1).job().run_at == when
    assert add.using(run_at=when).using(delay=0).enqueue(1).status() == "pending"


@pytest.mark.parametrize("kwargs", ["abc", [1], 5])
def test_kwargs_by_name_must_be_a_dictionary(kwargs):
    with pytest.raises(djqueue.InvalidOption, match="kwargs must be a dictionary"):
        djqueue.enqueue("x.y", kwargs=kwargs)
