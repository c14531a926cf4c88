from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from .tasks import charge, send_welcome


def sign_up(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        user = User.objects.create_user(request.POST["name"], request.POST["email"])
        send_welcome.enqueue(user.pk)
    return HttpResponse(status=201)


def pay(request: HttpRequest, order_id: int) -> HttpResponse:
    charge.using(dedup_key=f"charge:{order_id}").enqueue(order_id)
    return HttpResponse(status=202)
