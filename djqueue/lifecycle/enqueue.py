"""Create jobs, on the caller's connection and in the caller's transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any
from uuid import UUID

from django.db import DatabaseError, transaction

from djqueue.conf import config
from djqueue.core import hooks, registry, retries, signatures
from djqueue.core.durations import seconds
from djqueue.core.options import NO_CALL_OPTIONS, Call, CallOptions, check_task_name, job_id, resolve
from djqueue.core.payload import Encoded, encode_arguments, encode_kv
from djqueue.core.records import SHARED, Inserted, NewJob
from djqueue.core.uuid7 import uuid7
from djqueue.exceptions import DuplicateJob, InvalidArguments, InvalidOption, InvalidPayload
from djqueue.sql import Statements, statements
from djqueue.sql.connection import batches_of
from djqueue.states import DedupUntil, OnDuplicate

from . import announce, debounce, eager

DEFAULT_QUEUE = "default"
NO_ID = UUID(int=0)
IDS_AHEAD = 64  # so many ids are made at once
PLAIN = {str, int, float, bool, type(None)}  # types of arguments
BATCH = 1000  # rows per INSERT: cheap round trips, within every database's limit of parameters

Created = tuple[UUID, bool | None]  # the job's id, and whether this call created it: None until the commit


def enqueue(task: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: CallOptions) -> Created:
    """Create one job: now, or with the `on_commit` option when the transaction commits."""
    signatures.check(task, len(args), kwargs)
    job = prepare(task, args, kwargs, options)
    kv = {key: encode_kv(key, value) for key, value in sorted((options.kv or {}).items())}
    if options.on_commit is False:
        inserted = insert(job, kv)
        return inserted.id, inserted.created
    _run_on_commit(options.on_commit, partial(insert, job, kv))
    return job.id, None


def enqueue_many(calls: Iterable[Call], task: str | None, options: CallOptions) -> Iterator[Created]:
    """Create one job per call, all or none: now, or with `on_commit` when the transaction commits.

    `task` is the task of calls that name none, and `options` apply to calls that do not set them.
    """
    for name in ("id", "dedup_key", "kv"):
        if getattr(options, name) is not None:
            raise InvalidOption(
                f"{name} cannot be shared by all jobs of a batch; set it on single calls with call().using()"
            )
    prepare_all = partial(_Jobs, calls, task, options)
    if options.on_commit is False:
        inserted = insert_many(prepare_all, repeatable=isinstance(calls, Sequence))
        return ((row.id, row.created) for row in inserted)
    jobs = list(prepare_all())
    _run_on_commit(options.on_commit, partial(insert_many, lambda: jobs))
    return ((job.id, None) for job in jobs)


def prepare(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], call: CallOptions, *, with_hooks: bool = True
) -> NewJob:
    """Return the job to insert, with resolved options and encoded arguments. Raise if it cannot be stored.

    `with_hooks` is whether the functions in HEADERS are called. Schedules fire in processes that do not import them.
    """
    headers = call.headers or {}
    if with_hooks and config().headers:
        headers = hooks.headers(task, headers)
    encoded = encode_arguments(task, args, kwargs, headers)
    return make(task, call, encoded, uuid7() if call.id is None else NO_ID, _limit_key(task, args, kwargs, call))


def _limit_key(task: str, args: Sequence[Any], kwargs: Mapping[str, Any], call: CallOptions) -> str | None:
    """Return the limit key of a call: its own ("" for none), or that of the task's limit."""
    if call.limit_key is not None:
        return call.limit_key or None
    found = registry.limit_of(task)
    if found is None:
        return None
    limit, signature = found
    return limit.key_for(signature, args, kwargs)


