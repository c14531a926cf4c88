"""`manage.py runworker` on a test database: `python -m tests.worker.main ALIAS NAME [arguments …]`."""

from __future__ import annotations

import sys

import django
from django.conf import settings
from django.core.management import call_command

if __name__ == "__main__":
    alias, name, *arguments = sys.argv[1:]
    settings.DJQUEUE = {"DATABASE": alias, "SHUTDOWN_GRACE": 20}
    settings.DATABASES[alias]["NAME"] = name
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "tests.worker"]
    django.setup()
    call_command("runworker", *arguments)
