"""List the schedules."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from djqueue.core.durations import in_words
from djqueue.models import Schedule
from djqueue.sql import statements

from . import texts
from .output import NOTHING, Column, Output, add_json, relative

FIELDS = (
    *("name", "task", "cron", "every", "timezone", "queue", "priority", "misfire", "overlap", "enabled", "problem"),
    *("from_code", "removed_from_code", "starts_at", "ends_at", "next_at", "last_at", "last_job_id"),
    *("disabled_at", "disabled_by"),
)
HEAD = (
    Column("NAME", narrowest=12),
    Column("RULE", keep_start=True, narrowest=12),
    Column("ZONE"),
    Column("NEXT", whole=True),
    Column("LAST", whole=True),
    Column("ENABLED", whole=True),
)


def add_arguments(parser: ArgumentParser) -> None:
    add_json(parser)


def run(output: Output, options: dict[str, Any]) -> int:
    found = list(Schedule.objects.using(statements().alias).order_by("name").values(*FIELDS))
    if options["json"]:
        output.json({"schedules": found})
        return 0
    if not found:
        output.line(
            'There are no schedules. Declare one with @djqueue.task(cron="0 3 * * *"), or add one in the admin.'
        )
        return 0
    now = statements().now()
    output.table(HEAD, [row(schedule, now) for schedule in found])
    for schedule in found:
        if schedule["problem"]:
            output.line(f"{texts.clean(schedule['name'])}: {texts.first_line(schedule['problem'])}")
    return 0


def row(schedule: dict[str, Any], now: datetime) -> tuple[str, ...]:
    return (
        schedule["name"],
        schedule["cron"] or f"every {in_words(schedule['every'] or 0)}",
        schedule["timezone"] if schedule["cron"] else NOTHING,
        relative(schedule["next_at"], now),
        relative(schedule["last_at"], now),
        "yes" if schedule["enabled"] else "no: problem" if schedule["problem"] else "no",
    )