def make(task: str, call: CallOptions, encoded: Encoded, new_id: UUID = NO_ID, limit_key: str | None = None) -> NewJob:
    """Return a job with resolved options. `new_id` is its id if the call sets none."""
    check_task_name(task)
    if call.on_duplicate == OnDuplicate.REPLACE and (call.dedup_key is None or call.id is not None):
        raise InvalidOption('on_duplicate="replace" needs a dedup_key, and cannot be used with an id')
    if call.max_wait is not None and call.run_at is not None:
        raise InvalidOption("max_wait needs a delay, not a run_at")
    max_wait = None if call.max_wait is None else seconds(call.max_wait, "max_wait")
    delay = 0.0 if call.delay is None else seconds(call.delay, "delay")
    options = registry.options(task)
    queue = call.queue or options.queue or DEFAULT_QUEUE
    return NewJob(
        id=new_id if call.id is None else job_id(call.id),
        own_id=call.id is not None,
        args=encoded.args,
        kwargs=encoded.kwargs,
        headers=encoded.headers,
        task=task,
        queue=queue,
        priority=resolve("priority", queue, options, call.priority),
        max_attempts=resolve("max_attempts", queue, options, call.max_attempts),
        delay=delay if max_wait is None else min(delay, max_wait),
        run_at=call.run_at,
        dedup_key=call.dedup_key,
        dedup_until=call.dedup_until or options.dedup_until or DedupUntil.CLAIMED.value,
        # The row keeps these three only if the call sets them: otherwise the task's current options apply at run time.
        retry=None if call.retry is None else retries.dump(call.retry),
        timeout=None if call.timeout is None else seconds(call.timeout, "timeout"),
        lease=None if call.lease is None else seconds(call.lease, "lease"),
        replace=call.on_duplicate == OnDuplicate.REPLACE,
        max_wait=max_wait,
        limit_key=limit_key,
    )


def insert_many(make: Callable[[], Iterable[NewJob]], *, repeatable: bool = True) -> list[Inserted]:
    """Insert jobs as they are made, all or none, in the caller's transaction or in a new one.

    `repeatable` is whether `make` can be called again if the database asks for a retry.
    """
    database = statements()
    jobs = iter(make())
    head = list(islice(jobs, 1))
    if not head:
        return []  # without a query

    def insert_all() -> tuple[list[NewJob], list[Inserted]]:
        nonlocal head, jobs
        if not head:  # a retry
            jobs = iter(make())
        given, head = chain(head, jobs), []
        return _insert_batches(database, given, jobs.make_ahead if isinstance(jobs, _Jobs) else None)

    run = database.own_transaction if repeatable else database.in_transaction
    announced, inserted = run(insert_all)
    announce.enqueued(announced, inserted)
    if eager.is_on():
        eager.run(inserted)
    return inserted


class _Jobs(Iterator[NewJob]):
    """The jobs of a batch's calls, each made when it is asked for, or while the database inserts those before it."""

    def __init__(self, calls: Iterable[Call], task: str | None, options: CallOptions) -> None:
        self.calls = enumerate(calls)
        self.task = task
        self.options = options
        self.plain = _Plain(options)
        self.next_call: tuple[int, Call] | None = None
        self.made: deque[NewJob] = deque()
        self.is_list = type(calls) in (list, tuple)

    def __next__(self) -> NewJob:
        return self.made.popleft() if self.made else self._make()

    def make_ahead(self) -> None:
        """Make jobs of the next batch, without any of the project's code: it could wait for the connection for ever.

        So leave out generators, functions in HEADERS, keys of limits, and arguments such as lazy objects. An error is
        left for later, too: that job is made again in its turn.
        """
        with suppress(Exception):
            while self.is_list and len(self.made) < BATCH and self._next_is_plain():
                self.made.append(self._make())

    def _next_is_plain(self) -> bool:
        self.next_call = self.next_call or next(self.calls)
        _, call = self.next_call
        return (
            type(call) is Call
            and call.options is NO_CALL_OPTIONS
            and self.plain.shared.get(call.task or self.task or "") is not None
            and all(type(value) in PLAIN for value in chain(call.args, call.kwargs.values()))
        )

    def _make(self) -> NewJob:
        self.next_call = self.next_call or next(self.calls)
        position, call = self.next_call
        try:
            job = _prepare_call(call, self.task, self.options, self.plain)
        except (InvalidArguments, InvalidPayload, InvalidOption) as error:
            raise type(error)(f"item {position}: {error}") from error
        self.next_call = None
        return job


