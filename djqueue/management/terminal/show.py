"""Show everything about one job: why it does not run, its facts, timeline, arguments and errors."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any
from uuid import UUID

import djqueue
from djqueue.core import masking
from djqueue.core.durations import in_words
from djqueue.core.payload import MAX_DEPTH
from djqueue.core.tags import tagged
from djqueue.models import DeadJob, DoneJob, Job
from djqueue.operations import timeline
from djqueue.operations.values import pretty_json, short_json
from djqueue.operations.wording import counted
from djqueue.sql import statements
from djqueue.states import Status

from . import jobs, texts
from .output import Output, add_json, instant
from .selection import read_id
from .work import REFUSED

TABLES = (Job, DoneJob, DeadJob)
LABEL = 17  # width of the labels


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a job")
    parser.add_argument(
        "--traceback", action="store_true", help="print the tracebacks of all failed attempts, not only of the last"
    )
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    job_id = read_id(options["id"])
    job = find(job_id)
    if job is None:
        output.note(f"Job {job_id} does not exist, or is no longer kept.")
        return REFUSED
    secrets = masking.secrets(job.task, job.args, job.kwargs)
    if options["json"]:
        output.json(as_json(job, secrets))
    else:
        print_job(output, job, secrets, options["traceback"])
    return 0


def find(job_id: UUID) -> Any:
    """Return the row of a job. It may move to another table between two queries, so look twice."""
    alias = statements().alias
    for model in TABLES * 2:
        if (job := model._base_manager.using(alias).filter(pk=job_id).first()) is not None:
            return job
    return None


def print_job(output: Output, job: Any, secrets: list[str], all_tracebacks: bool) -> None:
    output.line(f"{job.task} {job.pk}")
    output.line(f"{output.colour(jobs.state_of(job))}: {texts.clean(djqueue.explain(job.pk).text)}", safe=True)
    if start := estimate_text(job):
        output.line(start)
    output.line()
    for label, value in facts(job):
        output.line(f"{label.ljust(LABEL)} {texts.clean(value)}", safe=True)
    section(
        output, "Timeline", [f"{instant(m.at)}  {m.label}{m.note and f' ({m.note})'}" for m in timeline.timeline(job)]
    )
    for title, value in values(job, secrets):
        section(output, title, texts.lines(pretty_json(value)))
    if masking.is_unknown(job.task) and (job.args or job.kwargs):
        output.line("The arguments are hidden because this task is not registered.")
    print_attempts(output, timeline.attempts(job, secrets), all_tracebacks)


def section(output: Output, title: str, lines: list[str]) -> None:
    output.line()
    output.line(f"{title}:")
    for line in lines:
        output.line(f"  {line}")


def facts(job: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [
        ("Queue", job.queue),
        ("Priority", job.priority),
        ("Attempts", f"{job.attempts} of {job.max_attempts}"),
        ("Workers", ", ".join(job.worker_ids)),
        ("Dedup key", job.dedup_key),
        ("Limit key", job.limit_key),
        ("Schedule", job.schedule),
        ("Slot", job.slot and instant(job.slot)),
        ("Retry policy", job.retry and short_json(job.retry, 200)),
        ("Timeout", job.timeout and in_words(job.timeout)),
        ("Lease", job.lease and in_words(job.lease)),
        ("Crashes", job.crashes),
        ("Cancel requested", "yes" if job.cancel_requested else ""),
    ]
    if (progress := timeline.progress(job.progress)) is not None:
        found.append(("Progress", f"{progress.percent}% ({progress.done:g} of {progress.total:g})"))
    return [(label, value) for label, value in found if value not in (None, "", 0)]


def values(job: Any, secrets: list[str]) -> list[tuple[str, Any]]:
    args, kwargs = masking.masked(job.task, job.args, job.kwargs)
    shown = [("Arguments", args), ("Named arguments", kwargs), ("Headers", job.headers)]
    shown += [("Result", job.result), ("Progress", job.progress)]
    return [(title, masking.hide_in(value, secrets)) for title, value in shown if value not in (None, [], {})]


def estimate_text(job: Any) -> str:
    found = djqueue.estimate(job.pk)
    waits = job.status in (Status.SCHEDULED, Status.PENDING) and found.ahead is not None
    parts = [f"{counted(found.ahead or 0, 'job')} ahead"] if waits else []
    if found.p50 is not None and found.p90 is not None:
        parts.append(f"starts in about {in_words(found.p50)}, very likely within {in_words(found.p90)}")
    text = "; ".join(parts)
    return f"{text}." if text else ""


def print_attempts(output: Output, attempts: list[timeline.Attempt], all_tracebacks: bool) -> None:
    """Print the failed attempts, latest first: the last one with its traceback, the others as one line each."""
    if not attempts:
        return
    output.line()
    output.line("Failed attempts, latest first:")
    for position, attempt in enumerate(attempts):
        details = [instant(attempt.at)] if attempt.at else []
        details += [f"after {attempt.took}"] if attempt.took else []
        details += [f"on {texts.clean(attempt.worker)}"] if attempt.worker else []
        details += ["before the requeue"] if attempt.before_requeue else []
        where = f" ({', '.join(details)})" if details else ""
        output.line(f"  Attempt {texts.clean(attempt.number)}{where}")
        if attempt.traceback and (all_tracebacks or position == 0):
            shown = texts.lines(attempt.traceback)
        else:
            shown = [
                texts.first_line(f"{attempt.exception}: {attempt.message}" if attempt.exception else attempt.message)
            ]
        for line in shown:
            output.line(f"    {line}")


def as_json(job: Any, secrets: list[str]) -> dict[str, Any]:
    explanation = djqueue.explain(job.pk)
    args, kwargs = masking.masked(job.task, job.args, job.kwargs)
    job.short_args, job.short_kwargs = job.args, job.kwargs
    return {
        **jobs.as_json(job),
        "args": tagged(args, MAX_DEPTH),
        "kwargs": tagged(kwargs, MAX_DEPTH),
        "explanation": {"code": explanation.code.value, "text": explanation.text},
        "estimate": asdict(djqueue.estimate(job.pk)),
        "workers": job.worker_ids,
        **{name: getattr(job, name) for name in ("dedup_key", "limit_key", "schedule", "slot", "timeout", "lease")},
        **{name: getattr(job, name) for name in ("crashes", "retry", "cancel_requested", "lease_expires_at")},
        "headers": masking.hide_in(job.headers, secrets),
        "result": tagged(masking.hide_in(job.result, secrets), MAX_DEPTH),
        "progress": masking.hide_in(job.progress, secrets),
        "timeline": [{"at": m.at, "label": str(m.label), "note": m.note} for m in timeline.timeline(job)],
        "errors": [asdict(attempt) for attempt in timeline.attempts(job, secrets)],
    }
