"""Every database makes the same rows of the same acts.

The cases are made once and settled on each database that is configured. What is left in the tables is compared with
what the first database (PostgreSQL) made of it, with ids and instants replaced by what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest

import djqueue
from djqueue.core.records import Renew, Requeue, Settlement
from djqueue.lifecycle.cancel import cancel_many
from djqueue.lifecycle.outcome import MAX_RETURNS, decide, is_final, is_returned
from djqueue.lifecycle.requeue import requeue_many, reschedule_many
from djqueue.lifecycle.unknown_tasks import put_back
from djqueue.models import DeadJob, DoneJob, Job, Throughput
from djqueue.sql import statements
from djqueue.sql.columns import MAX_ERRORS
from djqueue.sql.throughput import BUCKETS
from djqueue.states import Outcome, Verdict
from tests.conftest import PLAIN, clear
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory

CLAIMED_AT = datetime(2020, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
IN_2100 = datetime(2100, 1, 1, tzinfo=UTC)
RECENT = datetime(2022, 1, 1, tzinfo=UTC)  # what lies between these two was set by a database's clock
LONG_AGO = CLAIMED_AT - timedelta(days=1)
DELAYS = [0.0, 0.0000004, 0.0000005, 0.1 + 0.2, 2.0000015, 86400.9999995, 1e9]
ENTRY = '{"message":"grüße 😀"}\n'


@dataclass(frozen=True)
class Case:
    """A claimed row, and a verdict on it."""

    verdict: Verdict
    attempts: int = 1
    started: bool = True
    cancel_requested: bool = False
    crashed: bool = False
    unknown: bool = False
    delay: float = 0.0
    keep_done: bool = True
    history: int = 0  # characters of the errors that are there
    entry: str = ENTRY
    result: str | None = None
    returns: int = 0
    crashes: int = 1
    unknown_since: datetime | None = None
    max_attempts: int = 3
    wait: float = 0.3
    run: float = 1.7
    worker: str = "w-ö"
    worker_ids: tuple[str, ...] = ("first", "w-ö")
    left_over: bool = False  # an earlier life of the job has a row in the histories

    def settlement(self, row: Job) -> Settlement:
        failed = self.verdict in (Verdict.NACK, Verdict.DEAD_LETTER, Verdict.REAP)
        return Settlement(
            id=row.id,
            token=row.token,
            verdict=self.verdict,
            keep_done=self.keep_done,
            result=self.result if self.verdict == Verdict.ACK else None,
            error="grüße 😀" if failed else "",
            entry=self.entry if failed else "",
            delay=self.delay,
            final=is_final(djqueue.Fixed(1), row.attempts, row.max_attempts),
            returned=self.verdict == Verdict.REAP and is_returned(row),
            crashed=self.crashed,
            unknown=self.unknown,
            wait=self.wait,
            run=self.run,
        )

    def job(self, number: int) -> Job:
        return JobFactory.build(
            id=UUID(int=number + 1),
            task=f"tests.task_{number % 3}",
            status="claimed",
            token=token(number),
            attempts=self.attempts,
            max_attempts=self.max_attempts,
            args=[number, "ä"],
            headers={"h": 1.5},
            started=self.started,
            cancel_requested=self.cancel_requested,
            returns=self.returns,
            crashes=self.crashes,
            unknown_since=self.unknown_since,
            worker=self.worker,
            worker_ids=list(self.worker_ids),
            run_at=LONG_AGO,
            enqueued_at=LONG_AGO,
            started_at=LONG_AGO,
            last_attempted_at=CLAIMED_AT,
            claimed_at=CLAIMED_AT,
            lease_expires_at=CLAIMED_AT,
            failed_at=LONG_AGO if self.history else None,
            last_error="earlier" if self.history else "",
            errors=history(self.history),
            progress={"done": 1},
            schedule="s",
            slot=LONG_AGO + timedelta(seconds=number),
            dedup_key=f"key {number}",
        )


def token(number: int) -> UUID:
    return UUID(int=1000 + number)


def history(length: int) -> list[dict[str, Any]]:
    """Return entries of so many characters in all, more bytes than characters: short ones first, which fall out."""
    if length < 100:
        return [{"m": "ä" * (length - len('{"m":""}\n'))}] * bool(length)
    short = [{"m": "ä"}] * 5
    left = length - 5 * len('{"m":"ä"}\n')
    long = [{"m": "ä" * 9000}] * (left // 10_000)
    left -= len(long) * (9000 + len('{"m":""}\n'))
    return [*short, *long, {"m": "ä" * (left - len('{"m":""}\n'))}]


def all_cases() -> Iterator[Case]:
    booleans = [False, True]
    for verdict, attempts, started, cancel, crashed, unknown, delay in product(
        Verdict, [1, 3], booleans, booleans, booleans, booleans, [0.0, 5.0]
    ):
        since = LONG_AGO if unknown and started else None
        case = Case(verdict, attempts, started, cancel, crashed, unknown, delay, unknown_since=since)
        yield case
        yield replace(case, keep_done=False, unknown_since=LONG_AGO)
    for delay in DELAYS:
        for verdict in (Verdict.NACK, Verdict.SNOOZE, Verdict.RELEASE, Verdict.REAP):
            yield Case(verdict, delay=delay)
    for returns in (MAX_RETURNS - 1, MAX_RETURNS):
        yield Case(Verdict.REAP, started=False, returns=returns)
    for verdict, room in product((Verdict.NACK, Verdict.DEAD_LETTER, Verdict.REAP), (-11, -1, 0, 1, 9, 10, 11)):
        yield Case(verdict, history=MAX_ERRORS - len(ENTRY) - room)
    yield Case(Verdict.NACK, history=100, entry='{"m":"' + "x" * MAX_ERRORS + '"}\n')  # longer than the limit itself
    yield Case(Verdict.NACK, entry="", history=20)
    for wait, run in [(0.0, 0.0), *zip(BUCKETS, BUCKETS[::-1], strict=True), (1e9, 0.0049999)]:
        yield Case(Verdict.ACK, wait=float(wait), run=float(run))
    for workers in ((), ("w-ö",), ("w-ö", "other")):
        yield Case(Verdict.RELEASE, worker_ids=workers)
    for result in ("null", '"ü😀"', '{"a":[1,2]}'):
        yield Case(Verdict.ACK, result=result, left_over=True)
    yield Case(Verdict.DEAD_LETTER, left_over=True)
    yield Case(Verdict.CANCEL, left_over=True)


CASES = list(all_cases())


# Where the databases put the instants of their clocks.
CLOCKS = ("run_at", "failed_at", "completed_at", "unknown_since", "started_at", "enqueued_at", "claimed_at")


@pytest.fixture
def on_every_database(settings, django_db_setup, django_db_blocker) -> Iterator[Callable[..., dict[str, Any]]]:
    """Run an act on each database, emptied before, and return what it left in their tables."""
    assert len(PLAIN) > 1

    def run(act: Callable[[], object]) -> dict[str, Any]:
        found = {}
        for alias in PLAIN:
            settings.DJQUEUE = {"DATABASE": alias, "QUEUES": {"brief": {"keep_done": 0}}}
            clear(alias)
            act()
            found[alias] = tables(alias)
            clear(alias)
        return found

    with django_db_blocker.unblock():
        yield run


def tables(alias: str) -> dict[str, Any]:
    """Return the rows by table and id, and the counts by their cell, added up.

    An instant that the database's clock has set is told by its distance from the earliest of them: all cases are
    settled by one act, at one moment.
    """
    rows = {model: list(model._base_manager.using(alias).order_by("pk").values()) for model in (Job, DoneJob, DeadJob)}
    instants = [row[name] for found in rows.values() for row in found for name in CLOCKS if row.get(name)]
    now = min((value for value in instants if RECENT < value < IN_2100), default=None)
    counted: dict[Any, dict[str, float]] = {}
    for row in Throughput._base_manager.using(alias).values():
        cell = counted.setdefault(tuple(row[name] for name in ("queue", "task", "wait_bucket", "run_bucket")), {})
        for name in ("done", "failed", "dead", "cancelled", "wait_sum", "run_sum", "rolled"):
            cell[name] = round(cell.get(name, 0) + row[name], 6)
    return {
        model.__name__: {row["id"]: {name: _meaning(value, now) for name, value in row.items()} for row in found}
        for model, found in rows.items()
    } | {"Throughput": counted}


def _meaning(value: Any, now: datetime | None) -> Any:
    if isinstance(value, datetime) and RECENT < value < IN_2100:
        return "now", (value - now).total_seconds()
    return value


def assert_same(found: dict[str, Any], cases: Sequence[object]) -> None:
    """Compare with the first database, and name the cases that differ."""
    first, *others = PLAIN
    for alias in others:
        for table, expected in found[first].items():
            rows = found[alias][table]
            different = [key for key in [*expected, *rows] if expected.get(key) != rows.get(key)]
            told = [
                (cases[key.int - 1] if isinstance(key, UUID) else key, _difference(expected.get(key), rows.get(key)))
                for key in dict.fromkeys(different)
            ]
            assert not told, f"{table}: {first} and {alias} differ in {len(told)} rows, such as {told[:3]}"


def _difference(one: dict[str, Any] | None, other: dict[str, Any] | None) -> object:
    if one is None or other is None:
        return "missing" if one is None else "there", "missing" if other is None else "there"
    return {name: (str(one[name])[:80], str(other[name])[:80]) for name in one if one[name] != other[name]}


REAPED = [case for case in CASES if case.verdict == Verdict.REAP]
SETTLED = [case for case in CASES if case.verdict != Verdict.REAP]


@pytest.mark.parametrize("cases", [SETTLED, REAPED], ids=["settle", "reap"])
def test_a_settlement_leaves_the_same_rows_on_every_database(on_every_database, cases):
    answers = []

    def settle() -> None:
        database = statements()
        jobs = [case.job(number) for number, case in enumerate(cases)]
        Job._base_manager.using(database.alias).bulk_create(jobs, batch_size=50)
        for job, case in zip(jobs, cases, strict=True):
            if case.left_over:
                instants = dict.fromkeys(["run_at", "enqueued_at", "completed_at"], LONG_AGO)
                DoneJobFactory(id=job.id, result="old", errors=[{"old": 1}], **instants)
        items = [decide(case.settlement(job)) for job, case in zip(jobs, cases, strict=True)]
        answers.append(database.settle(items, expired_at=CLAIMED_AT if cases is REAPED else None, wait=False))

    assert_same(on_every_database(settle), cases)
    for answer in answers[1:]:
        assert answer == answers[0]
    assert {answer.outcome for answer in answers[0]} == (
        {"retrying", "dead", "released"}
        if cases is REAPED
        else {"done", "cancelled", "dead", "snoozed", "released", "retrying"}
    )


def test_a_job_that_began_after_the_reaper_read_it_is_not_returned(on_every_database):
    """Its `started` may change under its token, also without a new expiry."""
    cases = [Case(Verdict.REAP, started=False), Case(Verdict.REAP, started=False, returns=MAX_RETURNS)]
    answers = []

    def settle() -> None:
        database = statements()
        jobs = [case.job(number) for number, case in enumerate(cases)]
        Job._base_manager.using(database.alias).bulk_create(jobs)
        items = [decide(case.settlement(job)) for job, case in zip(jobs, cases, strict=True)]
        database.renew([Renew(id=job.id, token=job.token, started=True) for job in jobs], wait=True)
        answers.append([answer.outcome for answer in database.settle(items, expired_at=CLAIMED_AT)])

    found = on_every_database(settle)
    assert_same(found, cases)
    assert answers == [[Outcome.LOST, Outcome.RETRYING]] * len(PLAIN)


@pytest.mark.parametrize("seconds", [5.0, 20.123457, 59.999999, 300.7])
def test_a_job_of_an_unknown_task_is_put_back_for_the_same_time_on_every_database(on_every_database, seconds):
    delays = []

    def put() -> None:
        database = statements()
        since = database.now() - timedelta(seconds=seconds)
        fresh, old = JobFactory(task="nobody.knows"), JobFactory(task="nobody.knows", unknown_since=since)
        assert put_back("default", ["nobody.knows"]) == 2
        rows = {row.pk: row for row in Job._base_manager.using(database.alias).all()}
        now = rows[fresh.pk].unknown_since
        assert rows[fresh.pk].run_at - now == timedelta(seconds=10)
        age = now - since
        assert rows[old.pk].run_at - now == min(max(age, timedelta(seconds=10)), timedelta(seconds=60))
        assert rows[old.pk].unknown_since == since
        delays.append(round((rows[old.pk].run_at - now).total_seconds()))

    on_every_database(put)
    assert len(set(delays)) == 1


def waiting(number: int, **fields: Any) -> Job:
    given = {"task": "tests.app.tasks.add", "run_at": LONG_AGO, "enqueued_at": LONG_AGO} | fields
    return JobFactory(id=UUID(int=number + 1), args=[number], **given)


def cancel() -> None:
    waiting(0, errors=history(50), worker_ids=["a", "b"], progress={"a": 1}, dedup_key="k", crashes=2, attempts=2)
    waiting(1, queue="brief")
    waiting(2, status="scheduled")
    waiting(3, status="claimed", token=token(3), lease_expires_at=CLAIMED_AT)
    waiting(4)
    cancelled = cancel_many([UUID(int=number + 1) for number in (0, 1, 2, 3, 9)])
    assert sorted(done.outcome for done in cancelled) == ["removed"] * 3 + ["requested"]


def requeue() -> None:
    for number in range(4):
        DeadJobFactory(
            id=UUID(int=number + 1),
            errors=[{"before_requeue": True, "m": "{ä"}, {"m": '{"x":1}'}],
            worker_ids=["a"],
            timeout=1.5,
            crashes=1,
            run_at=LONG_AGO,
            enqueued_at=LONG_AGO,
            failed_at=LONG_AGO,
            started_at=LONG_AGO,
        )
    waiting(2)
    items = [
        Requeue(id=UUID(int=1)),
        Requeue(id=UUID(int=2), args="[7]", kwargs='{"a":"ü"}', run_at=IN_2100),
        Requeue(id=UUID(int=3)),
        Requeue(id=UUID(int=9)),
    ]
    revived = requeue_many(items)
    assert {record.id.int for record in revived} == {1, 2}


def reschedule() -> None:
    for number, status in enumerate(["pending", "scheduled", "claimed", "pending"]):
        waiting(number, status=status)
    ids = [UUID(int=number) for number in (1, 2, 3, 9)]
    assert len(reschedule_many(ids, priority=7)) == 2
    assert len(reschedule_many(ids[:1], run_at=IN_2100)) == 1


def renew() -> None:
    fields = {"status": "claimed", "lease_expires_at": CLAIMED_AT}
    jobs = [waiting(number, token=token(number), progress={"old": 1}, **fields) for number in range(4)]
    items = [
        Renew(id=jobs[0].pk, token=token(0), started=True),
        Renew(id=jobs[1].pk, token=token(1), progress='{"done":"ä"}'),
        Renew(id=jobs[2].pk, token=token(9), progress='{"done":1}'),
    ]
    answers = statements().renew(items, wait=False)
    assert [answer.expires_at for answer in answers] == [CLAIMED_AT, CLAIMED_AT, None]


@pytest.mark.parametrize("act", [cancel, requeue, reschedule, renew])
def test_rare_acts_leave_the_same_rows_on_every_database(on_every_database, act):
    assert_same(on_every_database(act), range(100))
