"""`publish`: create one job for every task that subscribes to a topic."""

from __future__ import annotations

from typing import Any

from .core import registry
from .core.async_twins import twin
from .core.options import Call, check_topic
from .exceptions import InvalidArguments, InvalidPayload
from .jobs import JobHandle
from .tasks import enqueue_many


def publish(topic: str, /, *args: Any, **kwargs: Any) -> list[JobHandle]:
    """Create a job for every task with this topic, all or none, in the caller's transaction and in one statement.

    Return their handles in the order of the names of the tasks, [] if there are none. The `tasks` modules of installed
    apps are imported before the first call, so the result does not depend on what this process has imported.
    """
    check_topic(topic)
    tasks = registry.topics().get(topic, [])
    try:
        return enqueue_many([Call(args, kwargs, task.name) for task in tasks])
    except (InvalidArguments, InvalidPayload) as error:  # says which item of the list it was, and its cause does not
        raise type(error)(f"Topic {topic!r}: {error.__cause__ or error}") from None


apublish = twin(publish)
