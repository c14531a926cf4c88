"""The settings of a user who checks types."""

from __future__ import annotations

SECRET_KEY = "typing"
USE_TZ = True
INSTALLED_APPS = ["djqueue", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
DJQUEUE = {"QUEUES": {"mail": {"concurrency": 2}}}
