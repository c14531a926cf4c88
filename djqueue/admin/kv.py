"""KV entries: view, add, edit and delete."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.models import DELETION
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from djqueue import kv
from djqueue.core import payload
from djqueue.core.payload import encode_kv, storable
from djqueue.exceptions import DjqueueError
from djqueue.fields import Unreadable
from djqueue.models import KV

from . import display
from .actions import KEEP, Act, RowResult
from .editing import EditingAdmin
from .forms import JSONText


def delete(entries: Sequence[KV], options: Mapping[str, Any]) -> dict[str, str]:
    return {entry.key: "deleted" for entry in entries if kv.delete(entry.key)}


DELETE = Act(
    name="delete",
    title=_("Delete KV entries"),
    question=_("Are you sure you want to delete these entries?"),
    button=_("Delete"),
    confirm=ngettext_lazy("Delete %(rows)s entry", "Delete %(rows)s entries", "count"),
    decline=KEEP,
    perform=delete,
    results={"deleted": RowResult(_("%(count)s deleted"), _("Deleted."))},
    flag=DELETION,
    danger=True,
)


class Conflict(DjqueueError):
    """The entry was changed between the check and the write."""

    def __init__(self) -> None:
        super().__init__(gettext("This entry was changed by another process at the same time."))


class KVForm(forms.ModelForm):  # type: ignore[type-arg]
    content = JSONText(label=_("Value"), help_text=_("JSON, at most 256 KiB. Strings need double quotes."))
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = KV
        fields = ["key"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.before: Any = None
        if self.instance.pk:
            self.initial["content"] = display.pretty_json(self.instance.value)
            self.initial["seen"] = digest(self.instance.value)

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        key = self.instance.pk or given.get("key")
        if key is None or "content" not in given:
            return given
        if given["content"] is None:
            raise ValidationError({"content": gettext("An entry cannot be null. Delete it instead.")})
        try:
            encode_kv(key, given["content"])
            self.before = kv.get(key)
        except DjqueueError as error:
            raise ValidationError({"content": str(error)}) from None
        except ValueError:  # the stored value was edited by hand and is not JSON
            self.before = self.instance.value
        if self.instance.pk and digest(self.before) != given["seen"]:
            raise ValidationError(gettext("This entry has changed since you opened it. Reload the page and try again."))
        if not self.instance.pk and self.before is not None:
            raise ValidationError({"key": gettext("An entry with this key already exists.")})
        return given

    def validate_unique(self) -> None:
        """Checked in clean(), in the queue's database."""


class KVAdmin(EditingAdmin):
    form = KVForm
    ordering = ("key",)
    list_display = ("key_column", "value_column", "updated_column", "expires_column")
    search_fields = ("key",)
    search_help_text = _("Search by the beginning of a key.")
    json_columns = ("value",)
    updated_time = display.time_of("updated_at", _("updated at"))
    expires_time = display.time_of("expires_at", _("expires at"))
    readonly_fields = ("updated_time", "expires_time")
    fields = ("key", "content", "seen", "updated_time", "expires_time")
    actions = ("delete",)
    act_fields = ("key",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return self.readonly_fields
        shown = ("key", *self.readonly_fields)
        return shown if self.has_change_permission(request, obj) else (*shown, "content")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return ("key", "content")
        return self.fields if self.has_change_permission(request, obj) else ("key", "content", *self.readonly_fields)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not storable(search_term):
            return queryset.none(), False
        return (queryset.filter(key__startswith=search_term) if search_term else queryset), False

    def save_model(self, request: HttpRequest, obj: KV, form: Any, change: bool) -> None:
        """Save only if the value is still the one that the form showed; keep the expiry."""
        value = form.cleaned_data["content"]
        if isinstance(form.before, Unreadable):
            kv.set(obj.key, value)
        elif not kv.compare_and_set(obj.key, form.before, value):
            raise Conflict

    @admin.action(permissions=["discard"], description=_("Delete selected %(verbose_name_plural)s"))
    def delete(self, request: HttpRequest, queryset: QuerySet[KV]) -> HttpResponse:
        return self.ask(request, queryset, DELETE)

    @admin.display(description=_("key"))
    def key_column(self, obj: KV) -> str:
        return str(obj.key)

    @admin.display(description=_("value"))
    def value_column(self, obj: Any) -> str:
        value = obj.short_value
        return gettext("(too long to show)") if value is None else display.short_json(value, 100)

    @admin.display(description=_("value"))
    def content(self, obj: KV) -> str:
        return display.pretty_json(obj.value)

    @admin.display(description=_("updated"))
    def updated_column(self, obj: KV) -> str:
        return display.ago(obj.updated_at)

    @admin.display(description=_("expires"))
    def expires_column(self, obj: KV) -> str:
        return display.ago(obj.expires_at)


def digest(value: Any) -> str:
    text = str(value) if isinstance(value, Unreadable) else payload.canonical(value, "value")
    return hashlib.sha256(text.encode()).hexdigest()
