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

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
PORT = 6432
# A client with several transactions gets another server connection for each: state of the session would be missed.
CONFIG = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
pool_mode = transaction
auth_type = any
listen_port = {own_port}
unix_socket_dir = {folder}
ignore_startup_parameters = extra_float_digits,options
default_pool_size = {pool_size}
min_pool_size = 4
server_round_robin = 1
"""
POOL_SIZE = 20


def server_folder(settings: dict[str, Any]) -> Path | None:
    """Return the folder of the server's socket, or None if these settings do not use one."""
    host = settings.get("OPTIONS", {}).get("host") or settings.get("HOST") or ""
    return Path(host) if host.startswith("/") else None


@contextmanager
def pgbouncer(alias: str, folder: Path | None = None) -> Iterator[dict[str, Any]]:
    """Start one; yield the settings of a connection through it to the database of the alias, which uses a socket."""
    from tests.tools import eventually  # it imports models, and the settings import this module

    settings = connections[alias].settings_dict
    params = connections[alias].get_connection_params()
    server = Path(params["host"])
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="djqueue-pgb-"))
    else:
        folder.mkdir()
    try:
        values = {"host": server, "port": params.get("port", 5432), "user": params.get("user", "postgres")}
        text = CONFIG.format(**values, own_port=PORT, folder=folder, pool_size=POOL_SIZE)
        (folder / "pgbouncer.ini").write_text(text)
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
            process.kill()  # newer versions wait for their clients after SIGTERM
            process.wait(30)
    finally:
        shutil.rmtree(folder)


def _accepts(path: str) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return True
    return False
