"""The connection breaks after the server has committed and before the client gets the response (FAILURES 17)."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import pytest
from django.db import DatabaseError, connections, transaction
from django.db.models import Sum

import djqueue
from djqueue import call
from djqueue.core.uuid7 import uuid7
from djqueue.models import DeadJob, DoneJob, Job, Throughput
from tests.tools import eventually, in_thread, places, rows
from tests.worker import tasks

pytestmark = pytest.mark.databases("postgresql")
CLAIM, SETTLE, ENQUEUE = "WITH asked", "INSERT INTO djqueue_donejob", "INSERT INTO djqueue_job"
ROUNDS = 5


@pytest.mark.parametrize("statement", [CLAIM, SETTLE])
def test_a_lost_commit_response_loses_and_repeats_nothing(database, site, proxy, tmp_path, statement):
    ledger = tmp_path / "ledger"
    worker = site.start_ready("--threads", "2", LEASE=600, env={"DATABASE_URL": proxy.url})
    handles = []
    for turn in range(ROUNDS):
        proxy.lose_answer(statement)
        handles += tasks.note_run.enqueue_many([call(str(ledger), 0) for _ in range(10)])
        eventually(lambda: proxy.lost == turn + 1)
        eventually(lambda: rows(DoneJob).count() == len(handles))
    assert Counter(ledger.read_text().split()) == {str(handle.id): 1 for handle in handles}
    assert {handle.job().attempts for handle in handles} == {1}
    assert not rows(Job).exists()
    assert not rows(DeadJob).exists()
    assert worker.stop() == 0
    assert rows(Throughput).aggregate(total=Sum("done"))["total"] == len(handles), "each was settled once"
    completed = {key: count for key, count in worker.events().items() if key[0] == "completed"}
    assert set(completed.values()) <= {1}
    if statement == CLAIM:
        assert len(completed) == len(handles)
        assert "response to a claim lost, released jobs=" in worker.log()


@contextmanager
def connected_to(proxy):
    """Let this thread use a connection through the proxy."""
    alias = djqueue.conf.config().database
    connection = connections[alias].copy()
    connection.settings_dict["HOST"] = proxy.folder
    connections[alias] = connection
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("how", ["autocommit", "transaction", "batch", "copy"])
def test_an_enqueue_without_an_answer_is_stored_once_and_its_id_is_taken(database, proxy, how):
    """The caller gets the error of its connection. A repetition with the same id raises DuplicateJob."""
    ids = [uuid7() for _ in range({"batch": 3}.get(how, 1))]

    def enqueue() -> None:
        if how == "copy":
            tasks.double.enqueue_many([call(n) for n in range(2000)])
        elif how == "batch":
            tasks.double.enqueue_many([call(1).using(id=job_id) for job_id in ids])
        elif how == "transaction":
            with transaction.atomic(using=database):
                tasks.double.using(id=ids[0]).enqueue(1)
        else:
            tasks.double.using(id=ids[0]).enqueue(1)

    def lose_the_answer() -> None:
        with connected_to(proxy):
            connections[database].ensure_connection()
            proxy.lose_answer("COPY djqueue_job" if how == "copy" else ENQUEUE)
            with pytest.raises(DatabaseError):
                enqueue()

    in_thread(lose_the_answer)
    assert proxy.lost == 1
    if how == "copy":
        assert rows(Job).count() == 2000
        return
    assert [places(job_id) for job_id in ids] == [["Job"]] * len(ids)
    with pytest.raises(djqueue.DuplicateJob):
        enqueue()
    assert rows(Job).count() == len(ids)


def test_an_enqueue_without_an_answer_is_not_repeated(database, proxy):
    """Without an id of its own, the caller could not tell a repetition from a second job."""

    def lose_the_answer() -> None:
        with connected_to(proxy):
            connections[database].ensure_connection()
            proxy.lose_answer(ENQUEUE)
            with pytest.raises(DatabaseError):
                tasks.double.enqueue(1)

    in_thread(lose_the_answer)
    assert (proxy.lost, rows(Job).count()) == (1, 1)
