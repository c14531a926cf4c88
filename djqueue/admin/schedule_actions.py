"""Actions on schedules: enable, disable, run now, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.contrib.admin.models import DELETION
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from djqueue import schedules
from djqueue.exceptions import DjqueueError, UnknownSchedule
from djqueue.models import Schedule

from .actions import KEEP, Act, RowResult

REFUSALS = "refusals"  # key in the options: a list that collects why rows were skipped
BY = "by"  # key in the options: the name of the user


def each(
    act: Callable[[str], object], rows: Sequence[Schedule], options: Mapping[str, Any], result: str
) -> dict[int, str]:
    """Call the API for each row, in a transaction per row; skip rows that the API rejects, and collect the reasons."""
    changed = {}
    for row in rows:
        try:
            if act(row.name) is not False:
                changed[row.pk] = result
        except UnknownSchedule:
            continue  # deleted meanwhile
        except DjqueueError as error:
            options[REFUSALS].append(str(error))
    return changed


def enable(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    off = [row for row in rows if not row.enabled or row.next_at is None]
    return each(schedules.enable, off, options, "enabled")


def disable(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    # A schedule that was disabled because of a problem is not yet disabled by an operator.
    on = [row for row in rows if row.enabled or row.problem]
    return each(partial(schedules.disable, by=options[BY]), on, options, "disabled")


def run_now(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    return each(schedules.run_now, rows, options, "ran")


def delete(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    return each(schedules.delete, rows, options, "deleted")


ENABLE = Act(
    name="enable",
    title=_("Enable schedules"),
    question=_(
        "Are you sure you want to enable these schedules? Slots that passed while they were disabled are skipped."
    ),
    button=_("Enable"),
    confirm=ngettext_lazy("Enable %(rows)s schedule", "Enable %(rows)s schedules", "count"),
    perform=enable,
    results={"enabled": RowResult(_("%(count)s enabled"), _("Enabled."))},
)
DISABLE = Act(
    name="disable",
    title=_("Disable schedules"),
    question=_("Are you sure you want to disable these schedules? A deployment does not enable them again."),
    button=_("Disable"),
    confirm=ngettext_lazy("Disable %(rows)s schedule", "Disable %(rows)s schedules", "count"),
    perform=disable,
    results={"disabled": RowResult(_("%(count)s disabled"), _("Disabled."))},
)
RUN_NOW = Act(
    name="run_now",
    title=_("Run schedules now"),
    question=_(
        "Are you sure you want to enqueue a job for each of these schedules now? The rule, the overlap policy and "
        "whether the schedule is enabled are ignored."
    ),
    button=_("Run now"),
    confirm=ngettext_lazy("Run %(rows)s schedule now", "Run %(rows)s schedules now", "count"),
    perform=run_now,
    results={"ran": RowResult(_("%(count)s enqueued"), _("Enqueued a job now."))},
)
DELETE = Act(
    name="delete",
    title=_("Delete schedules"),
    question=_(
        "Are you sure you want to delete these schedules? Their jobs are kept. Schedules declared in code are skipped."
    ),
    button=_("Delete"),
    confirm=ngettext_lazy("Delete %(rows)s schedule", "Delete %(rows)s schedules", "count"),
    decline=KEEP,
    perform=delete,
    results={"deleted": RowResult(_("%(count)s deleted"), _("Deleted."))},
    flag=DELETION,
    danger=True,
)
