"""Create jobs, on the caller's connection and in the caller's transaction."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from djqueue import payload, registry, retries
from djqueue.conf import MAX_KV_VALUE_SIZE, config, first
from djqueue.durations import seconds
from djqueue.exceptions import InvalidOption, InvalidPayload, KvValueTooLarge
from djqueue.options import CallOptions, check_task_name
from djqueue.records import Inserted, NewJob
from djqueue.sql import statements
from djqueue.states import DedupUntil
from djqueue.uuid7 import uuid7

DEFAULT_QUEUE = "default"


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
    encoded = _encode_arguments(task, args, kwargs, call.headers or {})
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
    return statements().insert([prepared.job], prepared.kv)[0]


def encode_kv(key: str, value: Any) -> str:
    """Encode a kv value, so that equal values are equal texts."""
    if not isinstance(key, str) or not 0 < len(key) <= 255:
        raise InvalidOption(f"a kv key must be a string of 1 to 255 characters, not {key!r}")
    payload.encode(key, "a kv key")
    text = payload.canonical(value, f"kv[{key!r}]")
    size = len(text.encode())
    if size > MAX_KV_VALUE_SIZE:
        raise KvValueTooLarge(size, MAX_KV_VALUE_SIZE)
    return text


def _uuid(value: UUID | str) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _encode_arguments(
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
