"""Two real PostgreSQL connections with interleaved open transactions, driven at random.

Invariants, whatever the interleaving:
- every committed job is in exactly one table;
- of each claim at most one verdict is accepted, and none after the claim was lost;
- what was accepted and committed is what the rows say;
- the counters are the number of committed outcomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from django.db.models import Sum
from django.test import override_settings
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import djqueue
from djqueue.models import DeadJob, DoneJob, Job, Throughput
from tests.app.tasks import add
from tests.conftest import clear

ACTORS = ["postgresql", "postgresql_bound"]
OBSERVER = "postgresql_pool"
SQLSTATE_LOCK_NOT_AVAILABLE = "55P03"

actors = st.sampled_from(ACTORS)
picks = st.integers(0, 1000)


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

    @rule(actor=actors, max_attempts=st.integers(1, 3), delay=st.sampled_from([0, 3600]))
    def enqueue(self, actor: str, max_attempts: int, delay: int) -> None:
        handle = self.act(actor, lambda: add.using(max_attempts=max_attempts, delay=delay).enqueue(1))
        if handle:
            self.when_committed(actor, lambda: self.jobs.add(handle.id))

    @rule(actor=actors, lease=st.sampled_from([0, 60]), limit=st.integers(1, 3))
    def claim(self, actor: str, lease: int, limit: int) -> None:
        claimed = self.act(actor, lambda: djqueue.Queue("default").claim(limit, lease=lease)) or []
        assert len(claimed) <= limit
        assert not {job.token for job in claimed} & self.spent
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
            self.when_committed(actor, lambda: self.settled(job, verdict))

    def settled(self, job: djqueue.ClaimedJob, verdict: str) -> None:
        assert (job.id, job.token) not in self.spent, "two verdicts on one claim were committed"
        self.spent.add((job.id, job.token))
        died = verdict == "dead_letter" or (verdict == "nack" and job.attempt >= job.max_attempts)
        self.counts["failed"] += verdict in ("nack", "dead_letter")
        self.counts["done"] += verdict == "ack"
        self.counts["dead"] += died
        if verdict == "ack" or died:
            assert job.id not in self.ends, "a job ended twice"
            self.ends[job.id] = "dead" if died else "done"

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
            return  # the other actor's verdict committed between our look and our reap
        self.spent.add((row.pk, row.token))
        self.counts["failed"] += 1
        if row.attempts >= row.max_attempts:
            self.counts["dead"] += 1
            self.ends[row.pk] = "dead"

    @rule(actor=actors)
    def promote(self, actor: str) -> None:
        self.act(actor, djqueue.maintenance.promote)

    @invariant()
    def rows_agree(self) -> None:
        tables = {model: set(model.objects.using(OBSERVER).values_list("pk", flat=True)) for model in TABLES}
        assert sum(map(len, tables.values())) == len(self.jobs)
        assert set().union(*tables.values()) == self.jobs
        assert tables[DoneJob] == {job for job, end in self.ends.items() if end == "done"}
        assert tables[DeadJob] == {job for job, end in self.ends.items() if end == "dead"}
        sums = Throughput.objects.using(OBSERVER).aggregate(done=Sum("done"), failed=Sum("failed"), dead=Sum("dead"))
        assert {name: value or 0 for name, value in sums.items()} == {
            name: self.counts[name] for name in ("done", "failed", "dead")
        }

    def teardown(self) -> None:
        for actor in list(self.open):
            self.end(actor, commit=False)
        clear(OBSERVER)


TABLES = (Job, DoneJob, DeadJob)


@pytest.mark.databases("postgresql")
def test_interleaved_transactions_keep_every_invariant(database):
    try:
        run_state_machine_as_test(
            QueueMachine,
            settings=settings(
                max_examples=60,
                stateful_step_count=40,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for actor in ACTORS:
            connections[actor].close()
