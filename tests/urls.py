"""The default admin site, and a second one with a subclass of a djqueue admin."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpResponse
from django.urls import include, path

from djqueue.admin import DeadJobAdmin
from djqueue.admin import register as register_queue
from djqueue.models import DeadJob
from tests.app import pages


class OwnDeadJobAdmin(DeadJobAdmin):
    list_per_page = 7
    list_filter = (*DeadJobAdmin.list_filter, "max_attempts")


backstage = admin.AdminSite(name="backstage")
backstage.register(DeadJob, OwnDeadJobAdmin)
register_queue(backstage)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("backstage/", backstage.urls),
    path("djqueue/", include("djqueue.urls")),
    path("bars/", pages.bars),
    path("ready/", pages.ready),
    path("favicon.ico", lambda request: HttpResponse(status=204)),  # browsers ask for it
]
