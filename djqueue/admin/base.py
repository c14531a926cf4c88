"""What all our admin classes have in common: the queue's database, bounded lists, and nothing edited by default."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Case, F, QuerySet, When
from django.db.models.functions import Length
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from djqueue.conf import config
from djqueue.fields import JSONTextField

from .paginator import CappedChangeList, CappedPaginator

LONGEST_SHOWN = 2_000  # characters of a JSON value that a list reads


class QueueModelAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Look, and act only by what a subclass offers."""

    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by: ClassVar[tuple[str, ...]] = ()
    list_per_page = 50
    json_columns: ClassVar[tuple[str, ...]] = ()  # shown in the list, when they are short
    unread_columns: ClassVar[tuple[str, ...]] = ()  # not shown in the list, and possibly large

    class Media:
        css = {"all": ["djqueue/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).using(config().database)
        return rows

    def for_list(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The rows of a page, without their large columns: `short_args` is None where `args` is long."""
        shown = {f"short_{name}": if_short(name) for name in self.json_columns}
        sizes = {f"{name}_size": Length(name) for name in self.json_columns}
        light: QuerySet[Any] = rows.defer(*self.json_columns, *self.unread_columns).alias(**sizes).annotate(**shown)
        return light

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CappedChangeList]:
        return CappedChangeList

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only the filters of the list: `?kwargs__contains=` would find out what is masked, and walk the table."""
        for one in self.get_list_filter(request) if request else self.list_filter:
            field = one[0] if isinstance(one, tuple | list) else one  # a subclass may name fields
            known = field if isinstance(field, str) else getattr(field, "parameter_name", None)
            if lookup == known or (isinstance(field, str) and lookup.rpartition("__")[0] == field):
                return True
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_own_permission(self, request: HttpRequest, action: str) -> bool:
        """Whether the user has `<action>_<model>`."""
        return bool(request.user.has_perm(f"{self.opts.app_label}.{action}_{self.opts.model_name}"))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_own_permission(request, "view") or self.has_own_permission(request, "change")

    def url(self, view: str, *args: Any, model: Any = None) -> str:
        """The address of a view on this site; empty when that model is not on it."""
        opts = (model or self.model)._meta
        try:
            return reverse(
                f"admin:{opts.app_label}_{opts.model_name}_{view}", args=args, current_app=self.admin_site.name
            )
        except NoReverseMatch:
            return ""


def if_short(name: str) -> Case:
    return Case(When(**{f"{name}_size__lte": LONGEST_SHOWN}, then=F(name)), output_field=JSONTextField())
