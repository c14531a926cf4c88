"""Settle leased jobs. Every settlement names the job and its claim token, and "0 rows" is a valid result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from djqueue.conf import config
from djqueue.core import masking, payload, registry, retries
from djqueue.core.durations import Duration, seconds
from djqueue.core.log import logger
from djqueue.core.options import resolve
from djqueue.core.records import Settled, Settlement
from djqueue.core.retries import RetryPolicy
from djqueue.core.tags import UnstorableResult
from djqueue.exceptions import InvalidOption, LeaseLost, TaskTimeout
from djqueue.sql import Statements, statements
from djqueue.sql.connection import batches_of
from djqueue.states import Outcome, Verdict

from . import announce, limits, outcome
from .admit import hand_on
from .failure import Failure, class_name, describe, describe_value

if TYPE_CHECKING:
    from .claim import ClaimedJob

GROUP = 1000  # jobs in one statement

_warned: set[str] = set()  # tasks of which a result could not be stored


def ack(job: ClaimedJob, result: Any = None) -> Settlement:
    """Return the settlement of a job that succeeded. A result that cannot be stored is replaced by a marker."""
    text = None
    if result is not None:
        try:
            text = payload.encode_result(result, config().max_payload_size)
        except (Exception, TaskTimeout) as problem:  # the work is done: no result may cause another run
            text = _marker(job, result, problem)
    return _settlement(job, Verdict.ACK, result=text)


def nack(job: ClaimedJob, error: BaseException | str, *, delay: Duration | None = None) -> Settlement:
    """Return the settlement of a failed attempt. The job is retried, dead, or cancelled if a cancel was requested."""
    policy = retry_policy(job.row.retry, job.task, job.queue)
    wait = (
        retries.spread_delay(policy, job.attempt, config().backoff_jitter) if delay is None else seconds(delay, "delay")
    )
    final = outcome.is_final(policy, job.attempt, job.max_attempts)
    return _failed(job, Verdict.NACK, describe(error, secrets_of(job)), delay=wait, final=final)


def dead_letter(job: ClaimedJob, reason: BaseException | str, *, unknown: bool = False) -> Settlement:
    """Return the settlement of a job that can never succeed; `unknown` if its task is not registered."""
    return _failed(job, Verdict.DEAD_LETTER, describe(reason, secrets_of(job)), unknown=unknown)


def cancel(job: ClaimedJob) -> Settlement:
    """Return the settlement of a job that stopped because a cancel was requested."""
    return _settlement(job, Verdict.CANCEL)


def snooze(job: ClaimedJob, delay: Duration, *, unknown: bool = False) -> Settlement:
    """Return the settlement of a job that runs again after `delay`; `unknown` if its task is not registered."""
    return _settlement(job, Verdict.SNOOZE, delay=seconds(delay, "delay"), unknown=unknown)


def throttle(job: ClaimedJob, delay: Duration) -> Settlement:
    """Return the settlement of a job that runs again after `delay`, for which its limit key is held."""
    wait = seconds(delay, "delay")
    return _settlement(job, Verdict.SNOOZE, delay=wait, hold=wait)


def release(job: ClaimedJob) -> Settlement:
    """Return the settlement of a job that may be claimed again immediately."""
    return _settlement(job, Verdict.RELEASE)


def retry_policy(stored: str | None, task: str, queue: str) -> RetryPolicy:
    """Return the retry policy: the call's, then the task's, then the queue's back-off."""
    call = None
    if stored is not None:
        try:
            call = retries.load(stored)
        except (InvalidOption, ValueError, KeyError, TypeError):
            logger.warning("retry policy cannot be read, the task's is used task=%s policy=%.200r", task, stored)
    return resolve("retry", queue, registry.options(task), call) or config().backoff_for(queue)


def settle_one(job: ClaimedJob, settlement: Settlement, error: BaseException | None = None) -> Settled:
    """Settle a job and announce it, with what the task raised. Raise LeaseLost if its token is no longer valid."""
    database = statements()
    while _hold_keys(database, [settlement]):
        continue
    while True:
        try:
            [settled] = database.settle([outcome.decide(settlement)])
            break
        except Exception as refusal:
            if database.in_caller_transaction() or not _is_refused(database, [settlement], refusal):
                raise
            if not _shorten_result(settlement):
                raise
    if settled.outcome == Outcome.LOST:
        raise LeaseLost(f"The lease on job {settlement.id} is lost; {settlement.verdict} changed nothing.")
    announce.settled(job, settlement, settled, error)
    hand_on([settlement.limit_key])
    return settled


