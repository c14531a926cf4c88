"""Behaviour of PostgreSQL alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connections, transaction
from django.db.models import TextField
from django.db.models.functions import Cast, Length

import djqueue
from djqueue.core.identity import identity
from djqueue.core.uuid7 import uuid7
from djqueue.models import DeadJob, Job
from djqueue.sql.columns import MAX_ERRORS, MAX_WORKER_IDS
from djqueue.sql.postgresql.statements import PostgreSQL
from tests.app.tasks import add
from tests.tools import claim_one, eventually, in_thread, notifications, places, rows, statements_sent, waits_for_a_lock

LIKE_POSTGRESQL = ("postgresql", "postgresql_bound", "postgresql_pgbouncer")


@pytest.fixture
def notified(database) -> Iterator[Callable[[], list[str]]]:
    """Return the notifications that another connection has received since the last call."""
    listening = connections["postgresql_repeatable"]
    with listening.cursor() as cursor:
        for channel in ("djqueue_pending", "djqueue_scheduled", "djqueue_ended"):
            cursor.execute(f"LISTEN {channel}")
    yield lambda: notifications(listening)
    listening.close()


@pytest.mark.databases("postgresql", "postgresql_pool", "postgresql_bound", "postgresql_pgbouncer")
def test_after_a_slow_enqueue_the_notification_follows_the_commit(database, notified, monkeypatch):
    monkeypatch.setattr(PostgreSQL, "slow_share", 1.0)
    with statements_sent() as sent:
        handle = add.using(queue="mail").enqueue(1)
    assert [sql.split()[0] for sql in sent] == ["INSERT", "SELECT"]
    assert handle.job().enqueued_at == handle.job().run_at
    assert notified() == ["djqueue_pending:mail"]


@pytest.mark.databases("postgresql")
def test_in_a_transaction_the_notification_is_part_of_it(database, notified, monkeypatch):
    monkeypatch.setattr(PostgreSQL, "slow_share", 1.0)
    with statements_sent() as sent, transaction.atomic(using=database):
        add.using(queue="mail").enqueue(1)
        transaction.set_rollback(True, using=database)
    assert len([sql for sql in sent if "djqueue_job" in sql or "pg_notify" in sql]) == 1
    assert notified() == []


@contextmanager
def no_inserts(database: str) -> Iterator[None]:
    """Another transaction has locked the table of jobs."""
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute("LOCK TABLE djqueue_job IN SHARE MODE")
        yield


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("slow", [0.0, 1.0])
def test_an_enqueue_that_fails_leaves_the_connection_usable(database, monkeypatch, slow):
    monkeypatch.setattr(PostgreSQL, "slow_share", slow)

    def fails() -> None:
        with connections[database].cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        with pytest.raises(OperationalError, match="lock timeout"):
            add.enqueue(1)
        assert not rows(Job).exists()

    with no_inserts(database):
        in_thread(fails)


@pytest.mark.databases("postgresql", "postgresql_pgbouncer")
def test_an_enqueue_whose_notification_fails_after_the_commit_has_stored_the_job(database, monkeypatch, caplog):
    """An error would make the caller enqueue the job again."""
    monkeypatch.setattr(PostgreSQL, "slow_share", 1.0)
    monkeypatch.setattr(PostgreSQL, "_send", lambda self, notice: self.fetch("SELECT 1 / 0"))
    with caplog.at_level("WARNING", "djqueue"):
        handle = add.enqueue(1)
    assert handle.created
    assert [job.pk for job in rows(Job).all()] == [handle.id]
    [warning] = caplog.records
    assert warning.getMessage() == f"notification failed, workers find the job when they poll job={handle.id}"
    assert add.enqueue(2).created, "the connection is usable"


@pytest.mark.databases("postgresql")
def test_an_enqueue_that_waited_counts_as_slow(database):
    with ThreadPoolExecutor(1) as pool:
        with no_inserts(database):
            enqueued = pool.submit(in_thread, add.enqueue, 1)
            eventually(lambda: waits_for_a_lock(database))
        assert enqueued.result().created
    assert PostgreSQL.slow_share > 0


@pytest.mark.databases(*LIKE_POSTGRESQL)
@pytest.mark.parametrize("own_id", [False, True])
@pytest.mark.parametrize(("delay", "news"), [(0, "djqueue_pending:mail"), (60, "djqueue_scheduled:")])
def test_the_commit_of_a_dedup_hit_wakes_the_workers_that_skipped_the_job(database, notified, own_id, delay, news):
    first = add.using(queue="mail", dedup_key="k", delay=delay).enqueue(1)
    notified()

    def hit() -> None:
        with transaction.atomic(using=database):
            options = {"id": uuid7()} if own_id else {}
            second = add.using(queue="mail", dedup_key="k", **options).enqueue(1)
            assert (second.id, second.created) == (first.id, False)
            assert notified() == []

    in_thread(hit)
    assert notified() == [news]


@pytest.mark.databases(*LIKE_POSTGRESQL)
def test_a_dedup_hit_on_a_running_job_sends_no_notification(database, notified):
    add.using(dedup_key="k", dedup_until="done").enqueue(1)
    claim_one()
    notified()
    assert not in_thread(lambda: add.using(dedup_key="k").enqueue(1)).created
    assert notified() == []


@pytest.mark.databases(*LIKE_POSTGRESQL)
def test_the_oldest_errors_make_room_for_the_newest(database):
    """Also when a long entry takes the place of many short ones."""
    handle = add.using(max_attempts=500).enqueue(1)
    messages = ["short"] * 20 + ["ä" * 2000] * 60 + ["\x01" * 2000] * 30
    for message in messages:
        job = claim_one()
        job.nack(message, delay=0)
        assert errors_length(Job) <= MAX_ERRORS
    kept = [entry["attempt"] for entry in handle.job().errors]
    assert kept == list(range(kept[0], len(messages) + 1))
    assert errors_length(Job) > MAX_ERRORS - 20_000
    claim_one().dead_letter("\x01" * 2000)
    assert handle.job().errors[-1]["attempt"] == len(messages) + 1
    assert errors_length(DeadJob) <= MAX_ERRORS


def errors_length(model: type[Job] | type[DeadJob]) -> int:
    return rows(model).annotate(length=Length(Cast("errors", TextField()))).get().length


@pytest.mark.databases(*LIKE_POSTGRESQL)
@pytest.mark.parametrize("room", [-1, 0, 1])
def test_the_oldest_worker_ids_make_room_for_the_newest(database, room):
    handle = add.enqueue(1)
    added = len(identity()) + 1
    word = 15
    before = [f"w{n:014}" for n in range((MAX_WORKER_IDS - added) // (word + 1))]
    before[0] += "x" * ((MAX_WORKER_IDS - added) % (word + 1) - room)
    rows(Job).update(worker_ids=before)
    job = claim_one()
    kept = before if room >= 0 else before[1:]
    assert handle.job().worker_ids == [*kept, identity()]
    job.release()
    assert handle.job().worker_ids == kept


ENDS = {
    "done": lambda: claim_one().ack(),
    "dead": lambda: claim_one().dead_letter("boom"),
    "cancelled": lambda: djqueue.cancel(rows(Job).get().pk),
}


@pytest.mark.databases("postgresql_repeatable")
@pytest.mark.parametrize("before", [True, False], ids=["enqueued before", "enqueued after"])
@pytest.mark.parametrize("end", ENDS)
def test_an_own_id_is_not_reused_by_a_transaction_with_an_old_snapshot(database, end, before):
    own = uuid7()

    def enqueue() -> None:
        add.using(id=own).enqueue(1)

    if before:
        enqueue()
    with pytest.raises((djqueue.DuplicateJob, OperationalError)), transaction.atomic(using=database):
        assert rows(Job).count() == before  # takes the snapshot
        if not before:
            in_thread(enqueue)
        in_thread(ENDS[end])
        enqueue()
    assert places(own) == ["DeadJob" if end == "dead" else "DoneJob"]


@pytest.mark.databases("postgresql_repeatable")
def test_an_own_id_leaves_no_traces_in_the_history(database):
    own, other = uuid7(), uuid7()
    with transaction.atomic(using=database):
        add.using(id=own, dedup_key="k").enqueue(1)
        assert not add.using(id=other, dedup_key="k").enqueue(1).created
    assert places(own) == ["Job"]
    assert places(other) == []
    claim_one().ack()
    assert places(own) == ["DoneJob"]


@pytest.mark.databases("postgresql_repeatable")
def test_an_own_id_whose_job_ends_during_the_wait_is_a_duplicate(database):
    own = uuid7()
    add.using(id=own).enqueue(1)
    with ThreadPoolExecutor(1) as pool, transaction.atomic(using=database):
        claim_one().ack()
        second = pool.submit(in_thread, lambda: add.using(id=own).enqueue(1))
        eventually(lambda: in_thread(waiting_for_a_lock))
    with pytest.raises(djqueue.DuplicateJob):
        second.result()
    assert places(own) == ["DoneJob"]


def waiting_for_a_lock() -> int:
    with connections["postgresql"].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]


@pytest.mark.databases(*LIKE_POSTGRESQL)
@pytest.mark.parametrize("column", ["run_at", "enqueued_at", "slot"])
@pytest.mark.parametrize("instant", ["infinity", "-infinity", "20000-01-01", "0100-01-01 BC"])
def test_an_instant_outside_pythons_range_does_not_affect_other_jobs(database, column, instant):
    odd, other = add.enqueue(1), add.enqueue(2)
    with connections[database].cursor() as cursor:
        cursor.execute(f"UPDATE djqueue_job SET {column} = %s::timestamptz WHERE id = %s", [instant, odd.id])
    claimed = djqueue.Queue("default").claim(5)
    assert {job.id for job in claimed} == {odd.id, other.id}
    for job in claimed:
        job.ack()
    assert places(odd.id) == places(other.id) == ["DoneJob"]


@pytest.mark.databases(*LIKE_POSTGRESQL)
@pytest.mark.parametrize("instant", ["infinity", "-infinity"])
def test_a_claimed_job_has_a_finite_run_at(database, instant):
    handle = add.enqueue(1)
    with connections[database].cursor() as cursor:
        cursor.execute("UPDATE djqueue_job SET run_at = %s::timestamptz", [instant])
    assert claim_one(lease=0).run_at == handle.job().run_at
    assert djqueue.maintenance.reap() == 1
