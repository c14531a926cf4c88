"""`manage.py` for benchmarks: `python -m benchmarks.manage djqueue stats`, on DATABASE_URL."""

from __future__ import annotations

import sys

import environ
from django.conf import settings
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    settings.configure(
        DATABASES={"default": environ.Env().db("DATABASE_URL")}, INSTALLED_APPS=["djqueue", "benchmarks"], USE_TZ=True
    )
    execute_from_command_line(["manage.py", *sys.argv[1:]])
