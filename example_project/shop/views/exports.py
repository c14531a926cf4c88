from __future__ import annotations

from uuid import UUID

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from example_project.shop.models import Export
from example_project.shop.pages import show, show_job
from example_project.shop.tasks import export_orders


@staff_member_required
def export(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return show_job("shop:export", export_orders.enqueue())
    context = {"exports": Export.objects.defer("csv").order_by("-pk")[:5]}
    return show(request, "shop/office/export.html", [export_orders], **context)


@staff_member_required
def download(request: HttpRequest, job: UUID) -> HttpResponse:
    found = get_object_or_404(Export, job=job)
    headers = {"Content-Disposition": 'attachment; filename="orders.csv"'}
    return HttpResponse(found.csv, content_type="text/csv", headers=headers)
