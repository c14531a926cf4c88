"""Actions on limit keys: hold, release, set numbers, clear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from djqueue import limits
from djqueue.core import durations
from djqueue.core.limits import MOST, Numbers, read_numbers
from djqueue.exceptions import InvalidOption
from djqueue.models import LimitKey
from djqueue.operations.limits import numbers_text, rate_text
from djqueue.sql import statements

from . import display
from .actions import Act, RowResult


class HoldForm(forms.Form):
    hold = forms.CharField(
        label=_("Hold for"),
        initial="60",
        help_text=_(
            "Seconds, or a duration such as 30s, 5m or 2h. A key that is held for longer already stays held for longer."
        ),
    )

    def clean_hold(self) -> float:
        given = self.cleaned_data["hold"]
        found = durations.parse(given)
        if found is None:
            raise ValidationError(gettext("Enter a duration such as 90, 30s, 5m, 2h or 1d."))
        return found


class NumbersForm(forms.Form):
    """The numbers of a key that are set here. An empty field leaves the number of the task."""

    concurrency = forms.IntegerField(
        label=_("Concurrency"),
        required=False,
        min_value=1,
        max_value=MOST,
        help_text=_("How many jobs may hold a permit at once. Leave empty for the number of the task."),
    )
    rate = forms.CharField(
        label=_("Rate"),
        required=False,
        help_text=_(
            "Jobs per second, minute, hour or day, such as 10/s or 100/m. Leave empty for the rate of the task."
        ),
    )
    burst = forms.IntegerField(
        label=_("Burst"),
        required=False,
        min_value=1,
        max_value=MOST,
        help_text=_("How many jobs of a rate may start at once. Leave empty for those of one second."),
    )

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if not self.errors:
            try:
                read_numbers(given["concurrency"], given["rate"] or None, given["burst"])
            except InvalidOption as error:
                raise ValidationError(str(error)) from None
        return given


def initial_numbers(row: LimitKey) -> dict[str, Any]:
    """Return the numbers that are set for a key, as its form shows them."""
    return {"concurrency": row.concurrency, "rate": row.rate and rate_text(row.rate), "burst": row.burst}


def hold(rows: Sequence[LimitKey], options: Mapping[str, Any]) -> dict[str, str]:
    text = gettext("Held for %(time)s.") % {"time": display.duration(options["hold"])}
    return _each(rows, "held", text, lambda row: limits.hold(row.key, options["hold"]))


def release(rows: Sequence[LimitKey], options: Mapping[str, Any]) -> dict[str, str]:
    now = statements().now()
    held = [row for row in rows if row.held_until is not None and row.held_until > now]
    return _each(held, "released", gettext("Released."), lambda row: limits.release(row.key))


def set_numbers(rows: Sequence[LimitKey], options: Mapping[str, Any]) -> dict[str, str]:
    given = {name: options[name] or None for name in ("concurrency", "rate", "burst")}
    numbers = read_numbers(**given)
    text = gettext("Set to %(numbers)s.") % {"numbers": numbers_text(numbers)}
    return _each(rows, "set", text, lambda row: limits.set(row.key, **given))


def clear(rows: Sequence[LimitKey], options: Mapping[str, Any]) -> dict[str, str]:
    return _each(filter(is_set, rows), "cleared", gettext("Cleared."), lambda row: limits.clear(row.key))


def is_set(row: LimitKey) -> bool:
    return Numbers(row.concurrency, row.rate, row.burst) != Numbers()


def _each(rows: Any, result: str, text: str, act: Callable[[LimitKey], None]) -> dict[str, str]:
    """Act on keys one by one, and give each its text for the log."""
    changed = {}
    for row in rows:
        try:
            act(row)
        except InvalidOption:  # the name of a row that was written by hand
            continue
        row.logged = text
        changed[row.pk] = result
    return changed


HOLD = Act(
    name="hold",
    title=_("Hold limits"),
    question=_(
        "Are you sure you want to hold these limits? No job of their keys is admitted until the time is over or they "
        "are released. Jobs that are claimed continue; the others wait again."
    ),
    button=_("Hold"),
    confirm=ngettext_lazy("Hold %(rows)s limit", "Hold %(rows)s limits", "count"),
    perform=hold,
    results={"held": RowResult(_("%(count)s held"), _("Held."))},
    form=HoldForm,
)
RELEASE = Act(
    name="release",
    title=_("Release limits"),
    question=_("Are you sure you want to release these limits? Their jobs are admitted again. Others are skipped."),
    button=_("Release"),
    confirm=ngettext_lazy("Release %(rows)s limit", "Release %(rows)s limits", "count"),
    perform=release,
    results={"released": RowResult(_("%(count)s released"), _("Released."))},
)
SET = Act(
    name="set",
    title=_("Set the numbers of a limit"),
    question=_(
        "These numbers count in place of those of the tasks, until they are cleared. A lower number takes effect as "
        "jobs end: none is interrupted."
    ),
    button=_("Set numbers"),
    confirm=_("Set the numbers"),
    perform=set_numbers,
    results={"set": RowResult(_("%(count)s set"), _("Set."))},
    form=NumbersForm,
)
CLEAR = Act(
    name="clear",
    title=_("Clear the numbers of limits"),
    question=_("Are you sure you want to clear the numbers that were set here? Those of the tasks count again."),
    button=_("Clear numbers"),
    confirm=ngettext_lazy("Clear %(rows)s limit", "Clear %(rows)s limits", "count"),
    perform=clear,
    results={"cleared": RowResult(_("%(count)s cleared"), _("Cleared."))},
)
ACTS = (HOLD, RELEASE, SET, CLEAR)
# The permission of each action, as in `<name>_limitkey`.
NEEDS = {"hold": "hold", "release": "hold", "set": "change", "clear": "change"}
