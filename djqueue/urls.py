"""Probes and numbers for machines: `path("djqueue/", include("djqueue.urls"))`."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "djqueue"
urlpatterns = [
    path("live/", views.live, name="live"),
    path("ready/", views.ready, name="ready"),
    path("stats.json", views.stats, name="stats"),
    path("metrics", views.metrics, name="metrics"),
]
