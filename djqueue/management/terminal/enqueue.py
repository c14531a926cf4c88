"""Enqueue a job."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from djqueue import tasks
from djqueue.core import masking, registry
from djqueue.core.records import JobRecord, WaitOutcome
from djqueue.core.tags import untagged
from djqueue.exceptions import InvalidArguments, InvalidOption, InvalidPayload
from djqueue.jobs import JobHandle
from djqueue.management.errors import bad_arguments
from djqueue.operations.values import short_json
from djqueue.operations.wording import counted
from djqueue.states import Status

from . import texts
from .filters import read_duration, read_time
from .output import Output, add_json

FAILED = 1
FOREVER = "forever"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="name of a task")
    # Django uses the name "args" for itself.
    parser.add_argument("--args", dest="job_args", metavar="JSON", help="arguments as a JSON list: '[42]'")
    parser.add_argument("--kwargs", dest="job_kwargs", metavar="JSON", help="named arguments: '{\"order_id\": 42}'")
    parser.add_argument("--queue", metavar="NAME", help="queue (default: the task's)")
    parser.add_argument("--priority", type=int, metavar="N", help="priority; lower runs first (default: the task's)")
    parser.add_argument("--delay", metavar="TIME", help="run after this time: 90, 5m, 2h")
    parser.add_argument("--run-at", metavar="TIME", help="run at this time, in ISO 8601")
    parser.add_argument("--max-attempts", type=int, metavar="N", help="attempts (default: the task's)")
    parser.add_argument("--timeout", metavar="TIME", help="time limit of an attempt (default: the task's)")
    parser.add_argument("--dedup-key", metavar="KEY", help="do not create a job while a live one has this key")
    parser.add_argument(
        "--wait",
        nargs="?",
        const=FOREVER,
        metavar="SECONDS",
        help="wait until the job has ended, at most so many seconds, and print the outcome",
    )
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    name = options["task"]
    if registry.find(name) is None:
        known = [task.name for task in registry.all_tasks()]
        raise bad_arguments(f"No task {texts.clean(name)} is registered.{texts.near(name, known)}")
    timeout = read_timeout(options)
    args, kwargs = read_json(options, "args", list), read_json(options, "kwargs", dict)
    try:
        handle = tasks.enqueue(name, args, kwargs, **call_options(options))
    except (InvalidOption, InvalidArguments, InvalidPayload) as error:
        raise bad_arguments(str(error)) from error
    if options["wait"] is None:
        if options["json"]:
            output.json({"id": str(handle.id), "created": handle.created})
        else:
            output.line(str(handle.id))
            note_duplicate(output, handle)
        return 0
    return wait(output, options, handle, timeout)


def read_timeout(options: dict[str, Any]) -> float | None:
    if options["wait"] is None or options["wait"] == FOREVER:
        return None
    return read_duration(str(options["wait"]), "--wait")


def read_json(options: dict[str, Any], name: str, kind: type) -> Any:
    text = options[f"job_{name}"]
    if text is None:
        return kind()
    try:
        value = untagged(json.loads(text))
    except (ValueError, RecursionError, InvalidPayload) as error:
        raise bad_arguments(f"--{name} is not valid JSON: {error}") from None
    if not isinstance(value, kind):
        expected = "a JSON list such as '[42]'" if kind is list else "a JSON object such as '{\"order_id\": 42}'"
        raise bad_arguments(f"--{name} must be {expected}")
    return value


def call_options(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: options[name] for name in ("queue", "priority", "max_attempts", "dedup_key")}
    for name in ("delay", "timeout"):
        given[name] = None if options[name] is None else read_duration(options[name], f"--{name}")
    given["run_at"] = options["run_at"] and read_time(options["run_at"], "--run-at")
    return {name: value for name, value in given.items() if value is not None}


def note_duplicate(output: Output, handle: JobHandle) -> None:
    if handle.created is False:
        output.note("No job was created: this live job has the dedup key.")


def wait(output: Output, options: dict[str, Any], handle: JobHandle, timeout: float | None) -> int:
    """Wait for the end of the job, and return 1 unless it is done."""
    try:
        if not options["json"]:
            output.line(str(handle.id))
            output.stdout.flush()
            note_duplicate(output, handle)
        outcome = handle.wait(timeout)
    except KeyboardInterrupt:
        output.note("Interrupted. The job is not affected.")
        return FAILED
    if options["json"]:
        output.json(as_json(handle, outcome))
    else:
        output.line(describe(outcome))
    done = outcome.completed and outcome.record is not None and outcome.record.status == Status.DONE
    return 0 if done or is_unkept(outcome) else FAILED


def is_unkept(outcome: WaitOutcome) -> bool:
    """Return whether the job has ended and left no row: dead jobs are always kept, so it was done or cancelled."""
    return outcome.completed and outcome.record is None


def describe(outcome: WaitOutcome) -> str:
    record = outcome.record
    if record is None:
        return "ended" if outcome.completed else "timed out" if outcome.timed_out else "not found"
    if outcome.timed_out:
        return f"timed out: the job is {record.status}"
    if record.status == Status.DEAD:
        return f"dead after {counted(record.attempts, 'attempt')}: {texts.first_line(error_of(record))}"
    if record.status == Status.DONE and record.result is not None:
        return f"done: {texts.clean(short_json(result_of(record), 1000))}"
    return str(record.status)


def as_json(handle: JobHandle, outcome: WaitOutcome) -> dict[str, Any]:
    record = outcome.record
    return {
        "id": str(handle.id),
        "created": handle.created,
        "completed": outcome.completed,
        "timed_out": outcome.timed_out,
        "status": None if record is None else record.status.value,
        "result": None if record is None else result_of(record),
        "last_error": None if record is None else error_of(record),
    }


def secrets_of(record: JobRecord) -> list[str]:
    return masking.secrets(record.task, record.args, record.kwargs)


def error_of(record: JobRecord) -> str:
    return masking.hide(record.last_error, secrets_of(record))


def result_of(record: JobRecord) -> Any:
    return masking.hide_in(record.result, secrets_of(record))
