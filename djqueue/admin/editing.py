"""Rows that people may add, change and delete, each by its permission, and only through the API."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.translation import gettext

from djqueue.exceptions import DjqueueError

from .actions import ActingAdmin


class EditingAdmin(ActingAdmin):
    """Django's forms over our own writers."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "add")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_own_permission(request, "change")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Django's own permission; its own delete views stay closed, because they know nothing of the API."""
        return self.has_own_permission(request, "delete")

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except DjqueueError as error:  # what was right when the form was checked is not any more
            text = gettext("Nothing was written: %(problem)s") % {"problem": error}
            self.message_user(request, text, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
