"""Tasks of django.tasks that the tests enqueue; no app has this module, so a worker must import it by name."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time

import django

import djqueue
from djqueue.contrib import django_tasks
from djqueue.contrib.django_tasks.compat import TaskContext, task_finished

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task

__all__ = ["subprocess"]  # a path to something that is not a Task

ran: list[object] = []  # what ran in this process, in order
died: list[object] = []
blocked = threading.Event()


@task()
def noop(*args, **kwargs):
    return None


@task
def noop_bare(*args, **kwargs):
    return None


@task()
async def noop_async(*args, **kwargs):
    return None


@task()
def meaning_of_life():
    return 42


@task()
async def meaning_of_life_async():
    await asyncio.sleep(0)
    return 42


@task()
def note(value):
    ran.append(value)


@task()
def echo(*args, **kwargs):
    return [args, kwargs]


@task(backend="once")
def value_error():
    raise ValueError("This task failed due to ValueError")


@task(backend="once")
async def value_error_async():
    raise ValueError("This task failed due to ValueError")


@task(backend="once")
def nested_error():
    raise ValueError(ValueError("This task failed"))


@task(backend="once")
def chained_error():
    try:
        raise KeyError("the cause")
    except KeyError:
        raise ValueError("the effect")  # noqa: B904 - the implicit chain is what the test is about


@task(backend="once")
def system_exit():
    raise SystemExit("This task failed due to SystemExit")


@task(backend="once")
async def system_exit_async():
    raise SystemExit("This task failed due to SystemExit")


@task(backend="once")
def keyboard_interrupt():
    raise KeyboardInterrupt("This task failed due to KeyboardInterrupt")


@task(backend="once")
def exit_task():
    exit(1)


@task()
def bad_value():
    ran.append("bad_value")
    return lambda: True


@task()
def nan():
    return float("nan")


@task()
def normalised():
    return {"tuple": (1, 2), "bytes": b"abc", 3: None}


@task(takes_context=True)
def task_id(context):
    return context.task_result.id


@task(takes_context=True)
def check_context(context, attempt):
    assert isinstance(context, TaskContext)
    assert context.attempt == attempt
    assert context.task_result.status == "RUNNING"
    assert context.task_result.started_at is not None
    return context.task_result.args


@task(takes_context=True)
async def context_async(context):
    return [context.task_result.id, context.attempt]


@django_tasks.task(max_attempts=3, retry=djqueue.Fixed(0, jitter=0), takes_context=True)
def third_time(context):
    if context.attempt < 3:
        raise ValueError(f"attempt {context.attempt}")
    return context.attempt


@django_tasks.task(max_attempts=2, backoff=lambda error, result: 0 if result.attempts == 1 else 3600)
def backs_off():
    raise ValueError("again")


@django_tasks.task(max_attempts=3, backoff=lambda error, result: 3600)
def backs_off_long():
    raise ValueError("later")


@django_tasks.task(timeout=0.2, max_attempts=1)
def slow():
    for _ in range(100):
        time.sleep(0.05)


@django_tasks.task(
    max_attempts=1, sensitive=["password"], on_dead=lambda job, attempts: died.append((job.id, attempts))
)
def login(user, password):
    raise ValueError(f"wrong password {password}")


@django_tasks.task(
    max_attempts=7,
    retry=djqueue.Exponential(base=2, max=60),
    timeout=30,
    lease=20,
    dedup_key="all",
    dedup_until="done",
    headers={"tenant": "a"},
    priority=-7,
    queue_name="queue-1",
)
def full(*args):
    return None


@django_tasks.task(max_attempts=1)
def kill():
    os.kill(os.getpid(), signal.SIGKILL)


@task()
def sleep(seconds):
    time.sleep(seconds)


@task()
def permanent():
    raise djqueue.PermanentFailure("never")


@djqueue.task
def of_djqueue():
    return "djqueue"


def not_a_task():
    ran.append("not_a_task")


if "DJQUEUE_TEST_FINISHED" in os.environ:

    def write_finished(sender, task_result, **kwargs):
        with open(os.environ["DJQUEUE_TEST_FINISHED"], "a") as file:
            file.write(f"{sender.__name__} {task_result.id} {task_result.status}\n")

    task_finished.connect(write_finished)
