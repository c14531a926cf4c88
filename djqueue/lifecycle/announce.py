"""Send the signals of a job's life and call its `on_dead`: after the commit, robustly, only if there are receivers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import transaction
from django.dispatch import Signal

from djqueue import signals
from djqueue.core import masking, registry
from djqueue.core.durations import instant
from djqueue.core.log import logger
from djqueue.core.payload import decode, decode_typed
from djqueue.core.records import Inserted, JobRecord, NewJob, Settled, Settlement, record_of
from djqueue.fields import read_typed, words
from djqueue.sql import statements
from djqueue.states import ENDED, Outcome, Status

from . import outcome_log
from .failure import describe

if TYPE_CHECKING:
    from .claim import ClaimedJob


# The status in the record of a job after each outcome.
_STATUS = {
    Outcome.DONE: Status.DONE,
    Outcome.DEAD: Status.DEAD,
    Outcome.CANCELLED: Status.CANCELLED,
    Outcome.RETRYING: Status.SCHEDULED,
}


@dataclass(frozen=True, slots=True)
class RelayedSignal:
    """A signal about a job, to be sent by another process."""

    name: str  # in djqueue.signals
    record: JobRecord


@dataclass(frozen=True, slots=True)
class RelayedOutcome:
    """The outcome of an attempt, whose signals are to be sent by another process."""

    record: JobRecord
    settlement: Settlement
    answer: Settled


Relayed = RelayedSignal | RelayedOutcome
Relay = Callable[[Relayed], None]
_relay: Relay | None = None

# Called in the enqueuer's thread with the jobs that it has created, before they commit; the test kit adds some.
enqueue_observers: list[Callable[[list[JobRecord]], None]] = []


def relay_to(relay: Relay | None) -> None:
    """Pass signals to another process: this one has not imported the project, and so has no receivers."""
    global _relay
    _relay = relay


def send_relayed(relayed: Relayed) -> None:
    """Send the signals that another process has passed on."""
    match relayed:
        case RelayedSignal(name, record):
            _send_all(getattr(signals, name), [record])
            if name == _NAMES[signals.job_cancelled]:
                _tell_observers([record])
        case RelayedOutcome(record, settlement, answer):
            _import_task(record.id, record.task, answer.outcome)
            if has_receivers(record.task, answer.outcome):
                _ended(_reread(record.id, answer) or _known(record, settlement, answer), settlement, answer)


def enqueued(jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
    """Announce the jobs that were created; a duplicate is not announced."""
    if not jobs or not is_enqueue_announced():
        return
    created = [(job, row) for job, row in zip(jobs, inserted, strict=True) if row.created]
    for observe in list(enqueue_observers):
        observe([_new_record(job, row) for job, row in created])
    if is_listened_to(signals.job_queued):
        _after_commit(lambda: _send_all(signals.job_queued, (_new_record(job, row) for job, row in created)))


def requeued(records: Sequence[JobRecord]) -> None:
    if is_listened_to(signals.job_queued):
        _after_commit(lambda: _send_all(signals.job_queued, records))


def started(jobs: Sequence[ClaimedJob]) -> None:
    """Announce the start of an attempt."""
    if signals.job_started.receivers:
        _after_commit(lambda: _send_all(signals.job_started, map(claimed_record, jobs)))


def settled(job: ClaimedJob, item: Settlement, answer: Settled, error: BaseException | None = None) -> None:
    """Announce the outcome of an attempt; `error` is what the task raised, if it is known."""
    if has_receivers(job.task, answer.outcome):
        _after_commit(lambda: _ended(settled_record(job, item, answer), item, answer, error))


def reaped(row: Any, item: Settlement, answer: Settled) -> None:
    """Announce the outcome of an attempt whose worker is gone."""
    if _relay is not None and answer.outcome in _SIGNALS:
        _relay(RelayedOutcome(record_of(row), item, answer))
        return
    _import_task(row.id, row.task, answer.outcome)
    if has_receivers(row.task, answer.outcome):
        _after_commit(lambda: _ended(_reread(row.id, answer) or _known(record_of(row), item, answer), item, answer))


def cancelled(records: Sequence[JobRecord]) -> None:
    if is_listened_to(signals.job_cancelled):
        _after_commit(lambda: _send_all(signals.job_cancelled, records))
    if _relay is None and (observed := [record for record in records if _observer(record) is not None]):
        _after_commit(lambda: _tell_observers(observed))


def _ended(record: JobRecord, item: Settlement, answer: Settled, error: BaseException | None = None) -> None:
    _send_outcome(record, item, answer)
    if answer.outcome in ENDED:
        _tell_observer(record, error)


def _send_outcome(record: JobRecord, item: Settlement, answer: Settled) -> None:
    attempt = answer.attempts
    if answer.outcome == Outcome.DONE:
        _send(signals.job_completed, record, attempt, result=record.result)
        return
    if answer.outcome == Outcome.CANCELLED:
        _send(signals.job_cancelled, record, attempt, error=item.error)
        return
    if answer.outcome == Outcome.RETRYING or registry.find(record.task) is not None:
        _send(signals.job_failed, record, attempt, error=item.error)
    if answer.outcome == Outcome.RETRYING:
        _send(signals.job_retrying, record, attempt + 1, error=item.error, delay=item.delay)
    else:
        _send(signals.job_dead_letter, record, attempt, error=item.error)
        _call_on_dead(record, attempt)


def is_listened_to(signal: Signal) -> bool:
    """Return whether the signal has receivers, here or perhaps in the process to which it is relayed."""
    return bool(signal.receivers) or _relay is not None


def is_enqueue_announced() -> bool:
    """Return whether anything wants to know of enqueued jobs."""
    return bool(enqueue_observers) or is_listened_to(signals.job_queued)


def has_receivers(task: str, outcome: Outcome) -> bool:
    """Return whether the signals of this outcome have receivers, or the task has a callback for it."""
    if outcome in ENDED and registry.observer(task) is not None:
        return True
    return calls_the_project(task, outcome)


def calls_the_project(task: str, outcome: Outcome) -> bool:
    """Return whether announcing the outcome calls code of the project; otherwise, at most a line is logged."""
    if any(signal.receivers for signal in _SIGNALS.get(outcome, ())):
        return True
    observer = registry.observer(task) if outcome in ENDED else None
    if observer is not None and observer.is_watched():
        return True
    return outcome == Outcome.DEAD and registry.options(task).on_dead is not None


_NAMES: dict[Signal, str] = {value: name for name, value in vars(signals).items() if isinstance(value, Signal)}
_SIGNALS: dict[Outcome, tuple[Signal, ...]] = {
    Outcome.DONE: (signals.job_completed,),
    Outcome.CANCELLED: (signals.job_cancelled,),
    Outcome.RETRYING: (signals.job_failed, signals.job_retrying),
    Outcome.DEAD: (signals.job_failed, signals.job_dead_letter),
}


def _send_all(signal: Signal, records: Iterable[JobRecord]) -> None:
    for record in records:
        if _relay is not None:
            _relay(RelayedSignal(_NAMES[signal], record))
        else:
            _send(signal, record, record.attempts)


def _send(signal: Signal, record: JobRecord, attempt: int, **extra: Any) -> None:
    signal.send_robust(
        sender=registry.find(record.task), job=record, name=record.task, id=record.id, attempt=attempt, **extra
    )


def _observer(record: JobRecord) -> registry.Observer | None:
    """Return what is told that a job has ended; a job made through `django.tasks` may need its task imported."""
    if registry.DJANGO_TASKS in record.headers:
        try:
            registry.find_or_import(record.task, record.headers)
        except registry.IMPORT_ERRORS as error:
            logger.warning("task cannot be imported job=%s task=%s exception=%r", record.id, record.task, error)
    return registry.observer(record.task)


def _import_task(job_id: UUID, task: str, outcome: Outcome) -> None:
    """Import the task of a job that ended while another process held it, if that is needed to announce the end."""
    if outcome in ENDED and registry.find(task) is None and (record := statements().get(job_id)) is not None:
        _observer(record)


def _tell_observers(records: Iterable[JobRecord]) -> None:
    for record in records:
        if _observer(record) is not None:
            _tell_observer(record)


def _tell_observer(record: JobRecord, error: BaseException | None = None) -> None:
    if (observer := registry.observer(record.task)) is not None:
        try:
            observer.finished(record, outcome_log.loggable(record.task, error))
        except Exception:
            logger.exception("announcing the end of a job failed job=%s task=%s", record.id, record.task)


def _call_on_dead(record: JobRecord, attempts: int) -> None:
    callback = registry.options(record.task).on_dead
    if callback is not None:
        try:
            answer = callback(record, attempts)
            if inspect.isawaitable(answer):
                async_to_sync(_wait_for)(answer)
        except Exception as error:
            failure = describe(error, masking.secrets(record.task, record.args, record.kwargs))
            details = (record.id, record.task, record.queue, failure.exception)
            logger.failure(
                "on_dead failed job=%s task=%s queue=%s exception=%s",
                *details,
                error=outcome_log.loggable(record.task, error),
                text=failure.traceback,
            )


async def _wait_for(answer: Awaitable[object]) -> None:
    await answer


def _after_commit(send: Callable[[], object]) -> None:
    database = statements()
    if not database.in_caller_transaction():
        try:
            send()
        except Exception:
            logger.exception("sending signals failed")  # the change itself is committed
    elif database.connection.in_atomic_block:
        transaction.on_commit(send, using=database.alias, robust=True)
    # With autocommit disabled by hand it is not known whether the change will be committed: nothing is sent.


def _new_record(job: NewJob, row: Inserted) -> JobRecord:
    return JobRecord(
        id=row.id,
        task=job.task,
        queue=job.queue,
        status=row.status,
        args=decode_typed(job.args),
        kwargs=decode_typed(job.kwargs),
        headers=decode(job.headers),
        priority=job.priority,
        attempts=0,
        max_attempts=job.max_attempts,
        run_at=row.run_at,
        enqueued_at=row.enqueued_at,
        dedup_key=job.dedup_key,
        schedule=job.schedule,
        slot=job.slot,
    )


def claimed_record(job: ClaimedJob) -> JobRecord:
    """Return the record of a job that is being run, without a query."""
    return record_of(
        job,
        args=read_typed(job.row.args),
        kwargs=read_typed(job.row.kwargs),
        status=Status.CLAIMED,
        attempts=job.attempt,
        progress=None,
        started_at=instant(job.row.started_at),
        last_attempted_at=job.claimed_at,
        dedup_key=job.row.dedup_key,
        worker_ids=words(job.row.worker_ids),
        schedule=job.row.schedule,
        slot=job.slot,
    )


def settled_record(job: ClaimedJob, item: Settlement, answer: Settled) -> JobRecord:
    """Return the job after an attempt, also if its row is not kept."""
    stored = _reread(job.id, answer) if calls_the_project(job.task, answer.outcome) else None
    return stored or _known(claimed_record(job), item, answer)


def _reread(job_id: UUID, answer: Settled) -> JobRecord | None:
    """Return the job's row with all its history, unless it is not kept or has changed in the meantime."""
    record = statements().get(job_id)
    as_it_was = record is not None and record.attempts == answer.attempts and record.status != Status.CLAIMED
    return record if as_it_was else None


def _known(record: JobRecord, item: Settlement, answer: Settled) -> JobRecord:
    """Return what is known about a settled job without its row."""
    return replace(
        record,
        status=_STATUS[answer.outcome],
        lease_expires_at=None,
        result=read_typed(item.result),
        last_error=item.error or record.last_error,
        errors=[decode(item.entry)] if item.entry else record.errors,
    )
