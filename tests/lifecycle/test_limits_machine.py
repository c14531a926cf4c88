"""Limits under interleaved transactions of several real PostgreSQL connections, driven at random.

Invariants, whatever the interleaving:
- no commit makes the admitted jobs of a key more than its limit allows, or more than they were before it;
- every limit admits again whatever was given back, also if its holder died before it could hand the permit on: in the
  end all jobs can be run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from django.db.models import Count
from django.test import override_settings
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import djqueue
from djqueue.core.records import Settlement
from djqueue.lifecycle import outcome
from djqueue.models import DeadJob, Job, LimitKey
from djqueue.sql import statements
from djqueue.states import Verdict
from tests.conftest import clear
from tests.lifecycle.limited import export, sync

ACTORS = ["postgresql", "postgresql_bound"]
OBSERVER = "postgresql_pool"
SQLSTATE_LOCK_NOT_AVAILABLE = "55P03"
KEYS = ["tenant:1", "tenant:2"]
QUEUES = ["default", "other"]
USUAL = 2  # the number of `sync`; that of `export` is 1

actors = st.sampled_from(ACTORS)
picks = st.integers(0, 1000)
keys = st.sampled_from(KEYS)
queues = st.sampled_from(QUEUES)


class LimitMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        clear(OBSERVER)
        self.open: dict[str, transaction.Atomic] = {}
        self.claims: list[djqueue.ClaimedJob] = []
        self.jobs: list[Any] = []
        self.highest = dict.fromkeys(KEYS, USUAL)  # the highest number that a transaction may go by
        self.admitted = dict.fromkeys(KEYS, 0)
        for actor in ACTORS:
            with connections[actor].cursor() as cursor:
                cursor.execute("SET lock_timeout = '20ms'")

    def act(self, actor: str, work: Callable[[], Any]) -> Any:
        """Do something on an actor's connection; a wait for the other's lock ends in an error that changes nothing."""
        with override_settings(DJQUEUE={"DATABASE": actor, "BACKOFF_BASE": 0}):
            try:
                return work()
            except djqueue.LeaseLost:
                return None
            except OperationalError as error:
                assert getattr(error.__cause__, "sqlstate", "") == SQLSTATE_LOCK_NOT_AVAILABLE
                if actor in self.open:
                    self.end(actor, commit=False)
                return None

    def end(self, actor: str, *, commit: bool) -> None:
        atomic = self.open.pop(actor)
        if not commit:
            transaction.set_rollback(True, using=actor)
        atomic.__exit__(None, None, None)

    @rule(actor=actors)
    def begin(self, actor: str) -> None:
        if actor not in self.open:
            self.open[actor] = transaction.atomic(using=actor)
            self.open[actor].__enter__()

    @rule(actor=actors, commit=st.booleans())
    def finish(self, actor: str, commit: bool) -> None:
        if actor in self.open:
            self.end(actor, commit=commit)

    @rule(
        actor=actors,
        tenant=st.sampled_from([1, 1, 2]),
        task=st.sampled_from([sync, sync, export]),
        queue=queues,
        count=st.integers(1, 4),
        priority=st.sampled_from([1, 2]),
    )
    def enqueue(self, actor: str, tenant: int, task: Any, queue: str, count: int, priority: int) -> None:
        options = {"queue": queue, "max_attempts": 2, "priority": priority}
        calls = [djqueue.call(tenant)] * count
        handles = self.act(actor, lambda: task.using(**options).enqueue_many(calls))
        self.jobs += [handle.id for handle in handles or []]

    @rule(actor=actors)
    def admit(self, actor: str) -> None:
        self.act(actor, djqueue.maintenance.admit)

    @rule(actor=actors)
    def admit_in_both(self, actor: str) -> None:
        """Admit while an admission of the other actor has not committed yet."""
        other = next(name for name in ACTORS if name != actor)
        if not self.open:
            self.begin(actor)
            self.admit(actor)
            self.admit(other)
            if actor in self.open:
                self.end(actor, commit=True)

    @rule(actor=actors, queue=queues, limit=st.integers(1, 3), lease=st.sampled_from([0, 60]))
    def claim(self, actor: str, queue: str, limit: int, lease: int) -> None:
        self.claims += self.act(actor, lambda: djqueue.Queue(queue).claim(limit, lease=lease)) or []

    @rule(actor=actors, pick=picks, verdict=st.sampled_from(["ack", "nack", "dead_letter", "snooze", "release"]))
    def settle(self, actor: str, pick: int, verdict: str) -> None:
        if self.claims:
            job = self.claims.pop(pick % len(self.claims))
            arguments = {"nack": ["boom"], "dead_letter": ["boom"], "snooze": [0]}.get(verdict, [])
            self.act(actor, lambda: getattr(job, verdict)(*arguments))

    @rule(actor=actors, pick=picks)
    def settle_and_die(self, actor: str, pick: int) -> None:
        """Settle a job as a worker does that is killed before it hands the permit on."""
        if self.claims:
            job = self.claims.pop(pick % len(self.claims))
            item = Settlement(id=job.id, token=job.token, verdict=Verdict.ACK, task=job.task, queue=job.queue)
            self.act(actor, lambda: statements().settle([outcome.decide(item)]))

    @rule(actor=actors)
    def reap(self, actor: str) -> None:
        self.act(actor, djqueue.maintenance.reap)

    @rule(actor=actors)
    def promote(self, actor: str) -> None:
        self.act(actor, djqueue.maintenance.promote)

    @rule(actor=actors, pick=picks)
    def cancel(self, actor: str, pick: int) -> None:
        if self.jobs:
            self.act(actor, lambda: djqueue.cancel(self.jobs[pick % len(self.jobs)]))

    @rule(actor=actors, pick=picks, later=st.booleans())
    def reschedule(self, actor: str, pick: int, later: bool) -> None:
        if self.jobs:
            at = datetime(2100 if later else 2000, 1, 1, tzinfo=UTC)
            self.act(actor, lambda: djqueue.reschedule(self.jobs[pick % len(self.jobs)], run_at=at))

    @rule(actor=actors)
    def requeue_all(self, actor: str) -> None:
        def requeue() -> None:
            for job in DeadJob.objects.using(actor).values_list("pk", flat=True):
                try:
                    djqueue.requeue(job)
                except djqueue.NotDead:
                    continue

        self.act(actor, requeue)

    @rule(actor=actors, queue=queues, resume=st.booleans())
    def pause(self, actor: str, queue: str, resume: bool) -> None:
        self.act(actor, lambda: djqueue.Queue(queue).resume() if resume else djqueue.Queue(queue).pause())

    @rule(actor=actors, key=keys, concurrency=st.integers(1, 4))
    def set_limit(self, actor: str, key: str, concurrency: int) -> None:
        self.highest[key] = max(self.highest[key], concurrency)
        self.act(actor, lambda: djqueue.limits.set(key, concurrency=concurrency))

    @rule(actor=actors, key=keys)
    def clear_limit(self, actor: str, key: str) -> None:
        self.act(actor, lambda: djqueue.limits.clear(key))

    @rule(actor=actors, key=keys, release=st.booleans())
    def hold(self, actor: str, key: str, release: bool) -> None:
        self.act(actor, lambda: djqueue.limits.release(key) if release else djqueue.limits.hold(key, 60))

    @rule(actor=actors, pick=picks)
    def delete_by_hand(self, actor: str, pick: int) -> None:
        if self.jobs:
            self.act(actor, lambda: Job.objects.using(actor).filter(pk=self.jobs[pick % len(self.jobs)]).delete())

    @invariant()
    def no_commit_exceeds_a_limit(self) -> None:
        counts = dict.fromkeys(KEYS, 0)
        admitted = Job.objects.using(OBSERVER).filter(status__in=["pending", "claimed"]).order_by()
        counts |= dict(admitted.values_list("limit_key").annotate(Count("pk")))
        for key, count in counts.items():
            assert count <= max(self.highest[key], self.admitted[key])
        self.admitted = counts
        if not self.open:  # nothing goes by an older number any more
            self.highest = {key: max(USUAL, self.number(key)) for key in KEYS}

    def number(self, key: str) -> int:
        row = LimitKey.objects.using(OBSERVER).filter(key=key).first()
        return (row and row.concurrency) or 0

    def teardown(self) -> None:
        for actor in list(self.open):
            self.end(actor, commit=False)
        with override_settings(DJQUEUE={"DATABASE": OBSERVER}):
            self.finish_everything()
        clear(OBSERVER)

    def finish_everything(self) -> None:
        """Run all jobs that are left: nothing may be stuck."""
        for queue in QUEUES:
            djqueue.Queue(queue).resume()
        for key in KEYS:
            djqueue.limits.release(key)
        Job.objects.using(OBSERVER).filter(status="claimed").update(lease_expires_at=datetime(2000, 1, 1, tzinfo=UTC))
        djqueue.maintenance.reap()
        while left := Job.objects.using(OBSERVER).count():
            Job.objects.using(OBSERVER).filter(status="scheduled").update(run_at=datetime(2000, 1, 1, tzinfo=UTC))
            djqueue.maintenance.promote()
            djqueue.maintenance.admit()
            for queue in QUEUES:
                for job in djqueue.Queue(queue).claim(10):
                    job.ack()
            assert Job.objects.using(OBSERVER).count() < left, "a job is stuck"


@pytest.mark.timeout(900)
@pytest.mark.databases("postgresql")
def test_interleaved_transactions_never_exceed_a_limit(database):
    try:
        run_state_machine_as_test(
            LimitMachine,
            settings=settings(
                max_examples=int(os.environ.get("DJQUEUE_TEST_EXAMPLES", "60")),
                stateful_step_count=50,
                deadline=None,
                derandomize="DJQUEUE_TEST_EXAMPLES" not in os.environ,
                phases=[phase for phase in Phase if phase is not Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for actor in ACTORS:
            connections[actor].close()
