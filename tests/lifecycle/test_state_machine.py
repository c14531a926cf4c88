"""Two real PostgreSQL connections with interleaved open transactions, driven at random.

Invariants, whatever the interleaving:
- every committed job is in exactly one table;
- of each claim at most one verdict is accepted, and none after the claim was lost;
- what was accepted and committed is what the rows say;
- the counters are the number of committed outcomes;
- kv is what the last committed enqueue that created its job wrote;
- a dedup hit names a job that waits.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from django.db.models import Sum
from django.test import override_settings
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import djqueue
from djqueue.models import KV, DeadJob, DoneJob, Job, Throughput
from tests.app.tasks import add
from tests.conftest import clear

ACTORS = ["postgresql", "postgresql_bound"]
OBSERVER = "postgresql_pool"
SQLSTATE_LOCK_NOT_AVAILABLE = "55P03"

actors = st.sampled_from(ACTORS)
picks = st.integers(0, 1000)
keys = st.sampled_from([None, None, "a", "b"])

COUNTED = ("done", "failed", "dead", "cancelled")
WAITING = ("pending", "scheduled")
OUTCOMES = {
    "ack": ("done",),
    "nack": (*WAITING, "dead", "cancelled"),
    "dead_letter": ("dead",),
    "snooze": WAITING,
    "release": WAITING,
}


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        clear(OBSERVER)
        self.open: dict[str, transaction.Atomic] = {}
        self.effects: dict[str, list[Callable[[], None]]] = {actor: [] for actor in ACTORS}
        self.claims: list[djqueue.ClaimedJob] = []
        self.spent: set[object] = set()  # tokens whose verdict has committed, or that were lost
        self.jobs: set[object] = set()
        self.ends: dict[object, str] = {}
        self.counts: Counter[str] = Counter()
        self.kv: dict[str, int] = {}
        for actor in ACTORS:
            with connections[actor].cursor() as cursor:
                cursor.execute("SET lock_timeout = '20ms'")

    def act(self, actor: str, work: Callable[[], Any]) -> Any:
        """Do something on an actor's connection; a wait for the other's lock ends in an error that changes nothing."""
        with override_settings(DJQUEUE={"DATABASE": actor, "BACKOFF_BASE": 0}):
            try:
                return work()
            except OperationalError as error:
                assert getattr(error.__cause__, "sqlstate", "") == SQLSTATE_LOCK_NOT_AVAILABLE
                if actor in self.open:
                    self.end(actor, commit=False)
                return None

    def when_committed(self, actor: str, effect: Callable[[], None]) -> None:
        if actor in self.open:
            self.effects[actor].append(effect)
        else:
            effect()

    def end(self, actor: str, *, commit: bool) -> None:
        atomic = self.open.pop(actor)
        if not commit:
            transaction.set_rollback(True, using=actor)
        atomic.__exit__(None, None, None)
        for effect in self.effects[actor] if commit else []:
            effect()
        self.effects[actor] = []

    @rule(actor=actors)
    def begin(self, actor: str) -> None:
        if actor not in self.open:
            self.open[actor] = transaction.atomic(using=actor)
            self.open[actor].__enter__()

    @rule(actor=actors, commit=st.booleans())
    def finish(self, actor: str, commit: bool) -> None:
        if actor in self.open:
            self.end(actor, commit=commit)

    @rule(actor=actors, max_attempts=st.integers(1, 3), delay=st.sampled_from([0, 3600]), key=keys, value=picks)
    def enqueue(self, actor: str, max_attempts: int, delay: int, key: str | None, value: int) -> None:
        task = add.using(max_attempts=max_attempts, delay=delay, dedup_key=key, kv={"last": value})
        handle = self.act(actor, lambda: task.enqueue(1))
        if handle is None:
            return
        if handle.created:
            assert handle.id not in self.jobs
            self.when_committed(actor, lambda: (self.jobs.add(handle.id), self.kv.update(last=value)))
        else:
            assert self.act(actor, handle.status) in ("pending", "scheduled")

    @rule(actor=actors, pick=picks)
    def cancel(self, actor: str, pick: int) -> None:
        if not self.jobs:
            return
        job_id = sorted(self.jobs)[pick % len(self.jobs)]
        outcome = self.act(actor, lambda: djqueue.cancel(job_id))
        if outcome is djqueue.CancelOutcome.REMOVED:
            self.when_committed(actor, lambda: self.end_job(job_id, "cancelled"))

    @rule(actor=actors, pick=picks)
    def requeue(self, actor: str, pick: int) -> None:
        dead = sorted(job_id for job_id, end in self.ends.items() if end == "dead")
        if not dead:
            return
        job_id = dead[pick % len(dead)]

        def requeue() -> bool:
            try:
                djqueue.requeue(job_id)
            except djqueue.NotDead:
                return False
            return True

        if self.act(actor, requeue):
            self.when_committed(actor, lambda: self.ends.pop(job_id))

    @rule(actor=actors, lease=st.sampled_from([0, 60]), limit=st.integers(1, 3))
    def claim(self, actor: str, lease: int, limit: int) -> None:
        claimed = self.act(actor, lambda: djqueue.Queue("default").claim(limit, lease=lease)) or []
        assert len(claimed) <= limit
        assert not {(job.id, job.token) for job in claimed} & self.spent
        self.claims += claimed

    @rule(actor=actors, pick=picks, verdict=st.sampled_from(["ack", "nack", "dead_letter", "snooze", "release"]))
    def settle(self, actor: str, pick: int, verdict: str) -> None:
        if not self.claims:
            return
        job = self.claims[pick % len(self.claims)]
        arguments = {"nack": ["boom"], "dead_letter": ["boom"], "snooze": [0]}.get(verdict, [])
        was_spent = (job.id, job.token) in self.spent

        def settle() -> bool:
            try:
                getattr(job, verdict)(*arguments)
            except djqueue.LeaseLost:
                return False
            return True

        if self.act(actor, settle):
            assert not was_spent, "a stale write was accepted"
            with override_settings(DJQUEUE={"DATABASE": actor}):
                status = djqueue.get_job(job.id).status
            assert status in OUTCOMES[verdict]
            self.when_committed(actor, lambda: self.settled(job, verdict, status))

    def settled(self, job: djqueue.ClaimedJob, verdict: str, status: str) -> None:
        assert (job.id, job.token) not in self.spent, "two verdicts on one claim were committed"
        self.spent.add((job.id, job.token))
        self.counts["failed"] += verdict in ("nack", "dead_letter") and status != "cancelled"
        if status in ("done", "dead", "cancelled"):
            self.end_job(job.id, status)

    def end_job(self, job_id: object, status: str) -> None:
        assert job_id not in self.ends, "a job ended twice"
        self.ends[job_id] = status
        self.counts[status] += 1

    @rule(actor=actors)
    def reap(self, actor: str) -> None:
        with override_settings(DJQUEUE={"DATABASE": actor}):
            before = {row.pk: row for row in Job.objects.using(actor).filter(status="claimed")}
        if self.act(actor, djqueue.maintenance.reap) is None:
            return
        still = set(Job.objects.using(actor).filter(status="claimed").values_list("pk", "token"))
        for row in before.values():
            if (row.pk, row.token) not in still:
                self.when_committed(actor, lambda row=row: self.reaped(row))

    def reaped(self, row: Job) -> None:
        if (row.pk, row.token) in self.spent:
            return  # the other actor's verdict was committed after this reaper read the row
        self.spent.add((row.pk, row.token))
        self.counts["failed"] += 1
        if row.attempts >= row.max_attempts:
            self.end_job(row.pk, "dead")

    @rule(actor=actors)
    def promote(self, actor: str) -> None:
        self.act(actor, djqueue.maintenance.promote)

    @invariant()
    def rows_agree(self) -> None:
        tables = {model: set(model.objects.using(OBSERVER).values_list("pk", flat=True)) for model in TABLES}
        assert sum(map(len, tables.values())) == len(self.jobs)
        assert set().union(*tables.values()) == self.jobs
        assert tables[DoneJob] == {job for job, end in self.ends.items() if end in ("done", "cancelled")}
        assert tables[DeadJob] == {job for job, end in self.ends.items() if end == "dead"}
        sums = Throughput.objects.using(OBSERVER).aggregate(**{name: Sum(name) for name in COUNTED})
        assert {name: value or 0 for name, value in sums.items()} == {name: self.counts[name] for name in COUNTED}
        assert dict(KV.objects.using(OBSERVER).values_list("key", "value")) == self.kv

    def teardown(self) -> None:
        for actor in list(self.open):
            self.end(actor, commit=False)
        clear(OBSERVER)


TABLES = (Job, DoneJob, DeadJob)


@pytest.mark.timeout(900)  # 4,000 steps
@pytest.mark.databases("postgresql")
def test_interleaved_transactions_keep_every_invariant(database):
    # A vacuum that gives pages back locks the table for a moment, and plain reads would run into the lock timeout.
    alter_tables("SET (vacuum_truncate = false)")
    try:
        run_state_machine_as_test(
            QueueMachine,
            settings=settings(
                max_examples=int(os.environ.get("DJQUEUE_TEST_EXAMPLES", "80")),
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
        alter_tables("RESET (vacuum_truncate)")


def alter_tables(change: str) -> None:
    with connections[OBSERVER].cursor() as cursor:
        for model in TABLES:
            cursor.execute(f"ALTER TABLE {model._meta.db_table} {change}")
