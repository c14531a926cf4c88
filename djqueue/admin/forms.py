"""Forms of the confirmation pages, and a form field for JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from djqueue import conf
from djqueue.core import masking, signatures
from djqueue.core.options import normal_run_at
from djqueue.core.payload import MAX_DEPTH, encode_arguments
from djqueue.core.tags import tagged, untagged
from djqueue.exceptions import InvalidArguments, InvalidOption, InvalidPayload

from .display import pretty_json

WEEK = 7 * 24 * 60
LIST_HELP = gettext_lazy("A JSON list. Leave empty for none.")
OBJECT_HELP = gettext_lazy("A JSON object. Leave empty for none.")


class JSONText(forms.CharField):
    """A text area for JSON that reports the position of a syntax error. An empty text means `empty()`, if given."""

    widget = forms.Textarea(attrs={"rows": 8, "cols": 80, "class": "djq-json", "spellcheck": "false"})

    def __init__(self, *, empty: Callable[[], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(required=empty is None, initial=empty, **kwargs)
        self.empty = empty

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else pretty_json(value)

    def to_python(self, value: Any) -> Any:
        text = (value or "").strip()
        if not text and self.empty is not None:
            return self.empty()
        if not text:
            raise ValidationError(_("Enter a value."), code="required")
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValidationError(
                _("Invalid JSON: %(problem)s (line %(line)d, column %(column)d).")
                % {"problem": error.msg, "line": error.lineno, "column": error.colno}
            ) from None
        except (ValueError, RecursionError):
            raise ValidationError(_("This JSON cannot be stored.")) from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare values, not texts: white space does not count, and 1 is not true."""
        try:
            return bool(pretty_json(self.to_python(data)) != self.prepare_value(initial))
        except ValidationError:
            return True

    def validate(self, value: Any) -> None:
        """Skip the checks for texts: null and an empty list are valid values."""

    def run_validators(self, value: Any) -> None:
        """Skip the validators for texts."""


def editable(value: Any) -> str:
    """Return arguments as a form shows them: as they are stored."""
    return pretty_json(tagged(value, MAX_DEPTH))


class ArgumentsText(JSONText):
    """A text area for arguments: JSON, in which other types are written as they are stored."""

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else editable(value)

    def to_python(self, value: Any) -> Any:
        try:
            return untagged(super().to_python(value))
        except InvalidPayload as error:
            raise ValidationError(str(error)) from None
        except RecursionError:
            raise ValidationError(_("This JSON cannot be stored.")) from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.prepare_value(self.to_python(data)) != self.prepare_value(initial))
        except ValidationError:
            return True


OTHER_TYPES = gettext_lazy(
    'Other types are written as {"$decimal": "9.90"}, {"$datetime": "2026-01-31T09:00:00+01:00"}, {"$date": …}, '
    '{"$time": …}, {"$timedelta": "1 12:00:00"}, {"$uuid": …}, {"$bytes": base64} and '
    '{"$model": ["shop.Order", "default", 42]}.'
)


class SpreadForm(forms.Form):
    spread = forms.IntegerField(
        label=gettext_lazy("Spread over (minutes)"),
        min_value=0,
        max_value=WEEK,
        required=False,
        help_text=gettext_lazy("Run each job at a random time within this many minutes. Leave empty to run all now."),
    )


class ArgumentsForm(forms.Form):
    """Arguments of one dead job. Sensitive ones are masked; a mask that is left unchanged keeps its value."""

    args = ArgumentsText(label=gettext_lazy("Arguments"), empty=list, help_text=LIST_HELP)
    kwargs = ArgumentsText(
        label=gettext_lazy("Named arguments"),
        empty=dict,
        help_text=format_lazy("{} {}", OBJECT_HELP, OTHER_TYPES),
    )

    def __init__(self, data: Any, job: Any) -> None:
        self.job = job
        args, kwargs = masking.masked(job.task, job.args, job.kwargs)
        super().__init__(data, initial={"args": editable(args), "kwargs": editable(kwargs)})
        if masking.is_unknown(job.task):
            self.fields["args"].help_text = _(
                "A JSON list. The arguments are hidden because this task is not registered."
            )

    def clean_args(self) -> Any:
        return self._of_kind("args", list, _("Enter a JSON list, such as [42]."))

    def clean_kwargs(self) -> Any:
        return self._of_kind("kwargs", dict, _('Enter a JSON object, such as {"order_id": 42}.'))

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
            signatures.check(job.task, len(args), kwargs)
            encode_arguments(job.task, args, kwargs, {})
        except KeyError as error:
            raise ValidationError(
                _("%(name)s is masked, but there is no stored value to keep. Enter a value.") % {"name": error.args[0]}
            ) from None
        except (InvalidArguments, InvalidPayload) as error:
            raise ValidationError(str(error)) from None
        return {"args": args, "kwargs": kwargs}


class RescheduleForm(forms.Form):
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        required=False,
        min_value=-conf.MAX_PRIORITY,
        max_value=conf.MAX_PRIORITY,
        help_text=gettext_lazy("Lower runs first: 100 is high, 1000 normal, 10000 low. Leave empty to keep it."),
    )
    run_at = forms.SplitDateTimeField(
        label=gettext_lazy("Run at"),
        required=False,
        widget=AdminSplitDateTime,
        help_text=gettext_lazy("The earliest time to run. A time in the past means now. Leave empty to keep it."),
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
            raise ValidationError(_("Enter a priority, a time, or both."))
        return given
