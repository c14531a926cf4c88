"""COMPARE_DATABASE, the URL of the database of a system, in the forms that the systems need."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

URL = os.environ.get("COMPARE_DATABASE", "")


def django_settings() -> dict[str, Any]:
    """Return the settings of Django's default database; SQLite with the options that its documentation advises."""
    parts = urlsplit(URL)
    if parts.scheme == "sqlite":
        options = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        }
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.path, "OPTIONS": options}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or "") or parse_qs(parts.query).get("host", [""])[0],
        "PORT": parts.port or "",
    }
