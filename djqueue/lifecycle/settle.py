"""Settle leased jobs: every verdict names the job and its claim token, and "0 rows" is an answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from djqueue import masking, payload, registry, retries
from djqueue.conf import config
from djqueue.durations import Duration, seconds
from djqueue.exceptions import InvalidOption, LeaseLost
from djqueue.records import Settled, Settlement
from djqueue.retries import NoRetry, RetryPolicy
from djqueue.sql import statements
from djqueue.states import Outcome, Verdict

from . import announce
from .failure import Failure, describe

if TYPE_CHECKING:
    from .claim import ClaimedJob

logger = logging.getLogger("djqueue")


def ack(job: ClaimedJob, result: Any = None) -> Settlement:
    """It succeeded; raises InvalidPayload for a result that cannot be stored."""
    return _settlement(job, Verdict.ACK, result=payload.encode_result(result, config().max_payload_size))


def nack(job: ClaimedJob, error: BaseException | str, *, delay: Duration | None = None) -> Settlement:
    """The attempt failed: the row decides between the next attempt, death and a cancel that was asked for."""
    policy = retry_policy(job.row.retry, job.task, job.queue)
    wait = (
        retries.spread_delay(policy, job.attempt, config().backoff_jitter) if delay is None else seconds(delay, "delay")
    )
    return _failed(job, Verdict.NACK, describe(error, _secrets(job)), delay=wait, final=isinstance(policy, NoRetry))


def dead_letter(job: ClaimedJob, reason: BaseException | str, *, unknown: bool = False) -> Settlement:
    """It can never succeed; `unknown` when that is because no task has its name."""
    return _failed(job, Verdict.DEAD_LETTER, describe(reason, _secrets(job)), unknown=unknown)


def cancel(job: ClaimedJob) -> Settlement:
    return _settlement(job, Verdict.CANCEL)


def snooze(job: ClaimedJob, delay: Duration, *, unknown: bool = False) -> Settlement:
    """Come back later; `unknown` when no task here has its name, which is remembered."""
    return _settlement(job, Verdict.SNOOZE, delay=seconds(delay, "delay"), unknown=unknown)


def release(job: ClaimedJob) -> Settlement:
    return _settlement(job, Verdict.RELEASE)


def retry_policy(stored: str | None, task: str, queue: str) -> RetryPolicy:
    """The call's policy, else the task's, else the queue's back-off."""
    if stored is not None:
        try:
            return retries.load(stored)
        except (InvalidOption, ValueError, KeyError, TypeError):
            logger.warning("retry policy cannot be read, the task's is used task=%s policy=%.200r", task, stored)
    return registry.options(task).retry or config().backoff_for(queue)


def settle_one(job: ClaimedJob, settlement: Settlement) -> Settled:
    """Settle a job and announce it; raises LeaseLost when it is no longer ours."""
    [settled] = statements().settle([settlement])
    if settled.outcome == Outcome.LOST:
        raise LeaseLost(f"job {settlement.id} is no longer ours; {settlement.verdict} changed nothing")
    announce.settled(job, settlement, settled)
    return settled


def settle_many(settlements: Sequence[Settlement]) -> list[Settled | Exception]:
    """Settle jobs in one statement; one that the database refuses for its data stands alone and fails alone."""
    if not settlements:
        return []
    database = statements()
    try:
        return list(database.settle(settlements))
    except Exception as error:
        if database.in_caller_transaction() or not database.is_refusal(error):
            raise
        if len(settlements) == 1:
            return [error]
        half = len(settlements) // 2
        return settle_many(settlements[:half]) + settle_many(settlements[half:])


def _secrets(job: ClaimedJob) -> list[str]:
    """What an error of this job must not tell."""
    try:
        return masking.secrets(job.task, job.args, job.kwargs) if registry.options(job.task).sensitive else []
    except (ValueError, RecursionError):
        return [job.row.args, job.row.kwargs]  # written by hand, and not JSON


def _failed(job: ClaimedJob, verdict: Verdict, failure: Failure, **fields: Any) -> Settlement:
    entry = failure.entry(at=job.now(), attempt=job.attempt, worker=job.worker, duration=job.elapsed)
    return _settlement(job, verdict, error=failure.message, entry=entry, **fields)


def _settlement(job: ClaimedJob, verdict: Verdict, **fields: Any) -> Settlement:
    return Settlement(
        id=job.id,
        token=job.token,
        verdict=verdict,
        keep_done=config().keep_done_for(job.queue) > 0,
        wait=job.waited,
        run=job.elapsed,
        **fields,
    )
