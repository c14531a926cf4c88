"""A PgBouncer in transaction mode before the PostgreSQL of the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.db import connections

from tests.tools import eventually

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
PORT = 6432
CONFIG = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
pool_mode = transaction
auth_type = any
listen_port = {own_port}
unix_socket_dir = {folder}
ignore_startup_parameters = extra_float_digits,options
"""


@contextmanager
def pgbouncer(alias: str) -> Iterator[dict[str, Any]]:
    """Start one; yield the settings of a connection through it to the database of the alias, which uses a socket."""
    settings = connections[alias].settings_dict
    params = connections[alias].get_connection_params()
    server = Path(params["host"])
    folder = Path(tempfile.mkdtemp(prefix="djqueue-pgb-"))
    try:
        values = {"host": server, "port": params.get("port", 5432), "user": params.get("user", "postgres")}
        (folder / "pgbouncer.ini").write_text(CONFIG.format(**values, own_port=PORT, folder=folder))
        owner = server.stat()  # it refuses to run as root, and must reach the server's socket
        if os.getuid() == 0:
            os.chown(folder, owner.st_uid, owner.st_gid)
            as_owner = {"user": owner.st_uid, "group": owner.st_gid}
        else:
            as_owner = {}
        process = subprocess.Popen([PROGRAM, "-q", folder / "pgbouncer.ini"], stderr=subprocess.DEVNULL, **as_owner)
        try:
            eventually(lambda: _accepts(f"{folder}/.s.PGSQL.{PORT}"), 30)
            yield {**settings, "HOST": str(folder), "PORT": str(PORT), "OPTIONS": {}}
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(folder)


def _accepts(path: str) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return True
    return False
