"""Every transition sends its NOTIFY, with its commit or right after it, heard by a plain connection that listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import psycopg
import pytest
from django.db import connections, transaction

import djqueue
from djqueue import schedules
from djqueue.core.channels import BLOCKED, ENDED, PENDING, SCHEDULED
from djqueue.core.uuid7 import uuid7
from djqueue.lifecycle import settle, unknown_tasks
from djqueue.sql.postgresql.statements import PostgreSQL
from tests.app.tasks import add
from tests.factories import DeadJobFactory, JobFactory, ago
from tests.lifecycle.limited import sync
from tests.tools import claim_one, database_now

pytestmark = pytest.mark.databases("postgresql")

WITHIN = 30.0  # seconds, on a busy machine
TO_DEFAULT = (PENDING, "default")
SOMETHING_SCHEDULED = (SCHEDULED, "")
SOMETHING_ENDED = (ENDED, "")

# What happens to a job that this process holds.
OF_A_HELD_JOB: dict[str, tuple[Callable[[djqueue.ClaimedJob], object], tuple[str, str]]] = {
    "retry at once": (lambda job: job.nack("boom", delay=0), TO_DEFAULT),
    "delayed retry": (lambda job: job.nack("boom", delay=60), SOMETHING_SCHEDULED),
    "release": (lambda job: job.release(), TO_DEFAULT),
    "snooze of zero": (lambda job: job.snooze(0), TO_DEFAULT),
    "snooze": (lambda job: job.snooze(60), SOMETHING_SCHEDULED),
    "reap": (lambda job: djqueue.maintenance.reap(), TO_DEFAULT),
    "ack": (lambda job: job.ack(), SOMETHING_ENDED),
    "ack of a group": (lambda job: settle.settle_many([settle.ack(job)]), SOMETHING_ENDED),
    "dead letter": (lambda job: job.dead_letter("no"), SOMETHING_ENDED),
}


def keyed(**options) -> object:
    return add.using(dedup_key="k", **options).enqueue(1)


def keyed_batch() -> object:
    return add.enqueue_many([djqueue.call(1).using(dedup_key=f"k{n}") for n in range(60)])


# What makes a job wait; the job that it needs is made before anybody listens.
OF_OTHERS: dict[str, tuple[Callable[[], object], Callable[[object], object], tuple[str, str]]] = {
    "enqueue": (lambda: None, lambda _: add.enqueue(1), TO_DEFAULT),
    "enqueue with a delay": (lambda: None, lambda _: add.using(delay=60).enqueue(1), SOMETHING_SCHEDULED),
    "large batch": (lambda: None, lambda _: add.enqueue_many([djqueue.call(1)] * 60), TO_DEFAULT),
    "large batch with a delay": (
        lambda: None,
        lambda _: add.using(delay=60).enqueue_many([djqueue.call(1)] * 60),
        SOMETHING_SCHEDULED,
    ),
    "dedup hit": (keyed, lambda _: keyed(), TO_DEFAULT),
    "dedup hit with an own id": (keyed, lambda _: keyed(id=uuid7()), TO_DEFAULT),
    "dedup hits of a large batch": (keyed_batch, lambda _: keyed_batch(), TO_DEFAULT),
    "promotion": (
        lambda: JobFactory(scheduled=True, run_at=ago(1)),
        lambda _: djqueue.maintenance.promote(),
        TO_DEFAULT,
    ),
    "requeue": (DeadJobFactory, lambda row: djqueue.requeue(row.pk), TO_DEFAULT),
    "requeue for later": (
        DeadJobFactory,
        lambda row: djqueue.requeue(row.pk, run_at=ago(-60)),
        SOMETHING_SCHEDULED,
    ),
    "reschedule": (
        lambda: JobFactory(scheduled=True),
        lambda row: djqueue.reschedule(row.pk, run_at=ago(1)),
        TO_DEFAULT,
    ),
    "reschedule for later": (JobFactory, lambda row: djqueue.reschedule(row.pk, run_at=ago(-60)), SOMETHING_SCHEDULED),
    "cancel": (JobFactory, lambda row: djqueue.cancel(row.pk), SOMETHING_ENDED),
    "resume": (lambda: djqueue.Queue("default").pause(), lambda _: djqueue.Queue("default").resume(), TO_DEFAULT),
    "put back of unknown tasks": (
        lambda: djqueue.enqueue("no.such.task"),
        lambda _: unknown_tasks.put_back("default", ["no.such.task"]),
        SOMETHING_SCHEDULED,
    ),
    "new schedule": (
        lambda: None,
        lambda _: schedules.create("s", task="tests.app.tasks.add", every=60),
        SOMETHING_SCHEDULED,
    ),
}


def admitted() -> djqueue.JobHandle:
    handle = sync.enqueue(1)
    djqueue.maintenance.admit()
    return handle


def ack_in_a_transaction(job: djqueue.ClaimedJob) -> None:
    with transaction.atomic(using="postgresql"):
        job.ack()


# What supervisors, and the workers after an admission, learn of jobs with a limit.
OF_LIMITED_JOBS: dict[str, tuple[Callable[[], object], Callable[[object], object], tuple[str, str]]] = {
    "enqueue": (lambda: None, lambda _: sync.enqueue(1), (BLOCKED, "tenant:1")),
    "admission": (lambda: sync.enqueue(1), lambda _: djqueue.maintenance.admit(), TO_DEFAULT),
    "cancel": (admitted, lambda job: djqueue.cancel(job.id), (BLOCKED, "tenant:1")),
    "ack in a transaction": (
        lambda: (admitted(), claim_one())[1],
        ack_in_a_transaction,
        (BLOCKED, "tenant:1"),
    ),
}


class Ear:
    """A connection of its own that listens on every channel."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        for channel in (PENDING, SCHEDULED, ENDED, BLOCKED):
            connection.execute(f"LISTEN {channel}")

    def hears(self) -> list[tuple[str, str]]:
        """Return what was sent before now: a connection hears of commits in their order, and of its own one last."""
        self.connection.execute(f"NOTIFY {ENDED}, 'the last one'")
        found = []
        for one in self.connection.notifies(timeout=WITHIN):
            if one.payload == "the last one":
                return found
            found.append((one.channel, one.payload))
        raise AssertionError("the last notification did not arrive")


