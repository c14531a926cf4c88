"""The top of a schedule's page: its problem, its rule in words, its next times, and what became of its last job."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue.conf import config
from djqueue.exceptions import DjqueueError
from djqueue.models import Schedule
from djqueue.schedules.rows import definition_of
from djqueue.schedules.words import describe
from djqueue.states import Status

from . import display
from .log import TABLES

NEXT_TIMES = 5


def rule(row: Schedule) -> str:
    """Return the rule in words, with the cron rule beside it and its time zone."""
    if not row.cron:
        return gettext("Every %(time)s") % {"time": display.duration(row.every)}
    said = describe(row.cron)
    if said == row.cron:
        return format_html('<span class="djq-mono">{}</span> {}', row.cron, row.timezone)
    return format_html(
        '{} <span class="quiet"><span class="djq-mono">{}</span> {}</span>', said, row.cron, row.timezone
    )


def next_times(row: Schedule) -> list[datetime]:
    """Return the next slots, from the one that is stored; fewer if the schedule ends before."""
    slots: list[datetime] = []
    try:
        definition = definition_of(row)
        while row.enabled and row.next_at is not None and len(slots) < NEXT_TIMES:
            slots.append(definition.rule(row.next_at).next(slots[-1]) if slots else row.next_at)
            definition.not_after_its_end(slots[-1])
    except (DjqueueError, OverflowError):
        return slots[:-1] if slots and slots[-1] != row.next_at else slots
    return slots


def times_text(row: Schedule) -> str | SafeString:
    """Return the next times in the schedule's time zone, and in the viewer's if it differs."""
    slots = next_times(row)
    if not slots:
        return gettext("None: it is disabled.") if not row.enabled else display.NOTHING
    return format_html_join(
        "", '<div>{} <span class="quiet">{}</span></div>', ((_time(row, at), _aside(row, at)) for at in slots)
    )


def _time(row: Schedule, at: datetime) -> str:
    try:
        local = at.astimezone(ZoneInfo(row.timezone))
    except (LookupError, ValueError, OSError):
        local = timezone.localtime(at)
    return f"{date_format(local, 'D')} {date_format(local, display.TIME_FORMAT)}"


def _aside(row: Schedule, at: datetime) -> str:
    shown = display.relative(at)
    here = display.exact(at)
    return shown if _time(row, at).endswith(here) else f"{here}, {shown}"


def last_job(row: Schedule) -> Any:
    """Return the row of the last job, from the table that it is in, or None."""
    if row.last_job_id is None:
        return None
    for model in TABLES:
        found = model._base_manager.using(config().database).filter(pk=row.last_job_id).defer("args", "kwargs").first()
        if found is not None:
            return found
    return None


def outcome(job: Any) -> str | SafeString:
    """Return the state of the last job, and how long it ran."""
    if job is None:
        return gettext("no longer kept")
    end = job.completed_at or (job.failed_at if job.status == Status.DEAD else None)
    if job.claimed_at is None or (end is None and job.status != Status.CLAIMED):
        return display.status(job)
    ran = gettext("ran for %(time)s") if end else gettext("for %(time)s")
    return format_html(
        "{} {}", display.status(job), ran % {"time": display.between(job.claimed_at, end or timezone.now())}
    )


def switched_off(row: Schedule) -> str | SafeString:
    """Return who disabled a schedule, and when; an empty string if it is enabled."""
    if row.enabled:
        return ""
    by = row.disabled_by or (gettext("djqueue, because of a problem") if row.problem else "")
    said = gettext("disabled by %(who)s") % {"who": by} if by else gettext("disabled")
    return format_html("{}, {}", said, display.ago(row.disabled_at)) if row.disabled_at else said


def facts(row: Schedule, url: str) -> list[tuple[Any, Any]]:
    """Return the rows of the table; `url` is the page of the last job."""
    found: list[tuple[Any, Any]] = [(_("Rule"), rule(row)), (_("Next times"), times_text(row))]
    if row.last_job_id is not None:
        link = format_html('<a href="{}">{}</a>', url, row.last_job_id) if url else row.last_job_id
        found.append(
            (_("Last job"), format_html("{}<div>{}, {}</div>", link, outcome(last_job(row)), display.ago(row.last_at)))
        )
    return found
