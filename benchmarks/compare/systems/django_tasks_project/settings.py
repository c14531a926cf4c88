"""A Django project with one of the backends of django.tasks, chosen by COMPARE_SYSTEM.

Connections are kept for a minute, as dj-queue and django-ox advise.
"""

from __future__ import annotations

import os

from benchmarks.compare.systems.database import django_settings

SECRET_KEY = "benchmark"
DATABASES = {"default": django_settings() | {"CONN_MAX_AGE": 60}}
USE_TZ = True
THREADS = int(os.environ.get("COMPARE_THREADS", "8"))

APPS, BACKEND, OPTIONS = {
    "django-tasks-db": (["django_tasks_db"], "django_tasks_db.DatabaseBackend", {}),
    "dj-queue": (
        ["dj_queue"],
        "dj_queue.backend.DjQueueBackend",
        {"workers": [{"queues": "*", "threads": THREADS, "processes": 1, "polling_interval": 0.1}]},
    ),
    "django-ox": (["django_ox"], "django_ox.backend.OxBackend", {}),
}[os.environ["COMPARE_SYSTEM"]]
INSTALLED_APPS = [*APPS, "benchmarks.compare.systems.django_tasks_project"]
TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": OPTIONS}}
LOGGING = {"version": 1, "disable_existing_loggers": False, "root": {"level": "WARNING"}}
