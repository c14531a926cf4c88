"""A cluster of MariaDB nodes with Galera: start it, kill a node, let it join again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from .packages import need, unpacked
from .servers import ADDRESS, Server, call, folder_of, free_port, wait_for

SERVER = "/usr/sbin/mariadbd"
PROVIDER = "/usr/lib/galera/libgalera_smm.so"
NAME = "djqueue"
START_WITHIN, REJOIN_WITHIN, GO_ON_WITHIN = 180.0, 300.0, 120.0  # seconds
NODES = 3


def install() -> Path:
    """Install what is missing, and return the folder of the programs that copy the data to a new node."""
    need(mariadb_server_core=SERVER, galera_4=PROVIDER, rsync="rsync", lsof="lsof", iproute2="ss", gawk="gawk")
    return unpacked("mariadb-server", "wsrep_sst_rsync").parent


class Node:
    """One MariaDB."""

    def __init__(self, folder: Path, name: str, group: list[int], port: int) -> None:
        self.name = name
        self.port = free_port()
        self.folder = folder_of(folder, name)
        self.data = self.folder / "data"
        self.config = folder / f"{name}.cnf"
        settings = "\n".join(f"{name} = {value}" for name, value in self.settings(group, port).items())
        self.config.write_text(f"[mysqld]\n{settings}\n")
        call(
            *("mariadb-install-db", f"--defaults-file={self.config}", "--auth-root-authentication-method=normal"),
            *("--skip-test-db", "--skip-name-resolve", "--wsrep-on=OFF"),
        )
        self.conflicts = 0  # before it was killed

    def settings(self, group: list[int], port: int) -> dict[str, object]:
        """Return its configuration; `group` has the ports on which the nodes talk to each other, `port` its own."""
        provider = {
            "gmcast.listen_addr": f"tcp://{ADDRESS}:{port}",
            "ist.recv_addr": f"{ADDRESS}:{free_port()}",
            "gcache.size": "128M",
        }
        return {
            "datadir": self.data,
            "socket": self.folder / "socket",
            "pid_file": self.folder / "pid",
            "bind_address": ADDRESS,
            "port": self.port,
            "skip_name_resolve": "ON",
            "character_set_server": "utf8mb4",
            "innodb_buffer_pool_size": "128M",
            "innodb_log_file_size": "32M",
            "innodb_flush_log_at_trx_commit": 2,
            "binlog_format": "ROW",
            "default_storage_engine": "InnoDB",
            "innodb_autoinc_lock_mode": 2,
            "wsrep_on": "ON",
            "wsrep_provider": PROVIDER,
            "wsrep_provider_options": '"' + ";".join(f"{name}={value}" for name, value in provider.items()) + '"',
            "wsrep_cluster_name": NAME,
            "wsrep_cluster_address": "gcomm://" + ",".join(f"{ADDRESS}:{one}" for one in group),
            "wsrep_node_name": self.name,
            "wsrep_node_address": f"{ADDRESS}:{port}",
            "wsrep_sst_method": "rsync",
            "wsrep_sst_receive_address": f"{ADDRESS}:{free_port()}",
            "wsrep_slave_threads": 2,
        }

    def start(self, programs: Path, *arguments: str) -> None:
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(self.folder)}
        command = [SERVER, f"--defaults-file={self.config}", *arguments]
        self.server = Server(self.name, *command, environment=environment)

    @property
    def url(self) -> str:
        return f"mysql://root@{ADDRESS}:{self.port}/{NAME}"

    def execute(self, sql: str) -> list[Any]:
        import MySQLdb

        with closing(MySQLdb.connect(host=ADDRESS, port=self.port, user="root", connect_timeout=5)) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            return list(cursor.fetchall())

    def status(self) -> dict[str, str]:
        """Return its variables about the cluster; none if it does not answer."""
        import MySQLdb

        try:
            rows = self.execute("SHOW GLOBAL STATUS LIKE 'wsrep%'")
        except MySQLdb.OperationalError:
            return {}
        return dict(rows)

    def sees(self, nodes: int) -> bool:
        """Return whether it is in a cluster of so many nodes, and up to date."""
        status = self.status()
        return (
            status.get("wsrep_cluster_size") == str(nodes)
            and status["wsrep_cluster_status"] == "Primary"
            and status["wsrep_local_state_comment"] == "Synced"
        )

    def count_conflicts(self) -> int:
        """Return how many transactions were refused because of another node, since the start of the test."""
        status = self.status()
        names = ("wsrep_local_cert_failures", "wsrep_local_bf_aborts")
        return self.conflicts + sum(int(status.get(name, 0)) for name in names)

    def kill(self) -> None:
        self.conflicts = self.count_conflicts()
        self.stop()

    def stop(self) -> None:
        self.server.kill()

    def recovered_position(self) -> str:
        """Return the last transaction that it has after a crash, so that the others send only what is missing."""
        output = call("sh", "-c", f"{SERVER} --defaults-file={self.config} --wsrep-recover 2>&1")
        return re.findall(r"Recovered position:? *(\S+)", output)[-1]


class Cluster:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.programs = install()
        group = [free_port() for _ in range(NODES)]
        self.nodes = [Node(folder, f"db{number + 1}", group, port) for number, port in enumerate(group)]
        for number, node in enumerate(self.nodes):
            node.start(self.programs, *(["--wsrep-new-cluster"] if number == 0 else []))
            stack.callback(node.stop)
            wait_for(f"{node.name} is in the cluster", partial(node.sees, number + 1), START_WITHIN)
        self.nodes[0].execute(f"CREATE DATABASE {NAME}")

    def wait_without(self, node: Node, meanwhile: Callable[[], None]) -> None:
        """Wait until the other nodes have noticed that it is gone."""
        others = [one for one in self.nodes if one is not node]
        wait_for(
            f"the cluster goes on without {node.name}",
            lambda: all(one.sees(NODES - 1) for one in others),
            GO_ON_WITHIN,
            meanwhile,
        )

    def rejoin(self, node: Node, meanwhile: Callable[[], None]) -> None:
        node.start(self.programs, f"--wsrep-start-position={node.recovered_position()}")
        wait_for(
            f"{node.name} is in the cluster again",
            lambda: all(one.sees(NODES) for one in self.nodes),
            REJOIN_WITHIN,
            meanwhile,
        )
