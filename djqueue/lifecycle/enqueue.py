"""Create jobs, on the caller's connection and in the caller's transaction."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any
from uuid import UUID

from django.db import DatabaseError

from djqueue import payload, registry, retries, signals
from djqueue.conf import MAX_KV_VALUE_SIZE, config, first
from djqueue.durations import seconds
from djqueue.exceptions import DuplicateJob, InvalidOption, InvalidPayload, KvValueTooLarge
from djqueue.options import MAX_NAME, CallOptions, check_task_name
from djqueue.records import Inserted, NewJob
from djqueue.sql import Statements, statements
from djqueue.states import DedupUntil
from djqueue.uuid7 import uuid7

from . import announce

DEFAULT_QUEUE = "default"
BATCH_CHARACTERS = 2_000_000
BATCH = 1000  # rows per INSERT: cheap round trips, within every database's limit of parameters


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that is known to be storable, and the kv to write with it."""

    job: NewJob
    kv: Mapping[str, str] = field(default_factory=dict)


def prepare(task: str, args: Sequence[Any], kwargs: Mapping[str, Any], call: CallOptions) -> Prepared:
    """Resolve the options and encode the arguments; raises before anything is written."""
    check_task_name(task)
    options = registry.options(task)
    settings = config()
    queue = first(call.queue, options.queue, DEFAULT_QUEUE)
    own = settings.queue(queue)
    encoded = encode_arguments(task, args, kwargs, call.headers or {})
    return Prepared(
        NewJob(
            id=uuid7() if call.id is None else _uuid(call.id),
            own_id=call.id is not None,
            task=task,
            queue=queue,
            priority=first(call.priority, options.priority, own.priority, settings.priority),
            max_attempts=first(call.max_attempts, options.max_attempts, own.max_attempts, settings.max_attempts),
            args=encoded["args"],
            kwargs=encoded["kwargs"],
            headers=encoded["headers"],
            delay=0.0 if call.delay is None else seconds(call.delay, "delay"),
            run_at=call.run_at,
            dedup_key=call.dedup_key,
            dedup_until=first(call.dedup_until, options.dedup_until, DedupUntil.CLAIMED.value),
            retry=None if call.retry is None else retries.dump(call.retry),
            timeout=None if call.timeout is None else seconds(call.timeout, "timeout"),
            lease=None if call.lease is None else seconds(call.lease, "lease"),
        ),
        {key: encode_kv(key, value) for key, value in sorted((call.kv or {}).items())},
    )


def enqueue(prepared: Prepared) -> Inserted:
    """Insert one job."""
    inserted = statements().insert([prepared.job], prepared.kv)
    announce.enqueued([prepared.job], inserted)
    return inserted[0]


def enqueue_many(make: Callable[[], Iterable[NewJob]], *, again: bool) -> list[Inserted]:
    """Insert jobs as they are made, all or none, in the caller's transaction or in one of ours.

    `again` tells whether they can be made a second time, should the database ask for that.
    """
    database = statements()
    jobs = iter(make())
    head = list(islice(jobs, 1))
    if not head:
        return []  # without a word to the database

    def insert_all() -> tuple[list[NewJob], list[Inserted]]:
        nonlocal head, jobs
        if not head:  # not the first try
            jobs = iter(make())
        given, head = chain(head, jobs), []
        return _insert_all(database, given)

    run = database.own_transaction if again else database.in_transaction
    heard, inserted = run(insert_all)
    announce.enqueued(heard, inserted)
    return inserted


def _insert_all(database: Statements, jobs: Iterable[NewJob]) -> tuple[list[NewJob], list[Inserted]]:
    """Insert batch by batch, so that memory is bounded by a batch and not by the whole.

    What went in before a bad job is taken back by name: a savepoint would cost every caller.
    """
    inserted: list[Inserted] = []
    heard: list[NewJob] = []
    try:
        for batch in _batches(jobs):
            inserted += _insert_batch(database, batch, len(inserted))
            heard += batch if announce.is_listened_to(signals.job_queued) else []
    except Exception:
        created = [row.id for row in inserted if row.created]
        with suppress(DatabaseError):  # the transaction is lost already, and these with it
            for start in range(0, len(created), BATCH):
                database.discard(created[start : start + BATCH])
        raise
    return heard, inserted


def _batches(jobs: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """Bounded by number and by size: a statement must fit into a database's largest packet."""
    batch: list[NewJob] = []
    size = 0
    for job in jobs:
        batch.append(job)
        size += len(job.args) + len(job.kwargs) + len(job.headers)
        if len(batch) == BATCH or size > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _insert_batch(database: Statements, batch: list[NewJob], offset: int) -> list[Inserted]:
    """Insert one batch: equal dedup keys collapse to the first, and keys are taken in order, against deadlocks."""
    if any(job.own_id for job in batch):
        # Ids that were not made here do not tell the order of the calls.
        batch = [replace(job, place=position / 1e6) for position, job in enumerate(batch)]
    firsts: dict[object, NewJob] = {}
    ids: set[UUID] = set()
    for position, job in enumerate(batch, offset):
        if job.id in ids:
            raise DuplicateJob(job.id, f"item {position}: ")
        ids.add(job.id)
        firsts.setdefault(_place(job), job)
    ordered = sorted(firsts.values(), key=lambda job: (job.queue, job.dedup_key or ""))
    try:
        rows = dict(zip([job.id for job in ordered], database.insert(ordered, {}), strict=True))
    except DuplicateJob as error:
        position = offset + [job.id for job in batch].index(error.id)
        raise DuplicateJob(error.id, f"item {position}: ") from None
    inserted = []
    for job in batch:
        first_job = firsts[_place(job)]
        row = rows[first_job.id]
        inserted.append(row if first_job is job else replace(row, created=False))
    return inserted


def _place(job: NewJob) -> object:
    """What only one job of a batch can have."""
    return job.id if job.dedup_key is None else (job.queue, job.dedup_key)


def encode_kv(key: str, value: Any) -> str:
    """Encode a kv value, so that equal values are equal texts."""
    check_kv_key(key)
    text = payload.canonical(value, f"kv[{key!r}]")
    size = len(text.encode())
    if size > MAX_KV_VALUE_SIZE:
        raise KvValueTooLarge(size, MAX_KV_VALUE_SIZE)
    return text


def check_kv_key(key: str) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MAX_NAME:
        raise InvalidOption(f"a kv key must be a string of 1 to {MAX_NAME} characters, not {key!r:.80}")
    payload.encode(key, "a kv key")


def _uuid(value: UUID | str) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def encode_arguments(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], headers: Mapping[str, Any]
) -> dict[str, str]:
    try:
        encoded = {
            "args": payload.encode(list(args), "args"),
            "kwargs": payload.encode(dict(kwargs), "kwargs"),
            "headers": payload.encode(dict(headers), "headers"),
        }
        payload.check_size(encoded, config().max_payload_size)
    except InvalidPayload:
        # One by one, for an error that names the argument as the function does.
        labelled = dict(_label_arguments(task, args, kwargs, headers))
        texts = {label: payload.encode(value, label) for label, value in labelled.items()}
        payload.check_size(texts, config().max_payload_size)
        raise
    return encoded


def _label_arguments(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], headers: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    registered = registry.find(task)
    names = list(inspect.signature(registered.func).parameters) if registered else []
    for index, value in enumerate(args):
        name = f" ({names[index]})" if index < len(names) else ""
        yield f"{task}: args[{index}]{name}", value
    for key, value in kwargs.items():
        yield f"{task}: kwargs[{key!r}]", value
    yield f"{task}: headers", dict(headers)
