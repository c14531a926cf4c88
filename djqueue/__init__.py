"""A durable job queue in the database of your Django project."""

from __future__ import annotations

# No module imported here may import djqueue.models at its top: Django imports this package before its apps are ready.
from . import kv, limits, maintenance, schedules, signals
from .core.limits import Limit, LimitState
from .core.options import Call
from .core.records import JobRecord, QueueStats, WaitOutcome
from .core.retries import Exponential, Fixed, NoRetry
from .core.tags import ModelReference, UnstorableResult
from .current import current_job
from .exceptions import (
    Cancelled,
    DjqueueError,
    DuplicateJob,
    DuplicateSchedule,
    DuplicateTask,
    InvalidArguments,
    InvalidOption,
    InvalidPayload,
    KvValueTooLarge,
    LeaseLost,
    NotDead,
    NotDone,
    PayloadTooLarge,
    PermanentFailure,
    Retry,
    Snooze,
    TaskTimeout,
    Throttled,
    UnknownSchedule,
    WaitInTransaction,
)
from .jobs import (
    JobHandle,
    acancel,
    aenqueue_again,
    aget_job,
    arequeue,
    areschedule,
    await_,
    await_for_jobs,
    cancel,
    enqueue_again,
    get_job,
    requeue,
    reschedule,
    wait,
    wait_for_jobs,
)
from .lifecycle.claim import ClaimedJob
from .operations.estimate import Estimate, aestimate, estimate
from .operations.explain import Explanation, aexplain, explain
from .queue import Queue, aqueues, astats, queues, stats
from .schedules import schedule
from .states import HIGH, LOW, NORMAL, CancelOutcome, Status
from .tasks import Task, aenqueue, aenqueue_many, call, enqueue, enqueue_many, task
from .topics import apublish, publish

__version__ = "0.1.0"

__all__ = [
    "HIGH",
    "LOW",
    "NORMAL",
    "Call",
    "CancelOutcome",
    "Cancelled",
    "ClaimedJob",
    "DjqueueError",
    "DuplicateJob",
    "DuplicateSchedule",
    "DuplicateTask",
    "Estimate",
    "Explanation",
    "Exponential",
    "Fixed",
    "InvalidArguments",
    "InvalidOption",
    "InvalidPayload",
    "JobHandle",
    "JobRecord",
    "KvValueTooLarge",
    "LeaseLost",
    "Limit",
    "LimitState",
    "ModelReference",
    "NoRetry",
    "NotDead",
    "NotDone",
    "PayloadTooLarge",
    "PermanentFailure",
    "Queue",
    "QueueStats",
    "Retry",
    "Snooze",
    "Status",
    "Task",
    "TaskTimeout",
    "Throttled",
    "UnknownSchedule",
    "UnstorableResult",
    "WaitInTransaction",
    "WaitOutcome",
    "acancel",
    "aenqueue",
    "aenqueue_again",
    "aenqueue_many",
    "aestimate",
    "aexplain",
    "aget_job",
    "apublish",
    "aqueues",
    "arequeue",
    "areschedule",
    "astats",
    "await_",
    "await_for_jobs",
    "call",
    "cancel",
    "current_job",
    "enqueue",
    "enqueue_again",
    "enqueue_many",
    "estimate",
    "explain",
    "get_job",
    "kv",
    "limits",
    "maintenance",
    "publish",
    "queues",
    "requeue",
    "reschedule",
    "schedule",
    "schedules",
    "signals",
    "stats",
    "task",
    "wait",
    "wait_for_jobs",
]
