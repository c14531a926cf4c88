"""The database of a benchmark: DATABASE_URL, or a temporary PostgreSQL that is removed at the end."""

from __future__ import annotations

import django
from django.conf import settings
from django.core.management import call_command

from tests import postgres


def set_up() -> None:
    """Configure Django with one migrated PostgreSQL database."""
    settings.configure(DATABASES={"default": postgres.settings()}, INSTALLED_APPS=["djqueue"], USE_TZ=True)
    django.setup()
    call_command("migrate", verbosity=0)
