"""What people do to schedules: switch them on and off, run them now, delete them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.contrib.admin.models import DELETION
from django.utils.translation import gettext_lazy as _

from djqueue import schedules
from djqueue.exceptions import DjqueueError, UnknownSchedule
from djqueue.models import Schedule

from .actions import Act, Fate

REFUSALS = "refusals"  # among the options: a list for the reasons of what was skipped


def each(
    act: Callable[[str], object], rows: Sequence[Schedule], options: Mapping[str, Any], fate: str
) -> dict[int, str]:
    """By the API, a transaction for each: what it refuses is skipped, and told why."""
    became = {}
    for row in rows:
        try:
            if act(row.name) is not False:
                became[row.pk] = fate
        except UnknownSchedule:
            continue  # somebody was faster
        except DjqueueError as error:
            options[REFUSALS].append(str(error))
    return became


def enable(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    off = [row for row in rows if not row.enabled or row.next_at is None]
    return each(schedules.enable, off, options, "enabled")


def disable(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    # One that switched itself off is not yet switched off by a person.
    on = [row for row in rows if row.enabled or row.problem]
    return each(schedules.disable, on, options, "disabled")


def run_now(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    return each(schedules.run_now, rows, options, "ran")


def delete(rows: Sequence[Schedule], options: Mapping[str, Any]) -> dict[int, str]:
    return each(schedules.delete, rows, options, "deleted")


ENABLE = Act(
    name="enable",
    title=_("Enable schedules"),
    question=_("Switch these schedules on? What would have fired meanwhile is not made up for."),
    button=_("Enable"),
    perform=enable,
    fates={"enabled": Fate(_("%(count)s enabled"), _("Enabled."))},
)
DISABLE = Act(
    name="disable",
    title=_("Disable schedules"),
    question=_("Switch these schedules off? They stay so until somebody switches them on: a deploy does not."),
    button=_("Disable"),
    perform=disable,
    fates={"disabled": Fate(_("%(count)s disabled"), _("Disabled."))},
)
RUN_NOW = Act(
    name="run_now",
    title=_("Run schedules now"),
    question=_("Enqueue a job of each of these schedules now, whatever its rule, its switch and its overlap say?"),
    button=_("Run now"),
    perform=run_now,
    fates={"ran": Fate(_("%(count)s enqueued"), _("Ran now."))},
)
DELETE = Act(
    name="delete",
    title=_("Delete schedules"),
    question=_("Delete these schedules? Their jobs stay. Those that are declared in code are skipped."),
    button=_("Delete"),
    perform=delete,
    fates={"deleted": Fate(_("%(count)s deleted"), _("Deleted."))},
    flag=DELETION,
    danger=True,
)
