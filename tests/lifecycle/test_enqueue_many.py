from __future__ import annotations

import tracemalloc
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from uuid import UUID, uuid4

import pytest
from django.db import DataError, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils.functional import SimpleLazyObject

import djqueue
from djqueue import call
from djqueue.lifecycle import enqueue as enqueueing
from djqueue.models import Job
from tests.app.models import Place
from tests.app.tasks import add, charge, later
from tests.factories import DeadJobFactory
from tests.tools import in_thread, in_threads, rows, statements_sent


def test_jobs_are_created_in_order(database):
    handles = add.enqueue_many([call(1), call(2, b=3), call(4)])
    assert [handle.created for handle in handles] == [True] * 3
    jobs = djqueue.Queue("default").claim(3)
    assert [job.id for job in jobs] == [handle.id for handle in handles]
    assert [(job.args, job.kwargs) for job in jobs] == [([1], {}), ([2], {"b": 3}), ([4], {})]


def test_several_tasks_in_one_batch(database):
    handles = djqueue.enqueue_many([add.call(1), charge.call(2), later.using(priority=5).call("x")])
    records = [handle.job() for handle in handles]
    assert [(record.task, record.queue, record.priority) for record in records] == [
        ("tests.app.tasks.add", "default", 1000),
        ("shop.charge", "money", 100),
        ("tests.app.tasks.later", "default", 5),
    ]


def test_items_have_options_of_their_own(database):
    own = uuid4()
    when = datetime(2100, 1, 1, tzinfo=UTC)
    handles = add.using(queue="q", priority=7).enqueue_many(
        [call(1), call(2).using(id=own, headers={"h": 1}), call(3).using(run_at=when, priority=8)]
    )
    records = [handle.job() for handle in handles]
    assert [record.queue for record in records] == ["q"] * 3
    assert [record.priority for record in records] == [7, 7, 8]
    assert (records[1].id, records[1].headers) == (own, {"h": 1})
    assert (records[2].status, records[2].run_at) == ("scheduled", when)


def test_an_empty_batch_sends_no_query(database):
    with statements_sent() as sent:
        assert add.enqueue_many([]) == []
    assert sent == []


def test_a_batch_is_one_insert(database):
    """On PostgreSQL a large one is a COPY, between a look at the clock and the wake-up."""
    with statements_sent() as sent:
        handles = add.using(priority=3).enqueue_many([call(n).using(delay=n % 2) for n in range(500)])
    assert len(sent) == (3 if database.startswith("postgresql") else 1)
    assert [handle.job().args[0] for handle in handles[:5]] == list(range(5))
    stats = djqueue.stats("default")
    assert (stats.pending, stats.scheduled) == (250, 250)
    assert {job.priority for job in rows(Job).all()} == {3}


def test_a_large_batch_with_every_option_is_stored(database):
    when = datetime(2100, 1, 1, tzinfo=UTC)
    text = "tab\t newline\n backslash \\ \\N quote ' \" ü😀"
    items = [
        call(text, n).using(headers={"t": text}, run_at=when, timeout=5, lease=6.5, retry=djqueue.Fixed(7))
        for n in range(60)
    ]
    handles = add.using(queue="q", max_attempts=9).enqueue_many(items)
    record = handles[59].job()
    assert (record.args, record.kwargs, record.headers) == ([text, 59], {}, {"t": text})
    assert (record.run_at, record.status, record.max_attempts, record.queue) == (when, "scheduled", 9, "q")
    row = rows(Job).get(pk=handles[0].id)
    assert (row.timeout, row.lease, row.retry["wait"]) == (5, 6.5, 7)


def test_equal_keys_collapse_to_one_job(database):
    first = add.using(dedup_key="held").enqueue(0)
    handles = add.enqueue_many(
        [
            call(1).using(dedup_key="k"),
            call(2).using(dedup_key="k"),
            call(3),
            call(4).using(dedup_key="held"),
            call(5).using(dedup_key="k", queue="other"),
        ]
    )
    assert [handle.created for handle in handles] == [True, False, True, False, True]
    assert handles[1].id == handles[0].id
    assert handles[3].id == first.id
    assert rows(Job).count() == 4


