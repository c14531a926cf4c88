"""The form of a schedule: validated like the API, with sensitive arguments masked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.crypto import salted_hmac
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue import schedules
from djqueue.conf import config
from djqueue.core import masking, registry
from djqueue.exceptions import InvalidOption
from djqueue.models import Schedule
from djqueue.schedules.definition import FIELDS
from djqueue.schedules.rows import columns
from djqueue.sql import statements
from djqueue.states import Misfire, Overlap

from .forms import LIST_HELP, OBJECT_HELP, OTHER_TYPES, ArgumentsText

MISFIRES = [
    (Misfire.ONCE.value, _("once: only the latest missed slot fires")),
    (Misfire.SKIP.value, _("skip: no missed slot fires")),
    (Misfire.ALL.value, _("all: every missed slot fires, up to the cap")),
]
OVERLAPS = [
    (Overlap.ALLOW.value, _("allow: the slot fires")),
    (Overlap.SKIP.value, _("skip: the slot does not fire")),
    (Overlap.REPLACE.value, _("replace: the slot fires, and an earlier job that is still waiting is cancelled")),
]
HELP = {
    "cron": _("Minute, hour, day, month, weekday, and optionally seconds. Use either a cron rule or an interval."),
    "every": _("An interval of at least 1 second, instead of a cron rule."),
    "timezone": _("The time zone of the cron rule, such as Europe/Berlin."),
    "queue": _("Leave empty to use the queue of the task."),
    "priority": _(
        "Lower runs first: 100 is high, 1000 normal, 10000 low. Leave empty to use the priority of the task."
    ),
    "jitter": _("Delay each job by a random time of up to this many seconds."),
    "misfire_cap": _("For “all”: at most this many missed slots fire, the latest ones."),
}


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    """The fields of a schedule, or only `enabled` for one from code. An unchanged mask keeps its value."""

    task = forms.ChoiceField(label=_("Task"))
    args = ArgumentsText(label=_("Arguments"), empty=list, help_text=LIST_HELP)
    kwargs = ArgumentsText(
        label=_("Named arguments"), empty=dict, help_text=format_lazy("{} {}", OBJECT_HELP, OTHER_TYPES)
    )
    misfire = forms.ChoiceField(label=_("Missed slots"), choices=MISFIRES)
    overlap = forms.ChoiceField(label=_("If an earlier job is still live"), choices=OVERLAPS)
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Schedule
        fields = [*FIELDS, "enabled"]
        help_texts = HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = self.instance
        if row.pk:
            shown = masking.masked(row.task, row.args, row.kwargs)
            self.initial.update(args=shown[0], kwargs=shown[1], seen=digest(row))
        if "task" in self.fields:
            self.fields["task"].choices = list(task_choices(row.task))  # type: ignore[attr-defined]

    @property
    def definition(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in FIELDS}

    @property
    def changes(self) -> dict[str, Any]:
        """The changed fields of the definition."""
        return {name: self.cleaned_data[name] for name in self.changed_data if name in FIELDS}

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if self.instance.pk and given.get("seen") != digest(self.instance):
            raise ValidationError(
                gettext("This schedule has changed since you opened it. Reload the page and try again.")
            )
        self.refuse_taken_name()
        self.unmask()
        if "task" in self.fields or ("enabled" in self.changed_data and given["enabled"]):
            self.check_definition()
        return given

    def validate_unique(self) -> None:
        """Checked in refuse_taken_name(), in the queue's database."""

    def refuse_taken_name(self) -> None:
        name = self.cleaned_data.get("name")
        if name and Schedule.objects.using(config().database).filter(name=name).exists():
            self.add_error("name", gettext("A schedule with this name already exists."))

    def unmask(self) -> None:
        given, row = self.cleaned_data, self.instance
        args, kwargs, task = given.get("args"), given.get("kwargs"), given.get("task")
        if not isinstance(args, list) or not isinstance(kwargs, dict) or task is None:
            return
        if row.pk and task != row.task:
            # Another task might not mask this argument, which would reveal its value.
            if masking.MASK in [*args, *kwargs.values()]:
                self.add_error("args", gettext("Enter masked values again when you change the task."))
            return
        try:
            given["args"], given["kwargs"] = masking.unmasked(task, args, kwargs, row.args, row.kwargs)
        except KeyError as error:
            text = gettext("%(name)s is masked, but there is no stored value to keep. Enter a value.")
            self.add_error("args", text % {"name": error.args[0]})

    def check_definition(self) -> None:
        given = {name: value for name, value in self.cleaned_data.items() if name in FIELDS}
        kept = {name: value for name, value in columns(self.instance).items() if name not in self.fields}
        definition = kept | given
        if "name" not in definition:
            return
        for name, problem in schedules.problems(**definition).items():
            if name == "cron" and "every" in self.errors:  # it is unknown which of the two was intended
                continue
            if name not in self.errors:
                self.add_error(name if name in self.fields else None, problem)
        if not self.errors and self.cleaned_data["enabled"]:
            try:
                schedules.validate(**definition).first_slot(statements().now())
            except InvalidOption as error:
                self.add_error("ends_at" if "ends_at" in self.fields else None, str(error))


def task_choices(current: str) -> Iterator[tuple[str, str]]:
    """Yield the registered tasks, and the current task even if it is no longer registered."""
    names = {task.name for task in registry.all_tasks()}
    if not current:
        yield "", "---------"
    for name in sorted(names | {current} - {""}):
        yield name, name


def digest(row: Schedule) -> str:
    """Return a hash that detects changes; keyed, because a plain hash would let users guess masked values."""
    text = json.dumps([columns(row), row.enabled], default=str, sort_keys=True)
    return salted_hmac("djqueue.admin.schedule", text, algorithm="sha256").hexdigest()
