from __future__ import annotations

import pytest

from djqueue.core.options import TaskOptions, resolve

LEVELS = [
    (5, TaskOptions(priority=4), "own", 5),
    (0, TaskOptions(priority=4), "own", 0),
    (None, TaskOptions(priority=4), "own", 4),
    (None, TaskOptions(priority=0), "own", 0),
    (None, TaskOptions(), "own", 3),
    (None, None, "own", 3),
    (None, TaskOptions(), "other", 2),
    (None, None, "other", 2),
]


@pytest.mark.parametrize(("call", "task", "queue", "value"), LEVELS)
def test_unset_options_fall_back_to_task_then_queue_then_default(settings, call, task, queue, value):
    settings.DJQUEUE = {"PRIORITY": 2, "QUEUES": {"own": {"priority": 3}}}
    assert resolve("priority", queue, task, call) == value


def test_an_option_without_a_default_resolves_to_none(settings):
    settings.DJQUEUE = {"QUEUES": {"own": {"concurrency": 3}}}
    assert resolve("concurrency", "own") == 3
    assert resolve("concurrency", "other") is None
    assert resolve("timeout", "other", TaskOptions()) is None
    assert resolve("retry", "other", TaskOptions()) is None
