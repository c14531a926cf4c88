"""The PostgreSQL and the Redis of a comparison, if none are named. They are removed at the end.

The PostgreSQL comes from the packages of the operating system, which have pg_stat_statements, or else from the wheel
that the tests use.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

SETTINGS = """
    listen_addresses = '127.0.0.1'
    unix_socket_directories = ''
    max_connections = 200
    shared_preload_libraries = 'pg_stat_statements'
    pg_stat_statements.track = none
"""


def start_postgresql() -> str:
    """Start a server with durable commits, and return the URL of its database `postgres`."""
    if programs := _programs():
        return _start(programs)
    from tests import postgres

    url = postgres.start()
    postgres.make_durable()
    return url


def _programs() -> Path | None:
    """Return the newest installed PostgreSQL that has pg_stat_statements."""
    found = [
        path.parent
        for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")
        if (path.parent.parent / "lib/pg_stat_statements.so").exists()
    ]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def _start(programs: Path) -> str:
    folder = Path(tempfile.mkdtemp(prefix="compare-pg-"))
    data, port = folder / "data", free_port()
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    if user:
        shutil.chown(folder, user)

    def call(*command: object) -> None:
        subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, user=user, cwd=folder)

    call(programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
    with (data / "postgresql.conf").open("a") as file:
        file.write(f"{SETTINGS}\nport = {port}\n")
    call(programs / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "start")

    @atexit.register
    def stop() -> None:
        call(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)

    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


def start_redis() -> str | None:
    """Start a Redis with its default settings, and return its URL; None if it is not installed."""
    if not (program := shutil.which("redis-server")):
        return None
    folder, port = tempfile.mkdtemp(prefix="compare-redis-"), free_port()
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder], stdout=subprocess.DEVNULL
    )

    @atexit.register
    def stop() -> None:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    return f"redis://127.0.0.1:{port}/0"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
