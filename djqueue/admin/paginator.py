"""Pagination for large tables: read the ids once, up to a cap, and slice pages from them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format

CAP = 10_000


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Paginate the first 10,000 rows; beyond these, know only that there are more."""

    cap = CAP
    object_list: QuerySet[Any]

    @cached_property
    def ids(self) -> list[Any]:
        """The primary keys, read once for both the count and the page."""
        return list(self.object_list.values_list("pk", flat=True)[: self.cap + 1])

    @property
    def capped(self) -> bool:
        return len(self.ids) > self.cap

    @cached_property
    def count(self) -> int:
        return min(len(self.ids), self.cap)

    @property
    def shown_count(self) -> str:
        return number_format(self.count, force_grouping=True) + ("+" if self.capped else "")

    def rows(self, start: int, end: int) -> QuerySet[Any]:
        return self.object_list.filter(pk__in=self.ids[start:end])


class CappedChangeList(ChangeList):
    """A change list with a capped paginator that reads only the columns it shows."""

    paginator: CappedPaginator
    model_admin: Any

    def get_ordering_field(self, field_name: Any) -> Any:
        """Ignore `?o=` for a column that cannot be sorted."""
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Let the primary key follow the direction of the sorted column, so that one index serves both."""
        ordering = list(super().get_ordering(request, queryset))
        ascending = ordering[0] if ordering and isinstance(ordering[0], str) else "-"
        return ["pk" if name == "-pk" and not ascending.startswith("-") else name for name in ordering]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        start, end = 0, self.paginator.count
        if self.multi_page and not (self.show_all and self.can_show_all):
            start = (self.page_num - 1) * self.list_per_page
            end = min(end, start + self.list_per_page)
        self.result_list = self.model_admin.for_list(self.paginator.rows(start, end))