def test_keys_collapse_across_the_parts_of_a_large_batch(database, monkeypatch):
    monkeypatch.setattr(enqueueing, "BATCH", 3)
    handles = add.enqueue_many([call(n).using(dedup_key=f"k{n % 2}") for n in range(10)])
    assert len({handle.id for handle in handles}) == 2
    assert sum(handle.created for handle in handles) == 2


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("bad", ["payload", "option", "type", "duplicate", "kept", "user"])
def test_with_one_bad_item_nothing_is_inserted(database, monkeypatch, atomic, bad):
    monkeypatch.setattr(enqueueing, "BATCH", 4)
    taken = DeadJobFactory().pk
    own = uuid4()

    def items():
        for n in range(9):
            yield call(n).using(id=own) if n == 2 else call(n)
        if bad == "payload":
            yield call(object())
        elif bad == "option":
            yield charge.call(1)
        elif bad == "type":
            yield (1, 2)
        elif bad == "duplicate":
            yield call(9).using(id=own)
        elif bad == "kept":
            yield call(9).using(id=taken)
        else:
            raise ZeroDivisionError
        yield call(10)

    expected = {
        "payload": (djqueue.InvalidPayload, r"item 9: tests.app.tasks.add: args\[0\] \(a\) is of type object"),
        "option": (djqueue.InvalidOption, "item 9: the call is for task shop.charge"),
        "type": (djqueue.InvalidOption, "item 9: expected the result of djqueue.call"),
        "duplicate": (djqueue.DuplicateJob, f"item 9: job id {own} already exists"),
        "kept": (djqueue.DuplicateJob, f"item 9: job id {taken} already exists"),
        "user": (ZeroDivisionError, None),
    }[bad]
    if atomic:
        with transaction.atomic(using=database):
            with pytest.raises(expected[0], match=expected[1]):
                add.enqueue_many(items())
            after = add.enqueue(99)
        assert [job.pk for job in rows(Job).all()] == [after.id]
    else:
        with pytest.raises(expected[0], match=expected[1]):
            add.enqueue_many(items())
        assert not rows(Job).exists()


@pytest.mark.parametrize("position", [61, 120, 121, 130])
def test_a_bad_item_behind_a_copy_leaves_nothing_and_keeps_the_transaction(database, monkeypatch, position):
    """On PostgreSQL, the parts of such a batch are copied."""
    monkeypatch.setattr(enqueueing, "BATCH", 60)
    items = [call(object() if n == position else n) for n in range(150)]
    with transaction.atomic(using=database):
        with pytest.raises(djqueue.InvalidPayload, match=rf"^item {position}: "):
            add.enqueue_many(items)
        after = add.enqueue(99)
    assert [job.pk for job in rows(Job).all()] == [after.id]


@pytest.mark.parametrize("atomic", [False, True])
def test_items_may_come_from_queries_on_the_same_connection(database, monkeypatch, atomic):
    monkeypatch.setattr(enqueueing, "BATCH", 60)

    def items():
        for n in range(200):
            before = rows(Job).count()
            yield call(n, b=before).using(headers={"odd": True}) if n % 70 == 69 else call(n, b=before)

    with transaction.atomic(using=database) if atomic else nullcontext():
        handles = add.enqueue_many(items())
    jobs = djqueue.Queue("default").claim(200)
    assert [job.id for job in jobs] == [handle.id for handle in handles]
    assert [job.args for job in jobs] == [[n] for n in range(200)]
    assert jobs[199].kwargs["b"] >= 60, "the last items were read when the first were inserted"


@pytest.mark.parametrize("atomic", [False, True])
def test_arguments_may_be_read_from_the_same_connection(database, monkeypatch, atomic):
    """Such as request.user. On PostgreSQL, a batch is made while the connection is busy with the one before."""
    monkeypatch.setattr(enqueueing, "BATCH", 60)
    place = Place.objects.using(database).create(name="here")
    read = partial(Place.objects.using(database).get, pk=place.pk)
    items = [call(n, b=SimpleLazyObject(read) if n in (70, 130, 199) else None) for n in range(200)]
    with transaction.atomic(using=database) if atomic else nullcontext():
        handles = add.enqueue_many(items)
    jobs = djqueue.Queue("default").claim(200)
    assert [job.id for job in jobs] == [handle.id for handle in handles]
    assert [job.args[0] for job in jobs if job.kwargs["b"] == place] == [70, 130, 199]


def test_ids_have_the_order_of_the_items_across_batches(database, monkeypatch):
    monkeypatch.setattr(enqueueing, "BATCH", 60)
    ids = [handle.id for handle in add.enqueue_many([call(n) for n in range(300)])]
    assert ids == sorted(ids)


def test_a_batch_rolls_back_with_its_transaction(database):
    with pytest.raises(RuntimeError), transaction.atomic(using=database):
        add.enqueue_many([call(1), call(2)])
        raise RuntimeError
    assert not rows(Job).exists()


