from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", include("example_project.shop.urls")),
    path("admin/", admin.site.urls),
    path("favicon.ico", RedirectView.as_view(url=static("shop/leaf.svg"))),
    path("djqueue/", include("djqueue.urls")),  # the probes, and what {% djqueue_progress %} reads
]
