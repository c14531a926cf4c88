"""The questions that go with an act, and JSON that a person types."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from djqueue import conf, masking
from djqueue.exceptions import InvalidOption, InvalidPayload
from djqueue.lifecycle.enqueue import encode_arguments
from djqueue.options import normal_run_at

from .display import pretty_json

WEEK = 7 * 24 * 60


class JSONText(forms.CharField):
    """JSON, with the place of a mistake."""

    widget = forms.Textarea(attrs={"rows": 8, "cols": 80, "class": "djq-json", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else pretty_json(value)

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            raise ValidationError(_("Give a value."), code="required")
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise ValidationError(
                _("This is not JSON: %(problem)s, in line %(line)d, column %(column)d.")
                % {"problem": error.msg, "line": error.lineno, "column": error.colno}
            ) from None
        except (ValueError, RecursionError):
            raise ValidationError(_("This is not JSON that can be stored.")) from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        """As values: other white space is no change, and 1 is not true."""
        try:
            return bool(pretty_json(self.to_python(data)) != self.prepare_value(initial))
        except ValidationError:
            return True

    def validate(self, value: Any) -> None:
        """What is a text's own does not fit values: null is one, and so is an empty list."""

    def run_validators(self, value: Any) -> None:
        """Nor do these."""


class SpreadForm(forms.Form):
    spread = forms.IntegerField(
        label=gettext_lazy("Spread over minutes"),
        min_value=0,
        max_value=WEEK,
        required=False,
        help_text=gettext_lazy("Each job runs at a random moment within so many minutes; empty: all at once."),
    )


class ArgumentsForm(forms.Form):
    """Other arguments for one dead job. Sensitive ones are masked; a mask that is left keeps the value."""

    args = JSONText(label=gettext_lazy("Arguments"), help_text=gettext_lazy("A JSON list."))
    kwargs = JSONText(label=gettext_lazy("Named arguments"), help_text=gettext_lazy("A JSON object."))

    def __init__(self, data: Any, job: Any) -> None:
        self.job = job
        args, kwargs = masking.masked(job.task, job.args, job.kwargs)
        super().__init__(data, initial={"args": pretty_json(args), "kwargs": pretty_json(kwargs)})

    def clean_args(self) -> Any:
        return self._of_kind("args", list, _("This must be a JSON list, such as [42]."))

    def clean_kwargs(self) -> Any:
        return self._of_kind("kwargs", dict, _('This must be a JSON object, such as {"order_id": 42}.'))

    def _of_kind(self, name: str, kind: type, problem: str) -> Any:
        value = self.cleaned_data[name]
        if not isinstance(value, kind):
            raise ValidationError(problem)
        return value

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if "args" not in given or "kwargs" not in given:
            return given
        job = self.job
        try:
            args, kwargs = masking.unmasked(job.task, given["args"], given["kwargs"], job.args, job.kwargs)
            encode_arguments(job.task, args, kwargs, {})
        except KeyError as error:
            raise ValidationError(
                _("%(name)s is masked, but there is no value behind the mask: type one.") % {"name": error.args[0]}
            ) from None
        except InvalidPayload as error:
            raise ValidationError(str(error)) from None
        return {"args": args, "kwargs": kwargs}


class RescheduleForm(forms.Form):
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        required=False,
        min_value=-conf.MAX_INTEGER,
        max_value=conf.MAX_INTEGER,
        help_text=gettext_lazy("Lower runs first: 100 is high, 1000 normal, 10000 low. Empty: as it is."),
    )
    run_at = forms.SplitDateTimeField(
        label=gettext_lazy("Run at"),
        required=False,
        widget=AdminSplitDateTime,
        help_text=gettext_lazy("Not before this time; a time in the past is now. Empty: as it is."),
    )

    def clean_run_at(self) -> Any:
        value = self.cleaned_data["run_at"]
        try:
            return value and normal_run_at(value)
        except InvalidOption as error:
            raise ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if not self.errors and given.get("priority") is None and given.get("run_at") is None:
            raise ValidationError(_("Give a priority, a time, or both."))
        return given
