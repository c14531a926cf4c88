"""Models that can be added, changed and deleted in the admin, always through djqueue's API."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.translation import gettext

from djqueue.exceptions import DjqueueError

from .actions import ActingAdmin


class EditingAdmin(ActingAdmin):
    """Django's forms, saved through djqueue's API."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_own_permission(request, "add")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_own_permission(request, "change")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Check Django's delete permission. Django's delete views stay disabled: they bypass djqueue's API."""
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
        except DjqueueError as error:  # valid when the form was checked, but no longer
            text = gettext("Not saved: %(problem)s") % {"problem": error}
            self.message_user(request, text, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
