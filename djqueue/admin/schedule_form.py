"""A schedule as a person writes it: checked like the API's, and masked where its task says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from djqueue import masking, registry, schedules
from djqueue.conf import config
from djqueue.definitions import FIELDS
from djqueue.exceptions import InvalidOption
from djqueue.models import Schedule
from djqueue.sql import statements
from djqueue.states import Misfire, Overlap
from djqueue.timetable import columns

from .forms import JSONText

MISFIRES = [
    (Misfire.ONCE.value, _("once: the last of them fires")),
    (Misfire.SKIP.value, _("skip: none fires")),
    (Misfire.ALL.value, _("all: each fires, up to the cap")),
]
OVERLAPS = [
    (Overlap.ALLOW.value, _("allow: the slot fires")),
    (Overlap.SKIP.value, _("skip: the slot does not fire")),
    (Overlap.REPLACE.value, _("replace: the slot fires, and a job that still waits is cancelled")),
]
HELP = {
    "cron": _("Minute, hour, day, month, weekday, and a sixth field for seconds if you like; or give an interval."),
    "every": _("Instead of a cron rule: an interval of a second or more."),
    "timezone": _("The clock on whose wall the cron rule is read, such as Europe/Berlin."),
    "queue": _("Empty: the task's."),
    "priority": _("Lower runs first: 100 is high, 1000 normal, 10000 low. Empty: the task's."),
    "jitter": _("Each job runs up to so many seconds after its slot."),
    "misfire_cap": _("With all: how many of the latest slots fire."),
}


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    """The whole of a schedule, or its switch alone, as the page has fields. A mask that is left keeps the value."""

    task = forms.ChoiceField(label=_("Task"))
    args = JSONText(label=_("Arguments"), required=False, help_text=_("A JSON list."))
    kwargs = JSONText(label=_("Named arguments"), required=False, help_text=_("A JSON object."))
    misfire = forms.ChoiceField(label=_("When slots were missed"), choices=MISFIRES)
    overlap = forms.ChoiceField(label=_("While an earlier job is live"), choices=OVERLAPS)
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
        """What a person changed of the definition."""
        return {name: self.cleaned_data[name] for name in self.changed_data if name in FIELDS}

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if self.instance.pk and given.get("seen") != digest(self.instance):
            raise ValidationError(gettext("Somebody has changed this schedule since you opened it: look again."))
        self.refuse_taken_name()
        self.unmask()
        if "task" in self.fields or ("enabled" in self.changed_data and given["enabled"]):
            self.check_definition()
        return given

    def validate_unique(self) -> None:
        """Done here, in the queue's database."""

    def refuse_taken_name(self) -> None:
        name = self.cleaned_data.get("name")
        if name and Schedule.objects.using(config().database).filter(name=name).exists():
            self.add_error("name", gettext("There is a schedule of this name already."))

    def unmask(self) -> None:
        given, row = self.cleaned_data, self.instance
        args, kwargs, task = given.get("args"), given.get("kwargs"), given.get("task")
        if not isinstance(args, list) or not isinstance(kwargs, dict) or task is None:
            return
        if row.pk and task != row.task:
            # Under another task, the value behind a mask could be read.
            if masking.MASK in [*args, *kwargs.values()]:
                self.add_error("args", gettext("With another task, type anew what is masked."))
            return
        try:
            given["args"], given["kwargs"] = masking.unmasked(task, args, kwargs, row.args, row.kwargs)
        except KeyError as error:
            text = gettext("%(name)s is masked, but there is no value behind the mask: type one.")
            self.add_error("args", text % {"name": error.args[0]})

    def check_definition(self) -> None:
        given = {name: value for name, value in self.cleaned_data.items() if name in FIELDS}
        kept = {name: value for name, value in columns(self.instance).items() if name not in self.fields}
        definition = kept | given
        if "name" not in definition:
            return
        for name, problem in schedules.problems(**definition).items():
            if name == "cron" and "every" in self.errors:  # which of the two is missing cannot be told
                continue
            if name not in self.errors:
                self.add_error(name if name in self.fields else None, problem)
        if not self.errors and self.cleaned_data["enabled"]:
            try:
                schedules.validate(**definition).first_slot(statements().now())
            except InvalidOption as error:
                self.add_error("ends_at" if "ends_at" in self.fields else None, str(error))


def task_choices(current: str) -> Iterator[tuple[str, str]]:
    """The tasks of this process; of a schedule whose task is gone, that one too."""
    names = {task.name for task in registry.all_tasks()}
    if not current:
        yield "", "---------"
    for name in sorted(names | {current} - {""}):
        yield name, name


def digest(row: Schedule) -> str:
    """Tells whether a schedule is as it was; with the site's key, because a bare hash lets one guess what is masked."""
    text = json.dumps([columns(row), row.enabled], default=str, sort_keys=True)
    return salted_hmac("djqueue.admin.schedule", text, algorithm="sha256").hexdigest()