@pytest.fixture
def listening(database) -> Iterator[Callable[[], Ear]]:
    opened: list[psycopg.Connection] = []

    def listen() -> Ear:
        opened.append(psycopg.connect(**connections[database].get_connection_params() | {"cursor_factory": None}))
        opened[0].autocommit = True
        return Ear(opened[0])

    yield listen
    for connection in opened:
        connection.close()


@pytest.fixture(params=[0.0, 1.0], ids=["fast", "slow"])
def either_speed(request, monkeypatch, database) -> None:
    """The first enqueue sends its notification with the INSERT, or after it."""
    monkeypatch.setattr(PostgreSQL, "slow_share", request.param)


@pytest.mark.parametrize("act", OF_A_HELD_JOB)
def test_settling_a_job_notifies(listening, act):
    add.using(lease=0).enqueue(1)
    job = claim_one()
    ear = listening()
    do, expected = OF_A_HELD_JOB[act]
    do(job)
    assert ear.hears()[:1] == [expected]


@pytest.mark.usefixtures("either_speed")
@pytest.mark.parametrize("act", OF_OTHERS)
def test_making_jobs_wait_or_end_notifies(listening, act):
    make, do, expected = OF_OTHERS[act]
    made = make()
    ear = listening()
    do(made)
    assert ear.hears()[:1] == [expected]


@pytest.mark.usefixtures("either_speed")
@pytest.mark.parametrize("act", OF_LIMITED_JOBS)
def test_what_concerns_a_limit_notifies(listening, act):
    make, do, expected = OF_LIMITED_JOBS[act]
    made = make()
    ear = listening()
    do(made)
    assert expected in ear.hears()


def test_a_call_that_makes_a_waiting_job_due_notifies(listening):
    keyed(delay=60)
    ear = listening()
    keyed(on_duplicate="replace")
    assert TO_DEFAULT in ear.hears()


@pytest.mark.usefixtures("either_speed")
def test_nothing_is_heard_of_a_transaction_that_is_rolled_back(listening, database):
    ear = listening()
    with transaction.atomic(using=database):
        add.enqueue(1)
        transaction.set_rollback(True, using=database)
    add.using(queue="after").enqueue(1)
    assert ear.hears() == [(PENDING, "after")]


def test_a_fired_schedule_notifies(listening):
    schedules.create("s", task="tests.app.tasks.add", every=3600)
    djqueue.models.Schedule._base_manager.using("postgresql").update(next_at=database_now() - timedelta(seconds=1))
    ear = listening()
    djqueue.maintenance.fire_schedules()
    assert ear.hears() == [TO_DEFAULT]