def settle_many(settlements: Sequence[Settlement]) -> list[Settled | Exception]:
    """Settle jobs in few statements. A job that the database refuses because of its data fails alone.

    A result that the database refuses is replaced by a marker: the job is done all the same.
    A row that another transaction has locked does not delay the others: it is reported as LOCKED. So are the jobs that
    were not reached when the connection failed after a part had been settled.
    """
    database = statements()
    if late := _hold_keys(database, settlements):
        # A transaction that was left open must not hold up the jobs of other keys.
        ready = [item for item in settlements if not item.hold or item.limit_key not in late]
        settled = iter(settle_many(ready))
        return [
            Settled(Outcome.LOCKED) if item.hold and item.limit_key in late else next(settled) for item in settlements
        ]
    answers: list[Settled | Exception] = []
    groups = list(batches_of(settlements, _characters, GROUP))
    while groups:
        group = groups.pop(0)
        try:
            answers += _acked(database, group) or database.settle([outcome.decide(item) for item in group], wait=False)
        except Exception as error:
            if database.in_caller_transaction():
                raise
            refused = _is_refused(database, group, error)
            if refused and len(group) > 1:
                half = len(group) // 2
                groups[:0] = [group[:half], group[half:]]
            elif refused and _shorten_result(group[0]):
                groups.insert(0, group)
            elif refused:
                answers.append(error)
            elif answers:
                return answers + [Settled(Outcome.LOCKED)] * (len(settlements) - len(answers))
            else:
                raise
    return answers


def _hold_keys(database: Statements, settlements: Sequence[Settlement]) -> set[str]:
    """Hold the limit keys of throttled jobs before these are settled: nothing of the key is admitted in between.

    Return the keys that another transaction has kept locked.
    """
    holds = [(item.limit_key, item.hold) for item in settlements if item.hold and item.limit_key is not None]
    if not holds:
        return set()
    late = limits.hold_many(database, holds)
    for item in settlements:
        if item.limit_key not in late:
            item.hold = 0.0  # or a row that has to be tried again would make the hold longer
    return late


def _acked(database: Statements, group: Sequence[Settlement]) -> list[Settled]:
    """Acknowledge a group by the fastest way that the database has; return nothing if that was not possible.

    Not in a caller's transaction, which ends with the first error.
    """
    if any(item.verdict is not Verdict.ACK or not item.task for item in group):
        return []
    if database.in_caller_transaction() or not database.ack(group):
        return []
    answers = {attempt: Settled(Outcome.DONE, attempt) for attempt in {item.attempt for item in group}}
    return [answers[item.attempt] for item in group]


def _is_refused(database: Statements, group: Sequence[Settlement], error: Exception) -> bool:
    return database.is_refusal(error) or database.is_too_large(error, _most_bytes(group))


def _shorten_result(item: Settlement) -> bool:
    """Replace a result that the database refuses by a marker, and a marker by nothing; False if there is no result."""
    if item.result is None:
        return False
    logger.warning("result refused by the database, a marker is stored instead job=%s", item.id)
    kind = class_name(payload.decode_typed(item.result))
    marker = UnstorableResult(kind, f"{len(item.result)} characters of JSON", "refused by the database")
    text = payload.encode_typed(marker, "result")
    item.result = None if kind == class_name(marker) else text
    return True


def _marker(job: ClaimedJob, result: Any, problem: BaseException) -> str:
    """Return the text that is stored in place of a result, and warn once per task."""
    kind = class_name(result)
    if job.task not in _warned:
        _warned.add(job.task)
        logger.warning(
            "result cannot be stored, a marker is stored instead job=%s task=%s type=%s", job.id, job.task, kind
        )
    secrets = secrets_of(job)
    marker = UnstorableResult(kind, describe_value(result, secrets), describe(problem, secrets).message)
    return payload.encode_typed(marker, "result")


def _most_bytes(group: Sequence[Settlement]) -> int:
    """Return how many bytes the statement of a group may have had; of a single item, how many it had at least.

    Splitting a group without need costs a statement, but refusing an item without need discards its outcome.
    """
    size = sum(
        len(text.encode(errors="replace")) for item in group for text in (item.result, item.error, item.entry) if text
    )
    return 2 * size if len(group) > 1 else size  # drivers escape quotes


def _characters(item: Settlement) -> int:
    return len(item.result or "") + len(item.error) + len(item.entry)


def secrets_of(job: ClaimedJob) -> list[str]:
    """Return the texts that must be masked in an error of this job."""
    if not registry.options(job.task).sensitive:
        return []
    for decode in (payload.decode_typed, payload.decode):  # the latter for a row with an invalid tag
        try:
            return masking.secrets(job.task, decode(job.row.args), decode(job.row.kwargs))
        except (ValueError, RecursionError):
            pass  # try the next
    return [job.row.args, job.row.kwargs]  # written by hand, and not JSON


def _failed(job: ClaimedJob, verdict: Verdict, failure: Failure, **fields: Any) -> Settlement:
    entry = failure.entry(at=job.now(), attempt=job.attempt, worker=job.worker, duration=job.elapsed)
    return _settlement(job, verdict, error=failure.message, entry=entry, **fields)


def _settlement(job: ClaimedJob, verdict: Verdict, **fields: Any) -> Settlement:
    return Settlement(
        id=job.id,
        token=job.token,
        verdict=verdict,
        keep_done=resolve("keep_done", job.queue) > 0,
        wait=job.waited,
        run=job.elapsed,
        task=job.task,
        queue=job.queue,
        attempt=job.attempt,
        limit_key=job.row.limit_key,
        **fields,
    )
