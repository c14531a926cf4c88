"""What the templates of the parts show: texts, numbers and links."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from djqueue.admin import charts, display, schedule_page
from djqueue.admin.charts import Bar
from djqueue.admin.error_groups import Group
from djqueue.admin.queues import queue_state
from djqueue.models import DeadJob, Job, QueueState, Schedule, Worker
from djqueue.operations.rates import Histogram, Point

from .links import Links
from .snapshot import STEP, QueueRow, Snapshot, WorkerRow, Workers

MOST_JOBS = 5  # of one worker
RECENT = 5  # minutes


def attention(data: Snapshot, links: Links) -> dict[str, Any]:
    return {
        "at": clock(data.at),
        "findings": [(finding, links.subject(finding, data.schedule_keys)) for finding in data.findings],
    }


def queues(data: Snapshot, links: Links) -> dict[str, Any]:
    return {
        "queues": [queue(row, data.at, links) for row in data.queues],
        "more": data.queue_count - len(data.queues),
        "list_url": links.rows(QueueState),
    }


def queue(row: QueueRow, now: datetime, links: Links) -> dict[str, Any]:
    one, name = row.summary, row.summary.queue
    act = "resume" if one.paused else "pause"
    counts = [
        (gettext("Pending"), one.pending, links.rows(Job, queue=name, status="pending")),
        (gettext("Scheduled"), one.scheduled, links.rows(Job, queue=name, status="scheduled")),
        (gettext("Blocked"), one.blocked, links.rows(Job, queue=name, status="blocked")),
        (gettext("Running"), one.claimed, links.rows(Job, queue=name, status="claimed")),
        (gettext("Dead"), one.dead, links.rows(DeadJob, queue=name)),
    ]
    ended = [
        (gettext("Done, 5 min"), row.recent.done),
        (gettext("Failed, 5 min"), row.recent.failed),
        (gettext("Done, 60 min"), row.rates.done),
        (gettext("Failed, 60 min"), row.rates.failed),
    ]
    return {
        "name": name,
        "flagged": row.flagged,
        "state": queue_state(one.paused, one.consumed),
        "since": gettext("for %(time)s") % {"time": display.between(row.paused_at, now)} if row.paused_at else "",
        "counts": [(label, number(count), url if count else "") for label, count, url in counts],
        "oldest": display.duration(one.oldest_pending_seconds),
        "backlog": backlog(row),
        "ended": [(label, number(count)) for label, count in ended],
        "wait": quantiles(row.rates.wait),
        "run": quantiles(row.rates.run),
        "act": act if act in links.may else "",
        "act_label": gettext("Resume") if one.paused else gettext("Pause"),
    }


def backlog(row: QueueRow) -> str:
    """Return the time that the pending jobs take, in minutes, or less exactly if it is short or long."""
    left = row.backlog_seconds
    if not row.summary.pending:
        return gettext("none")
    if left is None:
        return gettext("stopped") if row.summary.paused or not row.summary.consumed else gettext("unknown")
    if left < 60:
        return gettext("< 1 min")
    if left < 90 * 60:
        return gettext("%(count)d min") % {"count": round(left / 60)}
    return display.duration(left)


def quantiles(times: Histogram) -> tuple[str, str]:
    return display.duration(times.quantile(0.5)), display.duration(times.quantile(0.95))


def throughput(data: Snapshot, links: Links) -> dict[str, Any]:
    return chart(gettext("Last hour, per minute"), data.hour, 1, "H:i")


def day(points: Sequence[Point], links: Links) -> dict[str, Any]:
    return chart(gettext("Last day, per %(count)d minutes") % {"count": STEP}, points, STEP, "D H:i")


def chart(title: str, points: Sequence[Point], minutes: int, time_format: str) -> dict[str, Any]:
    """Return two rows of bars, one for what was done and one for what failed, so that colour is not needed."""
    done, failed = [point.done for point in points], [point.failed for point in points]
    local = [timezone.localtime(point.at) for point in points]
    times = [f"{at:%H:%M}" for at in local]
    marks = [*(date_format(at, time_format) for at in (local[0], local[len(local) // 2])), gettext("now")]
    return {
        "title": title,
        "rows": [
            lane(title, gettext("Done"), "djq-bar-done", done, times, minutes),
            lane(title, gettext("Failed attempts"), "djq-bar-failed", failed, times, minutes),
        ],
        "marks": marks,
    }


def lane(title: str, label: str, css: str, counts: Sequence[int], times: Sequence[str], minutes: int) -> dict[str, Any]:
    numbers = {
        "label": label,
        "total": number(sum(counts)),
        "mean": per_minute(counts, minutes),
        "now": per_minute(counts[-RECENT:], minutes) if minutes == 1 else "",
        "most": number(max(counts)),
    }
    said = gettext("%(title)s: %(label)s, %(total)s in total, at most %(most)s") % {"title": title, **numbers}
    bars = [Bar(f"{time}: {count}", [(css, count)]) for time, count in zip(times, counts, strict=True)]
    return {**numbers, "svg": charts.bars(said, bars, height=36)}


def per_minute(counts: Sequence[int], minutes: int) -> str:
    mean = sum(counts) / (len(counts) * minutes)
    return gettext("< 0.1") if 0 < mean < 0.1 else str(number_format(round(mean, 1), 1, force_grouping=True))


def failures(data: Snapshot, links: Links) -> dict[str, Any]:
    found = data.failures
    dead = [group(one, links.rows(DeadJob, task=one.task, group=one.error, since="hour"), "dead") for one in found.dead]
    waiting = {"status": "scheduled", "since": "hour"}
    retrying = [
        group(one, links.rows(Job, task=one.task, group=one.error, **waiting), "scheduled") for one in found.retrying
    ]
    return {
        "groups": [*(dead if "view_deadjob" in links.may else []), *retrying],
        "dead_jobs": found.dead_jobs,
        "retrying_jobs": found.retrying_jobs,
        "attempts": sum(point.failed for point in data.hour),
        "cut": found.cut,
    }


def group(one: Group, link: str, status: str) -> dict[str, Any]:
    label = gettext("dead") if status == "dead" else gettext("will be retried")
    return {
        "group": one,
        "count": number(one.count),
        "task": display.dotted(one.task),
        "exception": one.exception.rpartition(".")[2],
        "state": display.badge(status, label),
        "first": display.ago(one.first),
        "last": display.ago(one.last),
        "link": link,
        "act": gettext("Requeue these …") if status == "dead" else gettext("Show these …"),
    }


def workers(data: Workers, links: Links) -> dict[str, Any]:
    return {
        "at": clock(data.at),
        "data": data,
        "workers": [worker(row, data.at, links) for row in data.rows],
        "more": data.count - len(data.rows),
        "list_url": links.rows(Worker),
    }


def worker(row: WorkerRow, now: datetime, links: Links) -> dict[str, Any]:
    one, more = row.summary, len(row.jobs) - MOST_JOBS
    note = gettext("and %(count)d more") % {"count": more} if more > 0 else "" if row.jobs else gettext("nothing")
    return {
        "name": one.name or one.identity,
        "url": links.page(Worker, one.identity),
        "host": f"{one.host}:{one.pid}",
        "state": display.badge(one.state.value, str(one.state.label)),
        "heartbeat": gettext("%(time)s ago") % {"time": display.duration(one.heartbeat_seconds)},
        "memory": filesizeformat(one.memory) if one.memory else display.NOTHING,
        "threads": f"{one.running}/{one.threads}" if one.alive else display.NOTHING,
        "jobs": [
            {"task": display.dotted(job.task), "url": links.page(Job, job.pk), "since": since(job, now)}
            for job in row.jobs[:MOST_JOBS]
        ],
        "note": note,
    }


def since(job: Job, now: datetime) -> str:
    time = display.between(job.claimed_at, now)
    return time if job.started else gettext("claimed %(time)s ago, not started") % {"time": time}


def coming(data: Snapshot, links: Links) -> dict[str, Any]:
    """Return what runs next."""
    schedules = data.schedules if "view_schedule" in links.may else []
    return {
        "schedules": [
            {
                "name": row.name,
                "url": links.page(Schedule, row.pk),
                "rule": schedule_page.rule(row),
                "at": soon(row.next_at),
            }
            for row in schedules
        ],
        "jobs": [
            {
                "task": display.dotted(job.task),
                "url": links.page(Job, job.pk),
                "queue": job.queue,
                "at": soon(job.run_at),
            }
            for job in data.jobs
        ],
        "schedules_url": links.rows(Schedule),
        "jobs_url": links.rows(Job, status="scheduled", o="6"),
    }


def soon(at: datetime | None) -> str | SafeString:
    return display.NOTHING if at is None else display.ago(at)


def clock(at: datetime) -> str:
    return date_format(timezone.localtime(at), "H:i:s")


def number(count: int) -> str:
    return str(number_format(count, force_grouping=True))