def test_options_of_one_job_cannot_be_set_for_a_batch(database):
    for options in ({"id": uuid4()}, {"dedup_key": "k"}, {"kv": {"a": 1}}):
        with pytest.raises(djqueue.InvalidOption, match="cannot be shared by all jobs of a batch"):
            add.using(**options).enqueue_many([call(1)])
    for options in ({"kv": {"a": 1}}, {"on_commit": True}):
        with pytest.raises(djqueue.InvalidOption, match="item 0: kv and on_commit cannot be set"):
            add.enqueue_many([call(1).using(**options)])
    with pytest.raises(djqueue.InvalidOption, match="item 0: the call has no task"):
        djqueue.enqueue_many([call(1)])


def test_on_commit_enqueues_a_batch_at_the_commit(database):
    with transaction.atomic(using=database):
        handles = add.using(on_commit=True).enqueue_many([call(1), call(2)])
        assert [handle.created for handle in handles] == [None, None]
        assert not rows(Job).exists()
    assert [handle.status() for handle in handles] == ["pending"] * 2


def test_batches_with_shared_keys_race_without_errors(database):
    """Keys are taken in order, so two batches cannot wait for each other in a circle."""

    def work(number: int) -> int:
        keys = [f"k{n}" for n in range(20)]
        created = 0
        for _ in range(5):
            items = [call(1).using(dedup_key=key) for key in (keys if number % 2 else reversed(keys))]
            created += sum(handle.created for handle in add.enqueue_many(items))
        return created

    assert sum(in_threads(4, work)) == 20


@pytest.mark.databases("postgresql")
def test_a_hundred_thousand_jobs_in_one_transaction(database):
    with transaction.atomic(using=database):
        handles = add.enqueue_many(call(n) for n in range(100_000))
        assert in_thread(rows(Job).count) == 0
    assert len({handle.id for handle in handles}) == rows(Job).count() == 100_000
    assert [job.args for job in djqueue.Queue("default").claim(3)] == [[0], [1], [2]]


@pytest.mark.databases("postgresql")
def test_memory_is_bounded_by_the_batch(database):
    """The arguments of these jobs take 100 MB together; what is held for each is its handle."""
    tracemalloc.start()
    add.enqueue_many(call("x" * 10_000, b=n) for n in range(10_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows(Job).count() == 10_000
    assert peak < 60_000_000


@pytest.mark.parametrize("keys", [("a", "b"), ("a", None), (None, None), ("a", "a")])
def test_one_own_id_twice_in_a_batch_is_refused(database, keys):
    own = uuid4()
    items = [call(n).using(id=own, dedup_key=key) for n, key in enumerate(keys)]
    with pytest.raises(djqueue.DuplicateJob, match="item 1: "):
        add.enqueue_many(items)
    assert not rows(Job).exists()


def test_own_ids_keep_the_order_of_their_batch(database):
    add.enqueue_many([call(1), call(2).using(id=UUID(int=7)), call(3).using(dedup_key="a"), call(4)])
    assert [job.args for job in djqueue.Queue("default").claim(4)] == [[1], [2], [3], [4]]


@pytest.mark.parametrize("count", [6, 60])  # on PostgreSQL, an INSERT and a COPY
def test_items_with_options_keep_the_order_of_their_batch(database, count):
    add.enqueue_many([call(n).using(headers={"odd": True}) if n % 2 else call(n) for n in range(count)])
    assert [job.args for job in djqueue.Queue("default").claim(count)] == [[n] for n in range(count)]


def test_an_empty_batch_opens_no_transaction(database):
    with CaptureQueriesContext(connections[database]) as captured:
        assert add.enqueue_many(iter([])) == []
    assert len(captured) == 0


def test_large_arguments_are_spread_over_statements(database):
    """A statement must fit into the database's largest packet, which is 16 MiB on MariaDB."""
    handles = later.enqueue_many([call("x" * 600_000) for _ in range(40)])
    assert rows(Job).count() == len({handle.id for handle in handles}) == 40


@pytest.mark.parametrize("atomic", [False, True])
def test_a_database_error_of_the_callers_own_loses_nothing_else(database, monkeypatch, atomic):
    monkeypatch.setattr(enqueueing, "BATCH", 4)

    def items():
        for n in range(9):
            yield call(n)
        raise DataError("from another database")

    with transaction.atomic(using=database) if atomic else nullcontext():
        with pytest.raises(DataError):
            add.enqueue_many(items())
        add.enqueue(99)
    assert [job.args for job in rows(Job).all()] == [[99]]
