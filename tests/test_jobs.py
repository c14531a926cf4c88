from __future__ import annotations

import re
from uuid import uuid4

import pytest

import djqueue
from djqueue.models import DeadJob
from tests.app.tasks import add
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory
from tests.tools import claim_one, rows, statements_sent

STATES = {
    "pending": lambda: JobFactory(),
    "scheduled": lambda: JobFactory(scheduled=True),
    "claimed": lambda: JobFactory(claimed=True),
    "done": lambda: DoneJobFactory(),
    "cancelled": lambda: DoneJobFactory(cancelled=True),
    "dead": lambda: DeadJobFactory(),
}


@pytest.mark.parametrize("state", STATES)
def test_get_job_finds_a_job_in_every_state_with_one_query(database, state):
    row = STATES[state]()
    with statements_sent() as sent:
        record = djqueue.get_job(str(row.pk))
    assert len(sent) == 1
    assert (record.id, record.status) == (row.pk, state)
    for name in ("task", "queue", "args", "kwargs", "attempts", "run_at", "enqueued_at", "errors", "worker_ids"):
        assert getattr(record, name) == getattr(row, name), name
        assert type(getattr(record, name)) is type(getattr(row, name)), name


@pytest.mark.parametrize("malformed", ["123", "", None, 5, "x" * 36, object()])
def test_a_malformed_id_finds_nothing(database, malformed):
    assert djqueue.get_job(malformed) is None


def test_an_unknown_id_finds_nothing(database):
    assert djqueue.get_job(uuid4()) is None


def test_datetimes_are_aware_and_survive_the_round_trip(database):
    row = JobFactory(claimed=True)
    record = djqueue.get_job(row.pk)
    assert record.lease_expires_at == row.lease_expires_at
    assert record.enqueued_at.utcoffset() is not None


def test_dead_jobs_are_ordered_by_id(database):
    ids = sorted(DeadJobFactory(queue="q").pk for _ in range(5))
    DeadJobFactory(queue="other")
    queue = djqueue.Queue("q")
    assert [job.id for job in queue.dead_jobs()] == ids
    assert [job.id for job in queue.dead_jobs(limit=2)] == ids[:2]
    assert [job.id for job in queue.dead_jobs(after=ids[1], limit=2)] == ids[2:4]
    assert queue.dead_jobs(after=str(ids[-1])) == []
    assert queue.dead_jobs(limit=0) == []
    assert queue.dead_jobs()[0].status == "dead"
    with pytest.raises(djqueue.InvalidOption):
        queue.dead_jobs(limit=-1)


def test_dead_jobs_without_their_payload_read_no_large_column(database):
    dead = DeadJobFactory(args=[1], kwargs={"a": 1}, headers={"h": 1}, progress={"done": 1}, worker_ids=["w"])
    with statements_sent() as sent:
        [record] = djqueue.Queue("default").dead_jobs(payload=False)
    [sql] = sent
    assert not {"args", "kwargs", "headers", "errors", "progress"} & set(re.findall(r"\w+", sql))
    assert (record.args, record.kwargs, record.headers, record.errors) == ([], {}, {}, [])
    assert (record.result, record.progress) == (None, None)
    assert (record.id, record.task, record.last_error, record.worker_ids) == (dead.id, dead.task, "boom", ["w"])


def test_a_row_with_invalid_json_can_be_read(database):
    from django.db.models import TextField, Value

    row = DeadJobFactory()
    text = Value("{spoilt", output_field=TextField())
    rows(DeadJob).filter(pk=row.pk).update(args=text, errors=text)
    record = djqueue.get_job(row.pk)
    assert (record.args, record.errors) == ("{spoilt", ["{spoilt"])
    assert rows(DeadJob).get().args == "{spoilt"


def test_a_handle_reads_its_job(database):
    handle = add.enqueue(1)
    assert handle.status() == djqueue.Status.PENDING
    claim_one().ack(5)
    assert (handle.status(), handle.job().result) == ("done", 5)
    assert djqueue.JobHandle(uuid4()).job() is None
    assert djqueue.JobHandle(uuid4()).status() is None
