"""`manage.py djqueue` on a test database: `python -m tests.processes.djqueue_command ALIAS NAME arguments …`."""

from __future__ import annotations

import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    alias, name, *arguments = sys.argv[1:]
    settings.DJQUEUE = {"DATABASE": alias}
    settings.DATABASES[alias]["NAME"] = name
    django.setup()
    execute_from_command_line(["manage.py", "djqueue", *arguments])