class _Plain:
    """Makes the jobs of calls that have no options of their own, of which a batch may have thousands."""

    def __init__(self, options: CallOptions) -> None:
        self.options = options
        # By the name of a task, what its jobs have in common; None if each is prepared by itself.
        self.shared: dict[str, Any] = {}
        self.has_headers = bool(options.headers or config().headers)
        self.renew_ids()

    def renew_ids(self) -> None:
        """Make new ids. Those that were made ahead come before an id that is made now."""
        self.ids = chain.from_iterable(iter(partial(uuid7.many, IDS_AHEAD), None))

    def prepare(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NewJob:
        if task not in self.shared:
            each = self.has_headers or registry.options(task).limit is not None
            key = self.options.limit_key or None
            self.shared[task] = None if each else make(task, self.options, Encoded("[]"), limit_key=key)[SHARED]
        if (shared := self.shared[task]) is None:
            return prepare(task, args, kwargs, self.options)
        encoded = encode_arguments(task, args, kwargs, {})
        return NewJob._make((next(self.ids), encoded.args, encoded.kwargs, *shared))


def _prepare_call(call: Call, task: str | None, options: CallOptions, plain: _Plain) -> NewJob:
    if not isinstance(call, Call):
        raise InvalidOption(f"expected the result of djqueue.call() or task.call(), got {type(call).__name__}")
    name = call.task or task
    if name is None:
        raise InvalidOption("the call has no task; create it with task.call()")
    if task is not None and name != task:
        raise InvalidOption(f"the call is for task {name}, not {task}; use djqueue.enqueue_many() for several tasks")
    signatures.check(name, len(call.args), call.kwargs)
    if call.options is NO_CALL_OPTIONS:
        return plain.prepare(name, call.args, call.kwargs)
    if call.options.kv is not None or call.options.on_commit is not False:
        raise InvalidOption("kv and on_commit cannot be set on a single call of a batch")
    plain.renew_ids()
    return prepare(name, call.args, call.kwargs, options.merged(call.options.given()))


def _run_on_commit(alias: bool | str, insert: Callable[[], object]) -> None:
    """Insert when the transaction of the named database, or of the queue's database, commits."""
    transaction.on_commit(insert, using=alias if isinstance(alias, str) else config().database)


def insert(job: NewJob, kv: Mapping[str, str]) -> Inserted:
    """Insert one job with its KV entries, in one statement, and announce it."""
    database = statements()
    if job.replace:
        inserted = database.own_transaction(lambda: debounce.replace(database, [job], database.insert([job], kv)))
    else:
        inserted = database.insert([job], kv)
    announce.enqueued([job], inserted)
    if eager.is_on():
        eager.run(inserted)
    return inserted[0]


def _insert_batches(
    database: Statements, jobs: Iterable[NewJob], meanwhile: Callable[[], None] | None = None
) -> tuple[list[NewJob], list[Inserted]]:
    """Insert batch by batch, so that memory is bounded by a batch. Return the jobs to announce, and all rows.

    If a job is refused, delete the jobs inserted before it: a savepoint would slow down every caller.
    """
    inserted: list[Inserted] = []
    announced: list[NewJob] = []
    try:
        for batch in batches_of(jobs, _size, BATCH):
            inserted += _insert_batch(database, batch, len(inserted), meanwhile)
            announced += batch if announce.is_enqueue_announced() else []
    except Exception:
        created = [row.id for row in inserted if row.created]
        with suppress(DatabaseError):  # the transaction is aborted, and the inserted rows with it
            for start in range(0, len(created), BATCH):
                database.discard(created[start : start + BATCH])
        raise
    return announced, inserted


def _insert_batch(
    database: Statements, batch: list[NewJob], offset: int, meanwhile: Callable[[], None] | None
) -> list[Inserted]:
    """Insert one batch, in the order of keys, against deadlocks: of equal ones the first, or the last that replaces."""
    if not any(job.own_id or job.dedup_key is not None for job in batch):
        return database.insert(batch, {}, meanwhile)
    if any(job.own_id for job in batch):
        # Ids given by the caller do not reflect the order of the calls.
        batch = [job._replace(place=position / 1e6) for position, job in enumerate(batch)]
    firsts: dict[object, NewJob] = {}
    ids: set[UUID] = set()
    for position, job in enumerate(batch, offset):
        if job.id in ids:
            raise DuplicateJob(job.id, f"item {position}: ")
        ids.add(job.id)
        if job.replace:
            firsts[_unique_key(job)] = job
        else:
            firsts.setdefault(_unique_key(job), job)
    ordered = sorted(firsts.values(), key=lambda job: (job.queue, job.dedup_key or ""))
    try:
        found = debounce.replace(database, ordered, database.insert(ordered, {}))
        rows = dict(zip([job.id for job in ordered], found, strict=True))
    except DuplicateJob as error:
        position = offset + [job.id for job in batch].index(error.id)
        raise DuplicateJob(error.id, f"item {position}: ") from None
    inserted = []
    for job in batch:
        first = firsts[_unique_key(job)]
        row = rows[first.id]
        inserted.append(row if first is job else row._replace(created=False))
    return inserted


def _size(job: NewJob) -> int:
    return len(job.args) + len(job.kwargs) + len(job.headers)


def _unique_key(job: NewJob) -> object:
    """Return what only one job of a batch can have: its id, or its queue and dedup key."""
    return job.id if job.dedup_key is None else (job.queue, job.dedup_key)
