"""A durable job queue inside the database your Django project already has.

Names are loaded when they are first used, so that `import djqueue` works before Django's apps are ready.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import kv as kv
    from . import maintenance as maintenance
    from . import schedules as schedules
    from . import signals as signals
    from .counters import aqueues as aqueues
    from .counters import astats as astats
    from .counters import queues as queues
    from .counters import stats as stats
    from .current import current_job as current_job
    from .exceptions import Cancelled as Cancelled
    from .exceptions import DjqueueError as DjqueueError
    from .exceptions import DuplicateJob as DuplicateJob
    from .exceptions import DuplicateSchedule as DuplicateSchedule
    from .exceptions import DuplicateTask as DuplicateTask
    from .exceptions import InvalidOption as InvalidOption
    from .exceptions import InvalidPayload as InvalidPayload
    from .exceptions import KvValueTooLarge as KvValueTooLarge
    from .exceptions import LeaseLost as LeaseLost
    from .exceptions import NotDead as NotDead
    from .exceptions import PayloadTooLarge as PayloadTooLarge
    from .exceptions import PermanentFailure as PermanentFailure
    from .exceptions import Retry as Retry
    from .exceptions import Snooze as Snooze
    from .exceptions import TaskTimeout as TaskTimeout
    from .exceptions import UnknownSchedule as UnknownSchedule
    from .exceptions import UnknownTask as UnknownTask
    from .exceptions import WaitInTransaction as WaitInTransaction
    from .handle import JobHandle as JobHandle
    from .jobs import acancel as acancel
    from .jobs import aget_job as aget_job
    from .jobs import arequeue as arequeue
    from .jobs import areschedule as areschedule
    from .jobs import await_ as await_
    from .jobs import await_for_jobs as await_for_jobs
    from .jobs import cancel as cancel
    from .jobs import get_job as get_job
    from .jobs import requeue as requeue
    from .jobs import reschedule as reschedule
    from .jobs import wait as wait
    from .jobs import wait_for_jobs as wait_for_jobs
    from .lifecycle.claim import ClaimedJob as ClaimedJob
    from .queue import Queue as Queue
    from .records import JobRecord as JobRecord
    from .records import QueueStats as QueueStats
    from .records import WaitOutcome as WaitOutcome
    from .retries import Exponential as Exponential
    from .retries import Fixed as Fixed
    from .retries import NoRetry as NoRetry
    from .schedules import schedule as schedule
    from .states import HIGH as HIGH
    from .states import LOW as LOW
    from .states import NORMAL as NORMAL
    from .states import CancelOutcome as CancelOutcome
    from .states import Status as Status
    from .tasks import Call as Call
    from .tasks import Task as Task
    from .tasks import aenqueue as aenqueue
    from .tasks import aenqueue_many as aenqueue_many
    from .tasks import call as call
    from .tasks import enqueue as enqueue
    from .tasks import enqueue_many as enqueue_many
    from .tasks import task as task

_MODULES = {"kv", "maintenance", "schedules", "signals"}
_NAMES = {
    "counters": ["aqueues", "astats", "queues", "stats"],
    "current": ["current_job"],
    "exceptions": [
        "Cancelled",
        "DjqueueError",
        "DuplicateJob",
        "DuplicateSchedule",
        "DuplicateTask",
        "InvalidOption",
        "InvalidPayload",
        "KvValueTooLarge",
        "LeaseLost",
        "NotDead",
        "PayloadTooLarge",
        "PermanentFailure",
        "Retry",
        "Snooze",
        "TaskTimeout",
        "UnknownSchedule",
        "UnknownTask",
        "WaitInTransaction",
    ],
    "handle": ["JobHandle"],
    "jobs": [
        "acancel",
        "aget_job",
        "arequeue",
        "areschedule",
        "await_",
        "await_for_jobs",
        "cancel",
        "get_job",
        "requeue",
        "reschedule",
        "wait",
        "wait_for_jobs",
    ],
    "lifecycle.claim": ["ClaimedJob"],
    "queue": ["Queue"],
    "records": ["JobRecord", "QueueStats", "WaitOutcome"],
    "retries": ["Exponential", "Fixed", "NoRetry"],
    "schedules": ["schedule"],
    "states": ["CancelOutcome", "HIGH", "LOW", "NORMAL", "Status"],
    "tasks": ["Call", "Task", "aenqueue", "aenqueue_many", "call", "enqueue", "enqueue_many", "task"],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"djqueue.{name}")
    if name in _HOME:
        value = getattr(import_module(f"djqueue.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'djqueue' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
