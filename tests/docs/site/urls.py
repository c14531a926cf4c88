from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("djqueue/", include("djqueue.urls")),
    path("sign-up/", views.sign_up, name="sign_up"),
    path("orders/<int:order_id>/pay/", views.pay, name="pay"),
]
