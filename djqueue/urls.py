"""Probes and numbers for machines, and progress for visitors: `path("djqueue/", include("djqueue.urls"))`."""

from __future__ import annotations

from django.urls import path

from . import views
from .progress import views as progress

app_name = "djqueue"
urlpatterns = [
    path("live/", views.live, name="live"),
    path("ready/", views.ready, name="ready"),
    path("stats.json", views.stats, name="stats"),
    path("metrics", views.metrics, name="metrics"),
    path("progress/<str:token>/", progress.status, name="progress"),
    path("progress/<str:token>/cancel/", progress.cancel, name="progress-cancel"),
]
