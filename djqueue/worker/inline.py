"""Run claimed jobs in the calling thread and on its connections, also inside the transaction of a TestCase.

Used by EAGER, by `djqueue.testing`, and by a burst inside a transaction. The jobs go through the executor of a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from djqueue.core import registry
from djqueue.core.log import logger
from djqueue.core.records import JobRecord, Renew, Settled, Settlement
from djqueue.exceptions import DjqueueError, LeaseLost, Retry, TaskTimeout
from djqueue.lifecycle import announce, lease, outcome_log, settle, unknown_tasks
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.lifecycle.claim_by_id import claim_by_id
from djqueue.sql import statements
from djqueue.states import Outcome

from .process import executor
from .process.in_hand import UNKNOWN, Holding

# What ends a job and not the process, although it is no Exception.
ENDS_A_JOB = (Exception, TaskTimeout, SystemExit, GeneratorExit, asyncio.CancelledError)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that has been settled."""

    job: ClaimedJob
    settlement: Settlement
    settled: Settled
    error: BaseException | None  # what the task raised

    def record(self) -> JobRecord | None:
        """Return the job as it is now, also if it is not kept; None if its row was taken from the task."""
        record = statements().get(self.job.id)
        if record is None and self.settled.outcome is not Outcome.LOST:
            return announce.settled_record(self.job, self.settlement, self.settled)
        return record

    def raise_error(self) -> None:
        """Raise what the task raised, if the attempt failed.

        A Retry that leads to another attempt is no failure: the task asked for it.
        """
        if self.settlement.unknown:
            similar = ", ".join(unknown_tasks.similar(self.job.task))
            raise DjqueueError(
                f"{unknown_tasks.NO_TASK}: {self.job.task!r}. Causes: {unknown_tasks.CAUSES}."
                + (f" Similar names: {similar}." if similar else "")
            )
        if self.settled.outcome is Outcome.LOST:
            raise LeaseLost(f"Job {self.job.id} of task {self.job.task} was taken from its task while it ran.")
        retrying = self.settled.outcome is Outcome.RETRYING and not isinstance(self.error, Retry)
        dead = self.settled.outcome is Outcome.DEAD
        if self.error is not None and (retrying or dead):
            raise self.error
        if dead:
            raise DjqueueError(f"Job {self.job.id} of task {self.job.task} could not run: {self.settlement.error}")


def run_at_once(ids: Iterable[UUID]) -> None:
    """Run these jobs, as far as they wait and their tasks are registered here. Raise the error of the first to fail."""
    attempts = [run(job) for job in filter(None, map(_claim_known, ids))]
    for attempt in attempts:
        attempt.raise_error()


def _claim_known(job_id: UUID) -> ClaimedJob | None:
    with as_committed():
        return claim_by_id(job_id, lambda task: registry.find(task) is not None)


def run(job: ClaimedJob) -> Attempt:
    """Run and settle a claimed job; never raise what the task raises, except what ends the process."""
    start, holding = time.monotonic(), Holding(job, executor.kind_of(job))
    with as_committed():
        try:
            settlement = _run_task(holding)
            if holding.progress is not None:
                lease.renew_many([Renew(id=job.id, token=job.token, progress=holding.progress)])
        except BaseException:
            settle.settle_one(job, settle.release(job))
            raise
        try:
            settled = settle.settle_one(job, settlement, holding.error)
        except LeaseLost:
            settled = Settled(Outcome.LOST)
    outcome_log.write(job, job.attempt, settlement, settled, time.monotonic() - start, holding.error)
    if holding.error is not None and not isinstance(holding.error, ENDS_A_JOB):
        raise holding.error
    return Attempt(job, settlement, settled, holding.error)


def _run_task(holding: Holding) -> Settlement:
    if holding.kind is UNKNOWN:
        return unknown_tasks.settlement(holding.job)
    open_now = [connection for connection in _open_connections() if connection.in_atomic_block]
    savepoints = [(connection, connection.savepoint(), len(connection.run_on_commit)) for connection in open_now]
    settlement = _call(holding)
    for connection, savepoint, callbacks in savepoints:
        if holding.error is not None and _is_aborted(connection):
            _roll_back(connection, str(savepoint), callbacks)
            continue
        try:
            connection.savepoint_commit(str(savepoint))
        except DatabaseError as error:
            _roll_back(connection, str(savepoint), callbacks)
            raise TransactionManagementError(
                f"A database error that the task {holding.job.task} caught has aborted the transaction that surrounds "
                "the job, such as that of a TestCase. Wrap the statement in transaction.atomic()."
            ) from error
    return settlement


def _roll_back(connection: BaseDatabaseWrapper, savepoint: str, callbacks: int) -> None:
    """Undo what an error has left of the transaction since the savepoint, when there were so many on_commit calls."""
    connection.needs_rollback = False
    connection.savepoint_rollback(savepoint)
    del connection.run_on_commit[callbacks:]


def _call(holding: Holding) -> Settlement:
    if holding.coroutine:
        return async_to_sync(executor.acall)(holding, executor.timeout_of(holding))
    return executor.call(holding)


def _is_aborted(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the transaction accepts no further statements."""
    return connection.needs_rollback or not connection.is_usable()


@contextmanager
def as_committed() -> Iterator[None]:
    """Call the on_commit functions of the block at its end where the only open transaction is that of a TestCase.

    Without the TestCase they would be called then too. Signals and `on_dead` are among them.
    """
    before = {connection.alias: len(connection.run_on_commit) for connection in _open_connections()}
    yield
    for connection in filter(_is_of_testcase, _open_connections()):
        _call_on_commit(connection, before.get(connection.alias, 0))


def _call_on_commit(connection: BaseDatabaseWrapper, start: int) -> None:
    """Call the on_commit functions from a place in the list, each followed by those that it registers."""
    callbacks: list[Any] = connection.run_on_commit[start:]
    del connection.run_on_commit[start:]
    for _, callback, robust in callbacks:
        try:
            callback()
        except Exception:
            if not robust:
                raise
            logger.exception("on_commit function failed")
        _call_on_commit(connection, start)


def _is_of_testcase(connection: BaseDatabaseWrapper) -> bool:
    blocks: list[Any] = connection.atomic_blocks
    return bool(blocks) and all(getattr(block, "_from_testcase", False) for block in blocks)


def _open_connections() -> list[BaseDatabaseWrapper]:
    return [connection for connection in connections.all(initialized_only=True) if connection.connection is not None]
