"""One etcd member, in which Patroni elects the primary."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from .packages import unpacked
from .servers import ADDRESS, Server, folder_of, free_port, wait_for

START_WITHIN = 60.0  # seconds


class Etcd:
    def __init__(self, folder: Path) -> None:
        program = unpacked("etcd-server", "etcd")
        self.host = f"{ADDRESS}:{free_port()}"
        clients, peers = f"http://{self.host}", f"http://{ADDRESS}:{free_port()}"
        self.server = Server(
            "etcd",
            str(program),
            *("--name", "etcd", "--data-dir", str(folder_of(folder, "etcd") / "data")),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"etcd={peers}", "--unsafe-no-fsync"),
        )

    def wait(self) -> None:
        wait_for("etcd is healthy", self.is_healthy, START_WITHIN)

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.host}/health", timeout=5) as response:
                return b"true" in response.read()
        except (urllib.error.URLError, OSError):
            return False
