"""A Django project with djqueue in its default settings."""

from __future__ import annotations

from benchmarks.compare.systems.database import django_settings

SECRET_KEY = "benchmark"
DATABASES = {"default": django_settings()}
INSTALLED_APPS = ["djqueue", "benchmarks.compare.systems.djqueue_project"]
USE_TZ = True
