"""A proxy before a PostgreSQL that can stop answering without closing a connection."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit


class Proxy:
    """A proxy that listens at `url`. Connections in `swallowed` were accepted, and get no further answers."""

    def __init__(self, folder: Path) -> None:
        parts = urlsplit(os.environ["DATABASE_URL"])
        [server] = parse_qs(parts.query)["host"]
        self.server = f"{server}/.s.PGSQL.5432"
        self.url = urlunsplit(parts._replace(query=f"host={folder}"))
        self.swallow_new = False
        self.swallow_statements = False  # on new connections: these are made, but the first statement gets no answer
        self.pairs: list[tuple[socket.socket, list[bool]]] = []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(f"{folder}/.s.PGSQL.5432")
        self.listening.listen(100)
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def swallow(self, *, new: bool) -> None:
        """Answer on no connection that is open now; nor on later ones, if `new`."""
        self.swallow_new = new
        for _, swallowed in self.pairs:
            swallowed[0] = True

    def cut(self) -> None:
        """Hang up all connections."""
        for client, _ in self.pairs:
            with suppress(OSError):  # it is closed already
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)  # close() alone would not wake the thread
        self.listening.close()
        for thread in self.threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.server)
                swallowed = [self.swallow_new]
                self.pairs.append((client, swallowed))
                thread = threading.Thread(target=self._serve, args=[client, server, swallowed], daemon=True)
                self.threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket, server: socket.socket, swallowed: list[bool]) -> None:
        """Pass bytes on in both directions until one side hangs up."""
        with client, server, suppress(OSError):
            other = {client: server, server: client}
            greeted = False
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is client and self.swallow_statements and greeted:
                        swallowed[0] = True
                    greeted = True
                    if not swallowed[0]:
                        other[source].sendall(data)
