"""A burst inside the caller's transaction, such as that of a TestCase: in its thread and on its connection.

The threads and processes of a worker would not see the transaction's jobs, and what they write would not be rolled
back with it.
"""

from __future__ import annotations

import inspect
import time

from asgiref.sync import async_to_sync
from django.db import DatabaseError, connections

from djqueue.conf import config
from djqueue.core import registry
from djqueue.core.records import Settlement
from djqueue.lifecycle import outcome_log, settle, unknown_tasks
from djqueue.lifecycle.claim import claim
from djqueue.lifecycle.promote import promote
from djqueue.sql import counts, statements

from .options import Options
from .process import executor
from .process.in_hand import Holding


def run(options: Options) -> None:
    """Run the jobs that are due one after the other, in the order of claims, until none is due."""
    registry.discover()
    while True:
        promote()
        queues = options.queues or sorted(counts.live_names(statements()))
        claimed = claim({queue: 1 for queue in queues if options.consumes(queue)}, limit=1)
        if not claimed:
            return
        for job in claimed:
            start, holding = time.monotonic(), Holding(job)
            settlement = _run_job(holding)
            settled = settle.settle_one(job, settlement)
            outcome_log.write(job, job.attempt, settlement, settled, time.monotonic() - start, holding.error)


def _run_job(holding: Holding) -> Settlement:
    task = registry.find(holding.job.task)
    if task is None:
        return unknown_tasks.settlement(holding.job)
    connection = connections[config().database]
    before = str(connection.savepoint())
    settlement = _call(task, holding)
    if isinstance(holding.error, DatabaseError) or connection.needs_rollback:
        connection.needs_rollback = False  # the error has ended the transaction up to the savepoint
        connection.savepoint_rollback(before)
    else:
        connection.savepoint_commit(before)
    return settlement


def _call(task: registry.RegisteredTask, holding: Holding) -> Settlement:
    if inspect.iscoroutinefunction(task.func):
        return async_to_sync(executor.acall)(task.func, holding, executor.timeout_of(holding.job))
    return executor.call(task.func, holding, lambda work: work())
