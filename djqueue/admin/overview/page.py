"""The page of the overview, the fragment that refreshes it, and its entry in the admin's index."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.apps import apps
from django.apps.registry import Apps
from django.contrib.auth import get_permission_codename
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import get_script_prefix, path
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import format_lazy
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from djqueue.admin.base import QueueModelAdmin
from djqueue.models import DeadJob, Job, QueueState, Schedule, Worker

from .links import Links
from .parts import Viewer, rendered

# Seconds between two refreshes of an open page, and while a worker may soon be lost: a killed one turns up within 20.
REFRESH, REFRESH_SOON = 10, 3
SHOWN_MODELS = (Job, DeadJob, QueueState, Worker, Schedule)
CONTROLS = ("pause", "resume")


class Overview(models.Model):
    """An entry of the admin's index, and nothing else.

    In a registry of its own, it is no model of the project: it has no table, migration, content type or permissions.
    """

    class Meta:
        app_label = "djqueue"
        apps = Apps()
        managed = False
        default_permissions = ()
        verbose_name = _("overview")
        # The index sorts by this name; the space, which HTML does not show, makes it the first.
        verbose_name_plural = format_lazy(" {}", _("Overview"))

    def __str__(self) -> str:
        return gettext("Overview")


class OverviewAdmin(QueueModelAdmin):
    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="djqueue_overview_changelist")]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_view(request, Job)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if wanted := request.GET.get("find", "").strip():
            return HttpResponseRedirect(self.found(wanted))
        viewer = self.viewer(request)
        if "fragment" in request.GET:
            return HttpResponse(rendered(viewer, Links(self, viewer.may), request.GET.get("seen", "")))
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            "admin/djqueue/overview/page.html",
            {
                **self.admin_site.each_context(request),
                "title": gettext("Overview"),
                "cl": {"opts": crumbs()},
                "opts": self.opts,
                "media": self.media,
                "actions_on_top": True,  # otherwise the parent template has an inline style
                "parts": rendered(viewer, Links(self, viewer.may)),
                "refresh": REFRESH,
                "refresh_soon": REFRESH_SOON,
                "queues_url": self.url("changelist", model=QueueState),
                **(extra_context or {}),
            },
        )

    def found(self, wanted: str) -> str:
        """Return the page of a job, whichever table it is in, or the list that is searched for anything else."""
        try:
            return self.url("change", UUID(wanted), model=Job)
        except ValueError:
            return f"{self.url('changelist', model=Job)}?{urlencode({'q': wanted})}"

    def viewer(self, request: HttpRequest) -> Viewer:
        """Return what the parts depend on, beside the data: permissions, language and time zone."""
        may = {f"view_{model._meta.model_name}" for model in SHOWN_MODELS if may_view(request, model)}
        may |= {act for act in CONTROLS if request.user.has_perm(f"djqueue.{act}_queuestate")}
        zone = timezone.get_current_timezone_name()
        return Viewer(self.admin_site.name, get_script_prefix(), frozenset(may), get_language(), zone)


def may_view(request: HttpRequest, model: Any) -> bool:
    codenames = (get_permission_codename(action, model._meta) for action in ("view", "change"))
    return any(request.user.has_perm(f"{model._meta.app_label}.{codename}") for codename in codenames)


def crumbs() -> dict[str, Any]:
    """Return what the breadcrumbs of Django's template read of a model's options."""
    return {
        "app_label": "djqueue",
        "app_config": apps.get_app_config("djqueue"),
        "verbose_name_plural": gettext("Overview"),
    }
