"""Common base of the admin classes: the queue's database, bounded lists, and read-only by default."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from djqueue.conf import config
from djqueue.core.payload import storable
from djqueue.operations.search import for_list

from .paginator import CappedChangeList, CappedPaginator


class QueueModelAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Read-only, except for the actions that a subclass adds."""

    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by: ClassVar[tuple[str, ...]] = ()
    list_per_page = 50
    object_history_template = "admin/djqueue/history.html"
    json_columns: ClassVar[tuple[str, ...]] = ()  # shown in the list if they are short
    unread_columns: ClassVar[tuple[str, ...]] = ()  # possibly large, and not read for the list

    class Media:
        css = {"all": ["djqueue/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).using(config().database)
        return rows

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return None for a value that cannot be a primary key; the database might reject the query."""
        return super().get_object(request, object_id, from_field) if self.is_possible_pk(object_id) else None

    def is_possible_pk(self, value: str) -> bool:
        try:
            self.opts.pk.clean(value, None)
        except ValidationError:
            return False
        return storable(value)

    def for_list(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Defer the large columns of a page's rows: `short_args` is None where `args` is long."""
        return for_list(rows, self.json_columns, self.unread_columns)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CappedChangeList]:
        return CappedChangeList

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow only the list's own filters: `?kwargs__contains=` would reveal masked values and scan the table."""
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
        """Return whether the user has the permission `<action>_<model>`."""
        return bool(request.user.has_perm(f"{self.opts.app_label}.{action}_{self.opts.model_name}"))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_own_permission(request, "view") or self.has_own_permission(request, "change")

    def url(self, view: str, *args: Any, model: Any = None) -> str:
        """Return the URL of a view on this site, or an empty string if the model is not registered on it."""
        opts = (model or self.model)._meta
        return self.site_url(f"{opts.app_label}_{opts.model_name}_{view}", *args)

    def site_url(self, name: str, *args: Any) -> str:
        try:
            return reverse(f"admin:{name}", args=args, current_app=self.admin_site.name)
        except NoReverseMatch:
            return ""
