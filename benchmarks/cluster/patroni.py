"""A cluster of PostgreSQL nodes under Patroni: start it, kill its primary, switch over."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.compare.environments import FOLDER

from . import postgresql
from .etcd import Etcd
from .servers import ADDRESS, TURN, Server, call, folder_of, free_port, python, wait_for

SCOPE = "djqueue"
REQUIREMENTS = Path(__file__).with_name("patroni.txt")
START_WITHIN, FAIL_OVER_WITHIN, REJOIN_WITHIN = 180.0, 180.0, 300.0  # seconds
ANSWER_WITHIN = 5.0
FROZEN_AFTERWARDS = 10.0  # while another node is the primary
BEHIND = 1.0  # the lag of asynchronous standbys when the primary is killed
# The smallest values that Patroni accepts; its defaults are 30, 10 and 10. A lost machine is noticed after `ttl`.
TTL, LOOP_WAIT, RETRY_TIMEOUT = 20, 1, 3


def installed() -> Path:
    """Return the folder with Patroni and what it needs, for the Python of the servers."""
    folder, interpreter = FOLDER / "patroni", python()
    stamp = folder / "installed"
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + interpreter.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return folder
    print("installing Patroni …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", interpreter]
    into = ["--root-user-action", "ignore", "--target", folder, "--requirement", REQUIREMENTS]
    finished = subprocess.run([*pip, "install", *into], check=False, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"Patroni cannot be installed: {finished.stderr}")
    stamp.write_text(digest)
    return folder


class Node:
    """One PostgreSQL with its Patroni."""

    def __init__(self, folder: Path, name: str, etcd: Etcd, synchronous: bool) -> None:
        self.name = name
        self.port, self.api = free_port(), free_port()
        self.folder = folder_of(folder, name)
        self.data = self.folder / "data"
        self.config = folder / f"{name}.json"
        self.config.write_text(json.dumps(self.settings(etcd, synchronous), indent=2))
        self.packages = installed()
        environment = {"PYTHONPATH": str(self.packages), "HOME": str(self.folder)}
        self.patroni = Server(name, python(), "-m", "patroni", str(self.config), environment=environment)

    def settings(self, etcd: Etcd, synchronous: bool) -> dict[str, Any]:
        return {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {"listen": f"{ADDRESS}:{self.api}", "connect_address": f"{ADDRESS}:{self.api}"},
            "etcd3": {"hosts": [etcd.host]},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": LOOP_WAIT,
                    "retry_timeout": RETRY_TIMEOUT,
                    "primary_start_timeout": 0,  # fail over, instead of starting a crashed server again
                    "maximum_lag_on_failover": 64 * 2**20,
                    "synchronous_mode": synchronous,
                    "synchronous_mode_strict": synchronous,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {"fsync": "off", "max_connections": 100, "wal_keep_size": "256MB"},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"{ADDRESS}:{self.port}",
                "connect_address": f"{ADDRESS}:{self.port}",
                "data_dir": str(self.data),
                "bin_dir": str(postgresql.programs()),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                    "rewind": {"username": "postgres"},
                },
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": [f"host all all {ADDRESS}/32 trust", f"host replication all {ADDRESS}/32 trust"],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
            },
        }

    def ask(self, path: str) -> Any:
        """Return what its Patroni answers; None if it does not, or answers "no"."""
        try:
            with urllib.request.urlopen(f"http://{ADDRESS}:{self.api}/{path}", timeout=ANSWER_WITHIN) as response:
                return json.load(response)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def is_primary(self) -> bool:
        return self.ask("primary") is not None

    def kill_server(self) -> None:
        postgresql.kill(self.data)

    def kill_machine(self) -> None:
        """Kill PostgreSQL, and the Patroni that would start it again."""
        self.patroni.kill()
        postgresql.kill(self.data)

    def signal_machine(self, number: int) -> None:
        """Send a signal to PostgreSQL and its Patroni."""
        self.patroni.signal_all(number)
        postgresql.send(postgresql.server_processes(self.data), number)

    def stop_sending(self) -> None:
        """Let the standbys fall behind."""
        postgresql.send(postgresql.walsenders(self.data), signal.SIGSTOP)


class Cluster:
    """Three nodes and an etcd."""

    def __init__(self, folder: Path, stack: ExitStack, synchronous: bool) -> None:
        self.synchronous = synchronous
        installed()
        self.etcd = Etcd(folder)
        stack.callback(self.etcd.server.kill)
        self.etcd.wait()
        self.nodes: list[Node] = []
        for name in ("pg1", "pg2", "pg3"):
            node = Node(folder, name, self.etcd, synchronous)
            stack.callback(node.kill_machine)
            self.nodes.append(node)
        wait_for("three nodes replicate", self.is_healthy, START_WITHIN)

    @property
    def url(self) -> str:
        """Return the multi-host DSN of all nodes."""
        hosts = ",".join(f"{ADDRESS}:{node.port}" for node in self.nodes)
        return f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write&connect_timeout=5"

    def primary(self) -> Node | None:
        return next((node for node in self.nodes if node.is_primary()), None)

    def members(self) -> list[dict[str, Any]]:
        primary = self.primary()
        found = primary.ask("cluster") if primary else None
        return list(found["members"]) if found else []

    def is_healthy(self) -> bool:
        """Return whether all standbys replicate from the primary, and one of them synchronously if asked for."""
        members = self.members()
        timelines = {member.get("timeline") for member in members}
        standbys = [member for member in members if member["role"] != "leader"]
        return (
            len(members) == len(self.nodes)
            and len(timelines) == 1
            and all(member["state"] == "streaming" for member in standbys)
            and self.synchronous == any(member["role"] == "sync_standby" for member in standbys)
        )

    def kill_primary(self, machine: bool, meanwhile: Callable[[], None]) -> tuple[str, float, float]:
        """Kill it and wait for another one; return a description, and the moments of both."""
        old = self.only_primary()
        if not self.synchronous:
            old.stop_sending()
            time.sleep(BEHIND)
        begin = time.monotonic()
        (old.kill_machine if machine else old.kill_server)()
        new = self.wait_for_another(old, meanwhile)
        end = time.monotonic()
        if machine:
            old.patroni.start()
        return f"{old.name}; {new.name} is the primary after {end - begin:.1f} s", begin, end

    def freeze_primary(self, meanwhile: Callable[[], None]) -> tuple[str, float, float]:
        """Stop it for so long that another one takes over: it still believes to be the primary when it goes on.

        Clients get no answer, and no error either.
        """
        old = self.only_primary()
        begin = time.monotonic()
        old.signal_machine(signal.SIGSTOP)
        try:
            new = self.wait_for_another(old, meanwhile)
            end = time.monotonic()
            while time.monotonic() < end + FROZEN_AFTERWARDS:
                time.sleep(TURN)
                meanwhile()
        finally:
            old.signal_machine(signal.SIGCONT)
        return f"{old.name}; {new.name} is the primary after {end - begin:.1f} s", begin, end

    def switch_over(self, meanwhile: Callable[[], None]) -> tuple[str, float, float]:
        """Let Patroni make a standby the primary, as for maintenance."""
        old = self.only_primary()
        roles = {member["name"]: member["role"] for member in self.members()}
        chosen = [name for name, role in roles.items() if role == "sync_standby" or not self.synchronous]
        candidate = next(name for name in chosen if name != old.name)
        command = ["--config-file", old.config, "switchover", SCOPE, "--leader", old.name, "--candidate", candidate]
        begin = time.monotonic()
        environment = os.environ | old.patroni.environment
        call(python(), old.packages / "bin/patronictl", *command, "--force", env=environment)
        new = self.wait_for_another(old, meanwhile)
        end = time.monotonic()
        return f"{old.name}; {new.name} is the primary after {end - begin:.1f} s", begin, end

    def only_primary(self) -> Node:
        primary = self.primary()
        if primary is None:
            raise RuntimeError("The cluster has no primary.")
        return primary

    def wait_for_another(self, old: Node, meanwhile: Callable[[], None]) -> Node:
        found: list[Node] = []

        def look() -> bool:
            found.extend(node for node in self.nodes if node is not old and node.is_primary())
            return bool(found)

        wait_for("another node is the primary", look, FAIL_OVER_WITHIN, meanwhile)
        return found[0]

    def wait_until_healthy(self, meanwhile: Callable[[], None]) -> None:
        wait_for("three nodes replicate again", self.is_healthy, REJOIN_WITHIN, meanwhile)
